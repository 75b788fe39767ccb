//! What members of one pool can learn of another, and do to it: nothing.

use std::process::Command;

use crate::suite::say;
use crate::{Actor, Pool, until};

/// What lies in the first pool.
struct Objects {
    segment: i64,
    set: i64,
    queue: i64,
    key: i64,
}

/// A call that a member of the second pool makes with what it knows of the first, and what must
/// come back: what comes back where there is no such object.
struct Attempt {
    call: &'static str,
    by: &'static str,
    order: String,
    expected: &'static str,
}

fn attempts(of: &Objects) -> Vec<Attempt> {
    let Objects { segment, set, queue, key } = of;
    // SHM_STAT and its like take the index, which an id holds in its low 15 bits.
    let index = |id: &i64| id % 32768;
    let (m, s, q) = (index(segment), index(set), index(queue));
    let rows: Vec<(&str, &str, String, &str)> = vec![
        ("shmget", "key", format!("shmget {key} 0 0"), "-1 ENOENT"),
        ("shmat", "id", format!("shmat {segment} 0"), "-1 EINVAL"),
        ("shmctl IPC_STAT", "id", format!("shmctl {segment} stat"), "-1 EINVAL"),
        ("shmctl IPC_SET", "id", format!("shmctl {segment} set"), "-1 EINVAL"),
        ("shmctl IPC_RMID", "id", format!("shmctl {segment} rmid"), "-1 EINVAL"),
        ("shmctl SHM_STAT", "index", format!("shmctl {m} index"), "-1 EINVAL"),
        ("shmctl SHM_STAT_ANY", "index", format!("shmctl {m} any"), "-1 EINVAL"),
        ("shmctl SHM_STAT", "index 0", "shmctl 0 index".into(), "-1 EINVAL"),
        ("shmctl SHM_INFO", "all", "shmctl 0 info".into(), "used 0 highest 0"),
        ("semget", "key", format!("semget {key} 0 0"), "-1 ENOENT"),
        ("semop", "id", format!("semop {set} 0,1"), "-1 EINVAL"),
        ("semtimedop", "id", format!("semop {set} -t10 0,1"), "-1 EINVAL"),
        ("semctl GETVAL", "id", format!("semctl {set} 0 getval"), "-1 EINVAL"),
        ("semctl SETVAL", "id", format!("semctl {set} 0 setval 9"), "-1 EINVAL"),
        ("semctl GETPID", "id", format!("semctl {set} 0 getpid"), "-1 EINVAL"),
        ("semctl IPC_STAT", "id", format!("semctl {set} 0 stat"), "-1 EINVAL"),
        ("semctl IPC_SET", "id", format!("semctl {set} 0 set"), "-1 EINVAL"),
        ("semctl IPC_RMID", "id", format!("semctl {set} 0 rmid"), "-1 EINVAL"),
        ("semctl SEM_STAT", "index", format!("semctl {s} 0 index"), "-1 EINVAL"),
        ("semctl SEM_STAT_ANY", "index", format!("semctl {s} 0 any"), "-1 EINVAL"),
        ("semctl SEM_INFO", "all", "semctl 0 0 info".into(), "used 0 highest 0"),
        ("msgget", "key", format!("msgget {key} 0"), "-1 ENOENT"),
        ("msgsnd", "id", format!("msgsnd {queue} 1 text"), "-1 EINVAL"),
        ("msgrcv", "id", format!("msgrcv {queue} 0 04000"), "-1 EINVAL"),
        ("msgctl IPC_STAT", "id", format!("msgctl {queue} stat"), "-1 EINVAL"),
        ("msgctl IPC_SET", "id", format!("msgctl {queue} set"), "-1 EINVAL"),
        ("msgctl IPC_RMID", "id", format!("msgctl {queue} rmid"), "-1 EINVAL"),
        ("msgctl MSG_STAT", "index", format!("msgctl {q} index"), "-1 EINVAL"),
        ("msgctl MSG_STAT_ANY", "index", format!("msgctl {q} any"), "-1 EINVAL"),
        ("msgctl MSG_INFO", "all", "msgctl 0 info".into(), "used 0 highest 0"),
    ];
    let attempt = |(call, by, order, expected)| Attempt { call, by, order, expected };
    rows.into_iter().map(attempt).collect()
}

fn look(actor: &mut Actor, of: &Objects, at: i64) -> Vec<String> {
    let Objects { segment, set, queue, .. } = of;
    let orders = [
        format!("peek {at} 0"),
        format!("shmctl {segment} stat"),
        format!("semctl {set} 0 getval"),
        format!("semctl {set} 0 getpid"),
        format!("msgctl {queue} stat"),
    ];
    orders.iter().map(|order| actor.ask(order)).collect()
}

