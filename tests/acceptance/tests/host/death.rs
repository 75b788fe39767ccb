//! Deaths on this machine.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::ClockId;
use vshmem_acceptance::actor::kill;
use vshmem_acceptance::suite::{self, say};
use vshmem_acceptance::{Actor, Pool, build, crash, until};

const FOR_EVER: Duration = Duration::from_secs(60);

pub fn wakers() {
    let pool = Pool::new("32M", &[]);
    let report = crash::wakers(
        &pool,
        |order| Actor::start(pool.run_with(build::crashing_binaries()).env("VSHMEM_CRASH", order)),
        || Actor::on(&pool),
    );
    report.iter().for_each(|line| say(line));
}

struct Held {
    pool: Pool,
    holder: Actor,
    waiter: Actor,
    set: i64,
}

fn held() -> Held {
    let pool = Pool::new("32M", &[]);
    let (mut holder, mut waiter) = (Actor::on(&pool), Actor::on(&pool));
    let set = holder.number("semget 0 1 01600");
    assert_eq!(holder.ask(&format!("semctl {set} 0 setval 1")), "0");
    assert_eq!(holder.ask(&format!("semop {set} 0,-1,u")), "0");
    waiter.tell(&format!("semop {set} 0,-1,u"));
    until("the waiter sleeps", || pool.waiters(set) == 1);
    Held { pool, holder, waiter, set }
}

impl Held {
    /// Insists that the waiter wakes; then removes everything.
    #[track_caller]
    fn assert_woken(mut self, what: &str, since: Instant) {
        let Some((answer, when)) = self.waiter.hear_within(FOR_EVER) else {
            panic!("{what}: the waiter still sleeps after {FOR_EVER:?}: {}", self.pool.ls());
        };
        assert_eq!(answer, "0");
        say(&format!(
            "{what}: from the kill to the wake {:.3} s",
            when.duration_since(since).as_secs_f64()
        ));
        assert_eq!(self.waiter.ask(&format!("semctl {} 0 rmid", self.set)), "0");
        self.holder.kill();
        self.waiter.end();
        self.pool.assert_clean();
    }
}

pub fn process() {
    let mut held = held();
    let start = Instant::now();
    held.holder.kill();
    held.assert_woken("kill -9 of the holder", start);
}

pub fn agent_alone() {
    let mut held = held();
    let agent = held.pool.agent().expect("an agent");
    kill(agent);
    until("there is another agent", || held.pool.agent().is_some_and(|now| now != agent));
    let start = Instant::now();
    held.holder.kill();
    held.assert_woken("kill -9 of the holder, its agent killed before and replaced", start);
}

pub fn agent_and_client() {
    let mut held = held();
    let agent = held.pool.agent().expect("an agent");
    let start = Instant::now();
    kill(agent);
    held.holder.kill();
    held.assert_woken("kill -9 of the holder and its agent at once", start);
}

/// Its number is the same on every architecture.
const FUTEX_WAITV: &str = "449";

/// Whether the only thread of a process sleeps on its own word and on its agent's: futex_waitv(2).
fn rests(pid: i64) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    call.split(' ').next() == Some(FUTEX_WAITV)
}

/// Whether this kernel has futex_waitv(2). Without words it is EINVAL.
fn sleeps_on_two_words() -> bool {
    futex::waitv(&[], futex::WaitvFlags::empty(), None, ClockId::Monotonic) != Err(Errno::NOSYS)
}

pub fn agent_of_many() {
    if !sleeps_on_two_words() {
        suite::skip("waiters at rest", "the kernel has no futex_waitv: waiters look once a second");
        return;
    }
    let pool = Pool::new("32M", &[]);
    let mut waker = Actor::on(&pool);
    let set = waker.number("semget 0 1 01600");
    let mut waiters: Vec<Actor> = (0..5).map(|_| Actor::on(&pool)).collect();
    let pids: Vec<i64> = waiters.iter_mut().map(Actor::pid).collect();
    for waiter in &mut waiters {
        waiter.tell(&format!("semop {set} 0,-1"));
    }
    until("all are at rest", || pids.iter().all(|&pid| rests(pid)));
    for turn in ["first", "second"] {
        let agent = pool.agent().expect("an agent");
        kill(agent);
        until(&format!("there is another agent after the {turn}"), || {
            pool.agent().is_some_and(|now| now != agent)
        });
        until("all are at rest again", || pids.iter().all(|&pid| rests(pid)));
    }
    assert_eq!(waker.ask(&format!("semop {set} 0,5")), "0");
    for waiter in &mut waiters {
        assert_eq!(waiter.hear(), "0");
    }
    assert_eq!(waker.ask(&format!("semctl {set} 0 rmid")), "0");
    pool.assert_clean();
}
