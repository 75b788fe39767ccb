//! Deaths in one guest, as the other one sees them.

use std::time::{Duration, Instant};

use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Guests, until};

use crate::exchange::RUN;
use crate::shared;

/// What the design asks for; printed beside what was measured.
const AIM: Duration = Duration::from_secs(2);
/// What counts as asleep for ever.
const FOR_EVER: Duration = Duration::from_secs(60);

/// A set whose only token is held with SEM_UNDO in guest 1, and waited for in guest 2.
struct Held {
    holder: Actor,
    waiter: Actor,
    set: i64,
}

fn held(guests: &Guests) -> Held {
    let mut waiter = Actor::in_guest(guests, 2, RUN, &[]);
    let mut holder = Actor::in_guest(guests, 1, RUN, &[]);
    let set = holder.number("semget 0 1 01600");
    assert_eq!(holder.ask(&format!("semctl {set} 0 setval 1")), "0");
    assert_eq!(holder.ask(&format!("semop {set} 0,-1,u")), "0");
    waiter.tell(&format!("semop {set} 0,-1,u"));
    until("the waiter sleeps", || guests.pool().waiters(set) == 1);
    Held { holder, waiter, set }
}

#[track_caller]
fn assert_woken(what: &str, waiter: &mut Actor, since: Instant) {
    let Some((answer, when)) = waiter.hear_within(FOR_EVER) else {
        panic!("{what}: the waiter still sleeps after {FOR_EVER:?}");
    };
    assert_eq!(answer, "0");
    let took = when.duration_since(since);
    let verdict = if took <= AIM { "within" } else { "BEYOND" };
    say(&format!("{what}: {:.3} s to the wake, {verdict} the aim of {AIM:?}", took.as_secs_f64()));
}

fn agent_of(guests: &Guests, domain: &str) -> i64 {
    let row = guests.pool().domain(domain).unwrap_or_default();
    row["agent"].as_i64().unwrap_or_else(|| panic!("no agent: {row}"))
}

/// Removes the set and waits until nothing is left of the test.
fn clear(guests: &Guests, mut waiter: Actor, set: i64) {
    assert_eq!(waiter.ask(&format!("semctl {set} 0 rmid")), "0");
    waiter.end();
    guests.pool().assert_clean();
}

pub fn process() {
    let guests = shared();
    let Held { mut holder, mut waiter, set } = held(&guests);
    let pid = holder.pid();
    let start = Instant::now();
    guests.shell(1, &format!("kill -9 {pid}")).ok();
    assert_woken("kill -9 of the holder", &mut waiter, start);
    assert_eq!(waiter.number(&format!("semctl {set} 0 getval")), 0);
    assert_eq!(holder.end(), 128 + 9);
    clear(&guests, waiter, set);
}

pub fn agent_alone() {
    let guests = shared();
    let Held { mut holder, mut waiter, set } = held(&guests);
    let pid = holder.pid();
    let agent = agent_of(&guests, "guest1");
    guests.shell(1, &format!("kill -9 {agent}")).ok();
    // The next program of that domain finds the post vacant; what dies then is noticed.
    let mut next = Actor::in_guest(&guests, 1, RUN, &[]);
    next.pid();
    until("there is another agent", || agent_of(&guests, "guest1") != agent);
    let start = Instant::now();
    guests.shell(1, &format!("kill -9 {pid}")).ok();
    assert_woken("kill -9 of the holder, its agent killed before and replaced", &mut waiter, start);
    clear(&guests, waiter, set);
}

