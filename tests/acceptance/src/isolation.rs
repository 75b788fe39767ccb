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

/// Makes an object of each kind in the first pool, with something in it; they, and the address of
/// the segment.
fn fill(member: &mut Actor) -> (Objects, i64) {
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
    (of, at)
}

/// Objects of the second pool under the same key, and by chance under the same ids, are other
/// objects. The waiter in the first pool is not woken by what happens to them: it `sleeps`.
fn use_own_objects(user: &mut Actor, of: &Objects, sleeps: &dyn Fn() -> bool) {
    let key = of.key;
    let segment = user.number(&format!("shmget {key} 4096 01600"));
    let set = user.number(&format!("semget {key} 1 01600"));
    let queue = user.number(&format!("msgget {key} 01600"));
    assert_eq!((segment, set, queue), (of.segment, of.set, of.queue), "the ids are alike");
    let place = user.number(&format!("shmat {segment} 0"));
    assert_eq!(user.number(&format!("peek {place} 0")), 0);
    assert_eq!(user.number(&format!("semctl {set} 0 getval")), 0);
    assert_eq!(user.ask(&format!("msgrcv {queue} 0 04000")), "-1 ENOMSG");
    assert_eq!(user.number(&format!("poke {place} 0 1")), 1);
    assert_eq!(user.ask(&format!("semop {set} 0,9")), "0");
    assert!(sleeps());
    for order in [
        format!("shmctl {segment} rmid"),
        format!("semctl {set} 0 rmid"),
        format!("msgctl {queue} rmid"),
    ] {
        assert_eq!(user.ask(&order), "0");
    }
    assert!(sleeps());
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
    let (of, at) = fill(&mut member);
    let key = of.key;
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

    member.tell(&format!("semop {} 0,-9", of.set));
    until("the member sleeps", || first.waiters(of.set) == 1);
    use_own_objects(&mut other_user, &of, &|| first.waiters(of.set) == 1);
    let mut other_member = on_first();
    assert_eq!(other_member.ask(&format!("semop {} 0,6", of.set)), "0");
    assert_eq!(member.hear(), "0");
    assert_eq!(member.number(&format!("peek {at} 0")), 4711);
    assert_eq!(member.ask(&format!("msgrcv {} 0 04000", of.queue)), "1 secret");
    // The kernel's own are of neither pool.
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
        assert_eq!(other_member.ask(&order), "0");
    }
}