/// Tries every call from the second pool with what is known of the first. `on_first` and
/// `on_second` start members; they may be started in different domains each time.
///
/// # Panics
/// When anything is seen or changed across.
pub fn matrix(
    first: &Pool,
    second: &Pool,
    on_first: &dyn Fn() -> Actor,
    on_second: &dyn Fn() -> Actor,
) {
    let mut member = on_first();
    let key = member.number("ftok /etc/passwd 7");
    let of = Objects {
        segment: member.number(&format!("shmget {key} 4096 01666")),
        set: member.number(&format!("semget {key} 1 01666")),
        queue: member.number(&format!("msgget {key} 01666")),
        key,
    };
    let at = member.number(&format!("shmat {} 0", of.segment));
    assert_eq!(member.number(&format!("poke {at} 0 4711")), 4711);
    assert_eq!(member.ask(&format!("semop {} 0,3", of.set)), "0");
    assert_eq!(member.ask(&format!("msgsnd {} 1 secret", of.queue)), "0");
    let before = look(&mut member, &of, at);

    let mut other_user = on_second();
    // The same path gives the same key; it opens nothing.
    assert_eq!(other_user.number("ftok /etc/passwd 7"), key);
    let mut wrong = Vec::new();
    say(&format!("{:22} {:8} {}", "CALL IN POOL 2", "BY", "OF WHAT LIES IN POOL 1"));
    for attempt in attempts(&of) {
        let answer = other_user.ask(&attempt.order);
        say(&format!("{:22} {:8} {answer}", attempt.call, attempt.by));
        if answer != attempt.expected {
            wrong.push(format!("{}: {answer} instead of {}", attempt.order, attempt.expected));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let after = look(&mut member, &of, at);
    assert_eq!(before, after, "what lies in pool 1 has changed");

    // Objects of its own under the same key, and by chance under the same ids, are other objects.
    let own = other_user.number(&format!("shmget {key} 4096 01600"));
    let own_set = other_user.number(&format!("semget {key} 1 01600"));
    let own_queue = other_user.number(&format!("msgget {key} 01600"));
    assert_eq!((own, own_set, own_queue), (of.segment, of.set, of.queue), "the ids are alike");
    let place = other_user.number(&format!("shmat {own} 0"));
    assert_eq!(other_user.number(&format!("peek {place} 0")), 0);
    assert_eq!(other_user.number(&format!("semctl {own_set} 0 getval")), 0);
    assert_eq!(other_user.ask(&format!("msgrcv {own_queue} 0 04000")), "-1 ENOMSG");
    assert_eq!(other_user.number(&format!("poke {place} 0 1")), 1);
    // A waiter in one pool is not woken from the other.
    member.tell(&format!("semop {} 0,-9", of.set));
    until("the member sleeps", || first.waiters(of.set) == 1);
    assert_eq!(other_user.ask(&format!("semop {own_set} 0,9")), "0");
    assert_eq!(first.waiters(of.set), 1);
    for order in [
        format!("shmctl {own} rmid"),
        format!("semctl {own_set} 0 rmid"),
        format!("msgctl {own_queue} rmid"),
    ] {
        assert_eq!(other_user.ask(&order), "0");
    }
    assert_eq!(first.waiters(of.set), 1);
    let mut colleague = on_first();
    assert_eq!(colleague.ask(&format!("semop {} 0,6", of.set)), "0");
    assert_eq!(member.hear(), "0");
    assert_eq!(member.number(&format!("peek {at} 0")), 4711);
    assert_eq!(member.ask(&format!("msgrcv {} 0 04000", of.queue)), "1 secret");
    // The kernel's own are a third world.
    let mut outside = Actor::start(Command::new("env").arg("-u").arg("LD_PRELOAD"));
    assert_eq!(outside.ask(&format!("shmctl {} stat", of.segment)), "-1 EINVAL");
    assert_eq!(outside.ask(&format!("shmget {key} 0 0")), "-1 ENOENT");
    drop(other_user);
    until("nothing is left in pool 2", || {
        ["segments", "semaphores", "queues"].iter().all(|table| second.rows(table).is_empty())
    });
    for order in [
        format!("shmctl {} rmid", of.segment),
        format!("semctl {} 0 rmid", of.set),
        format!("msgctl {} rmid", of.queue),
    ] {
        assert_eq!(colleague.ask(&order), "0");
    }
}
