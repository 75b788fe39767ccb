//! What two guests, or a guest and the host, do together.

use std::process::Command;
use std::thread;
use std::time::Instant;

use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Guests, Pool, Ran, build, until};

use crate::shared;

pub const RUN: &[&str] = &["vshmem", "run"];

/// Two commands at once, one in each guest.
fn both(guests: &Guests, first: &[&str], second: &[&str]) -> (Ran, Ran) {
    thread::scope(|scope| {
        let one = scope.spawn(|| guests.run(1, &[RUN, first].concat()));
        let other = guests.run(2, &[RUN, second].concat());
        (one.join().unwrap(), other)
    })
}

/// What a process held that has ended is given back by the agent of its domain.
fn assert_clean(pool: &Pool) {
    for table in ["segments", "queues", "semaphores"] {
        until(&format!("no {table} are left"), || pool.rows(table).is_empty());
    }
    pool.assert_clean();
}

pub fn matrix() {
    let guests = shared();
    let (fill, check) = both(&guests, &["matrix_fill", "-s", "7"], &["matrix_check", "-s", "7"]);
    assert!(check.clone().ok().contains("0 bytes differ"), "{check:?}");
    fill.ok();
    say(check.out.trim());
    assert_clean(guests.pool());
}

pub fn semop() {
    let guests = shared();
    let mut waiter = Actor::in_guest(&guests, 2, RUN, &[]);
    let mut waker = Actor::in_guest(&guests, 1, RUN, &[]);
    let set = waiter.number("semget 0x5e01 1 01600");
    assert_eq!(waker.number("semget 0x5e01 1 0"), set);
    waiter.tell(&format!("semop {set} 0,-1"));
    until("the waiter is counted", || waker.number(&format!("semctl {set} 0 getncnt")) == 1);
    let start = Instant::now();
    assert_eq!(waker.ask(&format!("semop {set} 0,1")), "0");
    assert_eq!(waiter.hear(), "0");
    say(&format!("released across guests; heard of on the host after {:?}", start.elapsed()));
    // The last operation was the waiter's: its own pid to itself, 0 to the other domain.
    let pid = waiter.pid();
    assert_eq!(waiter.number(&format!("semctl {set} 0 getpid")), pid);
    assert_eq!(waker.number(&format!("semctl {set} 0 getpid")), 0);
    // Zero-waiters too.
    assert_eq!(waker.ask(&format!("semctl {set} 0 setval 2")), "0");
    waiter.tell(&format!("semop {set} 0,0"));
    until("the waiter is counted", || waker.number(&format!("semctl {set} 0 getzcnt")) == 1);
    assert_eq!(waker.ask(&format!("semop {set} 0,-2")), "0");
    assert_eq!(waiter.hear(), "0");
    // And removal.
    waiter.tell(&format!("semop {set} 0,-1"));
    until("the waiter is counted", || waker.number(&format!("semctl {set} 0 getncnt")) == 1);
    assert_eq!(waker.ask(&format!("semctl {set} 0 rmid")), "0");
    assert_eq!(waiter.hear(), "-1 EIDRM");
}

pub fn types() {
    let guests = shared();
    let mut receiver = Actor::in_guest(&guests, 2, RUN, &[]);
    let mut sender = Actor::in_guest(&guests, 1, RUN, &[]);
    let queue = sender.number("msgget 0x5e02 01600");
    assert_eq!(receiver.number("msgget 0x5e02 0"), queue);
    for (kind, text) in [(5, "five"), (3, "three"), (4, "four"), (3, "three-again")] {
        assert_eq!(sender.ask(&format!("msgsnd {queue} {kind} {text}")), "0");
    }
    assert_eq!(receiver.ask(&format!("msgrcv {queue} 4 0")), "4 four");
    assert_eq!(receiver.ask(&format!("msgrcv {queue} -4 0")), "3 three");
    assert_eq!(receiver.ask(&format!("msgrcv {queue} -4 0")), "3 three-again");
    assert_eq!(receiver.ask(&format!("msgrcv {queue} 0 0")), "5 five");
    // Asleep: a message of another type leaves it so, the right one wakes it.
    for (wanted, wrong, right) in [("7", 6, 7), ("-2", 3, 1)] {
        receiver.tell(&format!("msgrcv {queue} {wanted} 0"));
        until("the receiver sleeps", || guests.pool().waiters(queue) == 1);
        assert_eq!(sender.ask(&format!("msgsnd {queue} {wrong} wrong")), "0");
        until("it sleeps again, if it has looked", || guests.pool().waiters(queue) == 1);
        assert_eq!(sender.ask(&format!("msgsnd {queue} {right} right")), "0");
        assert_eq!(receiver.hear(), format!("{right} right"));
        assert_eq!(receiver.ask(&format!("msgrcv {queue} 0 0")), format!("{wrong} wrong"));
    }
    assert_eq!(sender.ask(&format!("msgctl {queue} rmid")), "0");
}

pub fn hand_overs() {
    let guests = shared();
    let words = |role| ["handover", "--rounds", "10000", "--timeout", "600", role];
    let start = Instant::now();
    let (first, second) = both(&guests, &words("first"), &words("second"));
    let seconds = start.elapsed().as_secs_f64();
    for ran in [&first, &second] {
        assert!(ran.clone().ok().contains("10000 hand-overs each way, 0 wrong"), "{ran:?}");
    }
    say(&format!("{} in {seconds:.2} s, start-up counted", first.out.trim()));
    assert_clean(guests.pool());
}

