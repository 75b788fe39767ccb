//! Two pools at once.

use std::process::Command;

use vshmem_acceptance::suite::{root, say};
use vshmem_acceptance::{Actor, Pool, build, run};

/// What lies in the first pool.
struct Objects {
    segment: i64,
    set: i64,
    queue: i64,
    key: i64,
}

/// A call that a member of the second pool makes with what it knows of the first, and what must come back: what comes
/// back where there is no such object.
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

pub fn matrix() {
    let (first, second) = (Pool::new("32M", &[]), Pool::new("32M", &[]));
    let mut member = Actor::on(&first);
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

    let mut stranger = Actor::on(&second);
    // The same path gives the same key; it opens nothing.
    assert_eq!(stranger.number("ftok /etc/passwd 7"), key);
    let mut wrong = Vec::new();
    say(&format!("{:22} {:8} {}", "CALL IN POOL 2", "BY", "OF WHAT LIES IN POOL 1"));
    for attempt in attempts(&of) {
        let answer = stranger.ask(&attempt.order);
        say(&format!("{:22} {:8} {answer}", attempt.call, attempt.by));
        if answer != attempt.expected {
            wrong.push(format!("{}: {answer} instead of {}", attempt.order, attempt.expected));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let after = look(&mut member, &of, at);
    assert_eq!(before, after, "what lies in pool 1 has changed");

    // Objects of its own under the same key, and by chance under the same ids, are other objects.
    let own = stranger.number(&format!("shmget {key} 4096 01600"));
    let own_set = stranger.number(&format!("semget {key} 1 01600"));
    let own_queue = stranger.number(&format!("msgget {key} 01600"));
    assert_eq!((own, own_set, own_queue), (of.segment, of.set, of.queue), "the ids are alike");
    let place = stranger.number(&format!("shmat {own} 0"));
    assert_eq!(stranger.number(&format!("peek {place} 0")), 0);
    assert_eq!(stranger.number(&format!("semctl {own_set} 0 getval")), 0);
    assert_eq!(stranger.ask(&format!("msgrcv {own_queue} 0 04000")), "-1 ENOMSG");
    assert_eq!(stranger.number(&format!("poke {place} 0 1")), 1);
    // Somebody asleep in one pool is not woken from the other.
    member.tell(&format!("semop {} 0,-9", of.set));
    vshmem_acceptance::until("the member sleeps", || first.sleepers(of.set) == 1);
    assert_eq!(stranger.ask(&format!("semop {own_set} 0,9")), "0");
    assert_eq!(first.sleepers(of.set), 1);
    for order in [
        format!("shmctl {own} rmid"),
        format!("semctl {own_set} 0 rmid"),
        format!("msgctl {own_queue} rmid"),
    ] {
        assert_eq!(stranger.ask(&order), "0");
    }
    assert_eq!(first.sleepers(of.set), 1);
    let mut colleague = Actor::on(&first);
    assert_eq!(colleague.ask(&format!("semop {} 0,6", of.set)), "0");
    assert_eq!(member.hear(), "0");
    assert_eq!(member.number(&format!("peek {at} 0")), 4711);
    assert_eq!(member.ask(&format!("msgrcv {} 0 04000", of.queue)), "1 secret");
    // The kernel's own are a third world.
    let mut outside = Actor::start(Command::new("env").arg("-u").arg("LD_PRELOAD"));
    assert_eq!(outside.ask(&format!("shmctl {} stat", of.segment)), "-1 EINVAL");
    assert_eq!(outside.ask(&format!("shmget {key} 0 0")), "-1 ENOENT");
    first.assert_clean();
    second.assert_clean();
}

/// Pools of two users: neither gets at the other's, by name or by path.
pub fn paths() {
    if !root("pools of two users") {
        return;
    }
    let public = build::public();
    let pool = Pool::new("32M", &[]);
    let (place, vshmem) =
        (pool.place().display().to_string(), public.join("vshmem").display().to_string());
    let nobody = |words: &[&str]| run(Command::new("setpriv").args(build::NOBODY).args(words));
    let refusals: [&[&str]; 6] = [
        &[&vshmem, "run", "--pool", pool.name(), "--", "true"],
        &[&vshmem, "run", "--pool", &place, "--", "true"],
        &[&vshmem, "ls", "--pool", pool.name()],
        &[&vshmem, "rm", "-a", "--pool", pool.name()],
        &[&vshmem, "pool", "check", pool.name()],
        &[&vshmem, "pool", "rm", "--force", pool.name()],
    ];
    for words in refusals {
        nobody(words).refused(1, &[&place]);
    }
    // And by hand, past the command: errno at the call, and a sentence for who asks.
    let actor = build::actor();
    let settings = [
        format!("LD_PRELOAD={}", public.join("libvshmem_preload.so").display()),
        format!("VSHMEM_POOL={place}"),
        format!(
            "printf 'shmget 0 4096 0600\\nsemget 0 1 0600\\nmsgget 0 0600\\n' | {}",
            actor.display()
        ),
    ];
    let [library, at, line] = &settings;
    let ran = nobody(&["env", library, at, "VSHMEM_LOG=info", "sh", "-c", line]);
    assert_eq!(ran.out, "-1 ENOSYS\n".repeat(3), "{ran:?}");
    assert!(ran.err.contains(&place), "{ran:?}");
    assert_ne!(nobody(&["cat", &place]).code, 0);
    assert_ne!(nobody(&["sh", "-c", &format!(": >>{place}")]).code, 0);
    pool.assert_clean();
}