pub fn agent_and_client() {
    let guests = shared();
    let Held { mut holder, mut waiter, set } = held(&guests);
    // Another client in the same domain is asleep all the time.
    let mut colleague = Actor::in_guest(&guests, 1, RUN, &[]);
    let other = colleague.number("semget 0 1 01600");
    colleague.tell(&format!("semop {other} 0,-1"));
    until("the other client sleeps", || guests.pool().waiters(other) == 1);
    let (pid, agent) = (holder.pid(), agent_of(&guests, "guest1"));
    let start = Instant::now();
    guests.shell(1, &format!("kill -9 {pid} {agent}")).ok();
    assert_woken("kill -9 of the holder and its agent at once", &mut waiter, start);
    assert_eq!(waiter.ask(&format!("semop {other} 0,1")), "0");
    assert_eq!(colleague.hear(), "0");
    assert_eq!(colleague.ask(&format!("semctl {other} 0 rmid")), "0");
    clear(&guests, waiter, set);
}

/// No process is left in the domain to notice. The next program that comes there does, and an
/// operator may (`vshmem pool evict`); a pool made with --evict-after finds out by itself.
pub fn agent_and_last() {
    let guests = shared();
    let Held { mut holder, mut waiter, set } = held(&guests);
    let (pid, agent) = (holder.pid(), agent_of(&guests, "guest1"));
    guests.shell(1, &format!("kill -9 {pid} {agent}")).ok();
    let silent = || guests.pool().domain("guest1").is_some_and(|row| row["state"] == "silent");
    until("`vshmem ls` shows the domain as silent", silent);
    let start = Instant::now();
    guests.run(1, &[RUN, &["true"]].concat()).ok();
    assert_woken(
        "holder and agent killed at once, none left; counted from the next program's start",
        &mut waiter,
        start,
    );
    clear(&guests, waiter, set);
}

pub fn guest() {
    let guests = shared();
    let lab = guests.open();
    let Held { mut holder, mut waiter, set } = held(&guests);
    let segment = holder.number("shmget 0x5e04 4096 01600");
    let at = attach(&mut holder, segment);
    assert_eq!(holder.number(&format!("poke {at} 0 5")), 5);
    let epoch = guests.pool().domain("guest1").unwrap()["epoch"].as_u64().unwrap();
    let start = Instant::now();
    lab.kill(1).unwrap();
    assert_woken("SIGKILL of the holder's whole guest", &mut waiter, start);

    let dead = guests.pool().domain("guest1").unwrap();
    assert_eq!((&dead["state"], &dead["clients"]), (&"dead".into(), &0.into()), "{dead}");
    let rows = guests.pool().rows("segments");
    assert_eq!(rows[0]["nattch"], 0, "{rows:?}");
    guests.pool().assert_clean();

    let start = Instant::now();
    lab.restart(1).unwrap();
    let mut fresh = Actor::in_guest(&guests, 1, RUN, &[]);
    assert_eq!(fresh.number("shmget 0x5e04 4096 0"), segment);
    say(&format!(
        "the guest was back on the pool {:.2} s after its restart was ordered",
        start.elapsed().as_secs_f64()
    ));
    let at = attach(&mut fresh, segment);
    assert_eq!(fresh.number(&format!("peek {at} 0")), 5);
    // Its lease is as old as this machine may have held the guest up.
    let row = || guests.pool().domain("guest1").unwrap();
    until("the guest renews its lease", || row()["state"] == "alive");
    let alive = row();
    assert!(alive["epoch"].as_u64().unwrap() > epoch, "{alive}: it was {epoch}");
    // And it works with the other one as before.
    fresh.tell(&format!("semop {set} 0,-1"));
    until("the fresh guest's process sleeps", || guests.pool().waiters(set) == 1);
    assert_eq!(waiter.ask(&format!("semop {set} 0,1,u")), "0");
    assert_eq!(fresh.hear(), "0");
    assert_eq!(fresh.ask(&format!("shmdt {at}")), "0");
    assert_eq!(fresh.ask(&format!("shmctl {segment} rmid")), "0");
    clear(&guests, waiter, set);
}

fn attach(actor: &mut Actor, segment: i64) -> i64 {
    actor.number(&format!("shmat {segment} 0"))
}