pub fn flood() {
    let guests = shared();
    let words = |role| ["flood", "--rounds", "100000", "--timeout", "600", role];
    let start = Instant::now();
    let (sender, receiver) = both(&guests, &words("sender"), &words("receiver"));
    let seconds = start.elapsed().as_secs_f64();
    for ran in [&sender, &receiver] {
        assert!(ran.clone().ok().contains("100000 messages, 0 wrong"), "{ran:?}");
    }
    say(&format!("{} in {seconds:.2} s, start-up counted", receiver.out.trim()));
    assert_clean(guests.pool());
}

pub fn round_trips() {
    let guests = shared();
    let lines = std::env::temp_dir().join(format!("{}.jsonl", guests.name()));
    let mut bench = Command::new(build::vshmem());
    bench.args(["bench", "sysv", "--guests", "--pairs", "1", "--rounds", "100", "--lab"]);
    bench.args([guests.name(), "--programs"]).arg(build::programs("bench"));
    let shown = vshmem_acceptance::run(bench.arg("--json").arg(&lines)).ok();
    let contenders =
        ["sem", "msg", "posix-sem", "mq", "cond"].map(|one| format!("{one}, two guests"));
    for part in
        ["two guests of lab", "tcp / guests"].into_iter().chain(contenders.iter().map(|one| &**one))
    {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let text = std::fs::read_to_string(&lines).unwrap();
    std::fs::remove_file(&lines).unwrap();
    let samples = |place: &str| {
        let place = format!("\"place\":\"{place}\"");
        text.lines().filter(|line| line.contains(&place)).count()
    };
    let places = ["guests", "network", "kernel", "pool"].map(samples);
    // Each with `raw`. System V's: in one kernel and over TCP, too. POSIX's: beside System V's.
    assert_eq!(places, [2 * 2 + 3 * 3, 2, 2 * 2 + 3, 2], "{text}");
    // What it has brought to the guests is gone.
    for guest in [1, 2] {
        guests.shell(guest, "! ls -d /tmp/vshmem-bench-*").ok();
    }
    assert_clean(guests.pool());
}

pub fn host_and_guest() {
    let guests = shared();
    let mut guest = Actor::in_guest(&guests, 1, RUN, &[]);
    let mut host = Actor::on(guests.pool());
    let set = guest.number("semget 0x5e03 2 01600");
    assert_eq!(host.number("semget 0x5e03 2 0"), set);
    let queue = host.number("msgget 0x5e03 01600");
    assert_eq!(guest.number("msgget 0x5e03 0"), queue);
    // Semaphores both ways.
    for round in 0..20 {
        let (waiter, waker) =
            if round % 2 == 0 { (&mut guest, &mut host) } else { (&mut host, &mut guest) };
        waiter.tell(&format!("semop {set} 0,-1"));
        until("the waiter is counted", || waker.number(&format!("semctl {set} 0 getncnt")) == 1);
        assert_eq!(waker.ask(&format!("semop {set} 0,1")), "0");
        assert_eq!(waiter.hear(), "0");
    }
    // Messages both ways.
    for round in 0..20 {
        let (receiver, sender) =
            if round % 2 == 0 { (&mut guest, &mut host) } else { (&mut host, &mut guest) };
        receiver.tell(&format!("msgrcv {queue} 9 0"));
        until("the receiver sleeps", || guests.pool().waiters(queue) == 1);
        assert_eq!(sender.ask(&format!("msgsnd {queue} 9 round-{round}")), "0");
        assert_eq!(receiver.hear(), format!("9 round-{round}"));
    }
    // Memory.
    let segment = host.number("shmget 0x5e03 8192 01600");
    assert_eq!(guest.number("shmget 0x5e03 8192 0"), segment);
    let (here, there) =
        (host.number(&format!("shmat {segment} 0")), guest.number(&format!("shmat {segment} 0")));
    assert_eq!(host.number(&format!("poke {here} 4096 77")), 77);
    assert_eq!(guest.number(&format!("peek {there} 4096")), 77);
    assert!(guest.ask(&format!("shmctl {segment} stat")).starts_with("nattch 2 cpid 0"));
    assert_eq!(guest.ask(&format!("shmctl {segment} rmid")), "0");
    assert_eq!(guest.ask(&format!("semctl {set} 0 rmid")), "0");
    assert_eq!(guest.ask(&format!("msgctl {queue} rmid")), "0");
    drop(host);
    guest.end();
    until("the last attach is given back", || guests.pool().rows("segments").is_empty());
    assert_clean(guests.pool());
    // The stock programs as well: the sender here, the receiver there.
    let bench = build::programs("bench");
    let (sender, receiver) = thread::scope(|scope| {
        let there = scope.spawn(|| {
            let words = ["--rounds", "20000", "--timeout", "600", "receiver"];
            guests.run(2, &[RUN, &["flood"], &words].concat())
        });
        let mut here = guests.pool().run();
        here.arg(bench.join("flood")).args(["--rounds", "20000", "--timeout", "600", "sender"]);
        (vshmem_acceptance::run(&mut here), there.join().unwrap())
    });
    say(&format!("host and guest: {}", receiver.clone().ok().trim()));
    sender.ok();
    assert_clean(guests.pool());
}
