//! POSIX semaphores and process-shared locks in a segment that two guests share.

use std::time::Instant;

use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Guests, until};

use crate::shared;

const RUN: &[&str] = &["vshmem", "run", "--share", "all,posix"];

/// A program in each guest, with locks in a segment that both have attached.
struct Pair {
    first: Actor,
    second: Actor,
    segment: i64,
    /// Where each has attached it.
    at: [i64; 2],
}

impl Pair {
    fn new(guests: &Guests) -> Self {
        let mut first = Actor::in_guest(guests, 1, RUN, &[]);
        let mut second = Actor::in_guest(guests, 2, RUN, &[]);
        let segment = first.number("shmget 0 4096 01600");
        let at = [&mut first, &mut second].map(|actor| actor.number(&format!("shmat {segment} 0")));
        assert_eq!(first.ask(&format!("locks {}", at[0])), "0");
        Self { first, second, segment, at }
    }

    fn first(&mut self, order: &str) -> String {
        self.first.ask(&format!("{order} {}", self.at[0]))
    }

    fn second(&mut self, order: &str) -> String {
        self.second.ask(&format!("{order} {}", self.at[1]))
    }

    /// Gives the second an order that makes it sleep.
    fn put_to_sleep(&mut self, guests: &Guests, order: &str) {
        let before = sleeping(guests);
        self.second.tell(&format!("{order} {}", self.at[1]));
        until("it sleeps", || sleeping(guests) == before + 1);
    }

    /// Removes the segment, by the second, and ends it.
    fn clear(mut self, guests: &Guests) {
        assert_eq!(self.second.ask(&format!("shmctl {} rmid", self.segment)), "0");
        assert_eq!(self.second("shmdt"), "0");
        self.second.end();
        guests.pool().assert_clean();
    }
}

/// Threads of all clients that sleep in a call.
fn sleeping(guests: &Guests) -> u64 {
    let rows = guests.pool().rows("clients");
    rows.iter().filter_map(|row| row["sleeping"].as_u64()).sum()
}

pub fn exchange() {
    let guests = shared();
    let mut pair = Pair::new(&guests);
    pair.put_to_sleep(&guests, "semwait");
    assert_eq!(pair.first("sempost"), "0");
    assert_eq!(pair.second.hear(), "0");

    assert_eq!(pair.first("lock"), "0");
    assert_eq!(pair.second("trylock"), "EBUSY");
    pair.put_to_sleep(&guests, "lock");
    assert_eq!(pair.first("unlock"), "0");
    assert_eq!(pair.second.hear(), "0");
    assert_eq!(pair.first("trylock"), "EBUSY");
    assert_eq!(pair.second("unlock"), "0");

    let awaits = format!("await {} 7", pair.at[1]);
    let before = sleeping(&guests);
    pair.second.tell(&awaits);
    until("it waits for the value", || sleeping(&guests) == before + 1);
    assert_eq!(pair.first.ask(&format!("change {} 7", pair.at[0])), "0");
    assert_eq!(pair.second.hear(), "0");
    assert_eq!(pair.first("shmdt"), "0");
    pair.clear(&guests);
}

/// The second waits for the mutex, and `kill` ends the first, which holds it.
fn killed(guests: &Guests, what: &str, kill: impl FnOnce(&mut Pair)) {
    let mut pair = Pair::new(guests);
    assert_eq!(pair.first("lock"), "0");
    pair.put_to_sleep(guests, "lock");
    let start = Instant::now();
    kill(&mut pair);
    assert_eq!(pair.second.hear(), "EOWNERDEAD");
    say(&format!("{what}: EOWNERDEAD after {:.3} s", start.elapsed().as_secs_f64()));
    assert_eq!(pair.second("consistent"), "0");
    assert_eq!(pair.second("unlock"), "0");
    assert_eq!(pair.second("lock"), "0");
    assert_eq!(pair.second("unlock"), "0");
    pair.clear(guests);
}

pub fn process() {
    let guests = shared();
    killed(&guests, "kill -9 of a robust mutex's owner", |pair| {
        let pid = pair.first.pid();
        guests.shell(1, &format!("kill -9 {pid}")).ok();
    });
}

pub fn guest() {
    let guests = shared();
    let lab = guests.open();
    killed(&guests, "SIGKILL of the owner's whole guest", |_| lab.kill(1).unwrap());
    lab.restart(1).unwrap();
    let alive = || guests.pool().domain("guest1").is_some_and(|row| row["state"] == "alive");
    let mut fresh = Actor::in_guest(&guests, 1, RUN, &[]);
    assert!(fresh.pid() > 0);
    until("the guest is back", alive);
    fresh.end();
}
