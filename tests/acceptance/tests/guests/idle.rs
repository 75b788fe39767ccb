//! What an idle waiter costs: how often it wakes in vain.

use std::time::{Duration, Instant};

use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Guests, Pool, until};

use crate::exchange::RUN;

/// How long a count has to stand still before it is taken to be at rest: longer than the first
/// sleep.
const STILL: Duration = Duration::from_millis(1500);
const WATCHED: Duration = Duration::from_secs(4);
/// A waiter that looks again without bound does so thousands of times a second.
const MOST: f64 = 1500.0;

fn switches(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("{status}"))
}

/// Where a process is, and its pid there.
pub enum Spot<'a> {
    Here(i64),
    Guest(&'a Guests, u32, i64),
}

impl Spot<'_> {
    /// How often it has gone to sleep so far.
    pub fn switches(&self) -> u64 {
        match self {
            Spot::Here(pid) => {
                switches(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap())
            }
            Spot::Guest(guests, guest, pid) => {
                switches(&guests.run(*guest, &["cat", &format!("/proc/{pid}/status")]).ok())
            }
        }
    }

    pub fn report(&self, what: &str) {
        // The spin before the first sleep, and the back-off, are over.
        std::thread::sleep(Duration::from_millis(300));
        let (count, rate) = self.watch();
        say(&format!("{what}: {rate:.1} wake-ups/s ({count})"));
        assert!(rate < MOST, "{what}: {rate} wake-ups a second");
    }

    /// A waiter that all domains can notify: it comes to rest, and then wakes once a minute at
    /// most.
    pub fn report_rest(&self, what: &str) {
        until("it rests", || {
            let before = self.switches();
            std::thread::sleep(STILL);
            self.switches() == before
        });
        let (count, rate) = self.watch();
        say(&format!("{what}: {rate:.1} wake-ups/s ({count})"));
        assert!(count <= 1, "{what}: {count} wake-ups");
    }

    fn watch(&self) -> (u64, f64) {
        let (before, start) = (self.switches(), Instant::now());
        std::thread::sleep(WATCHED);
        let count = self.switches() - before;
        (count, count as f64 / start.elapsed().as_secs_f64())
    }
}

pub fn asleep(actor: &mut Actor, pool: &Pool) -> (i64, i64) {
    let pid = actor.pid();
    let set = actor.number("semget 0 1 01600");
    actor.tell(&format!("semop {set} 0,-1"));
    until("it sleeps", || pool.waiters(set) == 1);
    (pid, set)
}

/// Wakes a waiter, makes it sleep again and reports: the back-off starts anew.
fn again(waiter: &mut Actor, waker: &mut Actor, set: i64, pool: &Pool) {
    assert_eq!(waker.ask(&format!("semop {set} 0,1")), "0");
    assert_eq!(waiter.hear(), "0");
    waiter.tell(&format!("semop {set} 0,-1"));
    until("it sleeps", || pool.waiters(set) == 1);
}

pub fn waiters() {
    // On the host alone first.
    let alone = Pool::new("32M", &[]);
    let mut here = Actor::on(&alone);
    let (pid, _) = asleep(&mut here, &alone);
    Spot::Here(pid).report_rest("link local, the host alone");
    let agent = alone.agent().expect("an agent");
    Spot::Here(agent.into()).report("link local, the host's agent");
    drop(here);
    drop(alone);

    let machine = crate::machine();
    let guests = Guests::boot(machine, "idle", 2, machine.pool("32M"), &[]);
    let pool = guests.pool();
    // Across kernels no domain is notified without interrupts.
    let among = |spot: Spot<'_>, what: &str| {
        if machine.has_interrupts() { spot.report_rest(what) } else { spot.report(what) }
    };
    let mut first = Actor::in_guest(&guests, 1, RUN, &[]);
    let (pid, set) = asleep(&mut first, pool);
    Spot::Guest(&guests, 1, pid).report_rest(&format!("link {machine}, a guest alone"));
    let agent = pool.domain("guest1").unwrap()["agent"].as_i64().unwrap();
    Spot::Guest(&guests, 1, agent).report(&format!("link {machine}, the guest's agent"));

    let mut second = Actor::in_guest(&guests, 2, RUN, &[]);
    again(&mut first, &mut second, set, pool);
    among(Spot::Guest(&guests, 1, pid), &format!("link {machine}, the other guest being a member"));

    let mut here = Actor::on(pool);
    let (pid_here, set_here) = asleep(&mut here, pool);
    among(Spot::Here(pid_here), "link local, two guests being members");
    among(
        Spot::Guest(&guests, 1, pid),
        &format!("link {machine}, the other guest and the host being members"),
    );
    assert_eq!(second.ask(&format!("semctl {set} 0 rmid")), "0");
    assert_eq!(second.ask(&format!("semctl {set_here} 0 rmid")), "0");
    assert_eq!(first.hear(), "-1 EIDRM");
    assert_eq!(here.hear(), "-1 EIDRM");
}
