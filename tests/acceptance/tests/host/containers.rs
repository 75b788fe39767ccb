//! Containers without privileges as domains of one pool.

use std::process::Command;
use std::time::Instant;

use vshmem_acceptance::suite::{root, say, skip};
use vshmem_acceptance::{Actor, Pool, TIMEOUT, build, run, until};

/// A container of an ordinary user: user, PID and mount namespaces of its own.
fn container() -> Command {
    let mut command = Command::new("setpriv");
    command.args(build::NOBODY);
    command.args([
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--mount-proc",
    ]);
    command
}

fn program(pool: &Pool) -> Command {
    let mut command = container();
    command.arg(build::public().join("vshmem")).args(["run", "--pool", pool.name(), "--"]);
    command
}

fn possible(what: &str) -> bool {
    if !root(what) {
        return false;
    }
    let ran = run(container().arg("true"));
    if ran.code != 0 {
        skip(what, &format!("no user namespaces for ordinary users here: {}", ran.err.trim()));
    }
    ran.code == 0
}

pub fn two() {
    if !possible("two unprivileged containers") {
        return;
    }
    let pool = Pool::new("32M", &["--mode", "0666"]);
    let (mut one, mut other) =
        (Actor::start(&mut program(&pool)), Actor::start(&mut program(&pool)));
    let set = one.number("semget 0x5e10 2 01600");
    assert_eq!(other.number("semget 0x5e10 2 0"), set);
    let domains = pool.rows("domains").iter().filter(|row| row["clients"] != 0).count();
    assert_eq!(domains, 2, "{:?}", pool.rows("domains"));
    // Hand-over, and whose pid is seen.
    for round in 0..50 {
        let (waiter, waker) =
            if round % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        waiter.tell(&format!("semop {set} 0,-1"));
        until("the waiter is counted", || waker.number(&format!("semctl {set} 0 getncnt")) == 1);
        assert_eq!(waker.ask(&format!("semop {set} 0,1")), "0");
        assert_eq!(waiter.hear(), "0");
    }
    assert_eq!(one.ask(&format!("semop {set} 1,1")), "0");
    let pid = one.pid();
    assert_eq!(one.number(&format!("semctl {set} 1 getpid")), pid);
    assert_eq!(other.number(&format!("semctl {set} 1 getpid")), 0);
    let segment = one.number("shmget 0x5e10 4096 01600");
    assert_eq!(other.number(&format!("shmat {segment} 0")), 0);
    assert!(other.ask(&format!("shmctl {segment} stat")).starts_with("nattch 1 cpid 0 lpid "));
    assert_eq!(
        one.ask(&format!("shmctl {segment} stat")),
        format!("nattch 1 cpid {pid} lpid 0 size 4096")
    );
    let queue = other.number("msgget 0x5e10 01600");
    assert_eq!(other.ask(&format!("msgsnd {queue} 1 hello")), "0");
    assert_eq!(one.ask(&format!("msgctl {queue} stat")), "qnum 1 lspid 0 lrpid 0");
    assert_eq!(one.ask(&format!("msgrcv {queue} 0 0")), "1 hello");
    assert_eq!(one.ask(&format!("msgctl {queue} stat")), format!("qnum 0 lspid 0 lrpid {pid}"));
    // The stock program, a role in each.
    let handover = |role: &'static str| {
        let mut command = program(&pool);
        command.arg(build::public_program("bench", "handover")).args([
            "--rounds",
            "5000",
            "--timeout",
            "600",
            role,
        ]);
        std::thread::spawn(move || run(&mut command))
    };
    let (first, second) = (handover("first"), handover("second"));
    say(&format!("two containers: {}", first.join().unwrap().ok().trim()));
    second.join().unwrap().ok();
    // A container that ends whole: its agent with it, so that it is the operator who says that it
    // is dead.
    assert_eq!(one.ask(&format!("semctl {set} 0 setval 0")), "0");
    drop(other);
    drop(one);
}

/// A container whose processes, the agent among them, are all killed at once: no process is left in
/// it to say so. A pool that was made with --evict-after finds out by the lease.
pub fn silent() {
    if !possible("a container that is killed whole") {
        return;
    }
    let pool = Pool::new("32M", &["--mode", "0666", "--evict-after", "3"]);
    let mut holder = Actor::start(&mut program(&pool));
    let mut waiter = Actor::on(&pool);
    let set = holder.number("semget 0x5e11 1 01666");
    assert_eq!(holder.ask(&format!("semctl {set} 0 setval 1")), "0");
    assert_eq!(holder.ask(&format!("semop {set} 0,-1,u")), "0");
    waiter.tell(&format!("semop {set} 0,-1"));
    until("the waiter sleeps", || pool.waiters(set) == 1);
    let start = Instant::now();
    // unshare kills its child, PID 1 of the namespace, and so everything in it.
    holder.kill();
    let Some((answer, when)) = waiter.hear_within(TIMEOUT) else {
        panic!("the waiter still sleeps: {}", pool.ls());
    };
    assert_eq!(answer, "0");
    say(&format!(
        "a container killed whole, --evict-after 3: from the kill to the wake {:.3} s",
        when.duration_since(start).as_secs_f64()
    ));
}
