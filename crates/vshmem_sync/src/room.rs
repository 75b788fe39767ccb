//! How long a sender looks for room in a full ring before it sends under the lock.
//!
//! Sending under the lock moves the messages of the ring to a list, from which they have to be taken under the lock as well: it costs
//! about as much as one such call for each slot of the ring, and one more. Who looks for as long as that, and then goes that
//! way, spends at most twice what the better of both would have cost. What a call costs is measured here: a moving average.
//!
//! As with waiters that sleep (`spin.rs`), who has looked in vain looks for a fourth of that next time, then for a sixteenth, until a look succeeds.
//! So one who fills a queue that nobody reads pays a sixteenth more than without looking. And a thread that was not running for
//! a while between two looks leaves the CPU to others.
//!
//! Room for one message is not enough to go on: sender and receiver would take turns with every message, and wait for each other's cache
//! lines each time. A sender goes on when half of the ring is free, or when a part of its patience has passed.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use vshmem_mem::{spin_hint, ticks};
use vshmem_wire::RING_SLOTS;

/// What a call under the lock is taken to cost before any has been measured, in ticks.
const FIRST_GUESS: u32 = 1 << 11;
/// It never counts as more: so much longer only one that was kept from the CPU takes.
const MOST_COST: u32 = 1 << 13;
/// As many calls go under the lock when one does.
const CALLS: u32 = RING_SLOTS as u32 + 1;
/// A thread that has not looked for so long was not running.
const GAP: u64 = 1 << 15;
/// Parts of a moving average that stay.
const INERTIA: u32 = 8;
/// The patience is shifted down by so much after the first time in vain, and after more.
const FOURTH: u32 = 2;
const SIXTEENTH: u32 = 4;
/// The part of the patience after which room for one message is enough.
const PATIENT_PART: u64 = 4;
/// Pauses of the processor between two looks, about as long as a cache line takes.
const PAUSES: u32 = 3;

/// How long a sender may look for room: private to a process.
#[derive(Debug)]
pub struct RoomWait {
    is_forbidden: bool,
    /// Ticks of a call under the lock.
    cost: AtomicU32,
    /// Part of the patience that is left after looks in vain, as a shift.
    in_vain: AtomicU32,
}

/// What a look has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The ring is full.
    None,
    /// There is a free slot.
    Some,
    /// Half of the ring is free, or something else has changed.
    Plenty,
}

impl RoomWait {
    /// Nothing is known yet. `is_forbidden`: nobody looks.
    #[must_use]
    pub fn new(is_forbidden: bool) -> Self {
        let (cost, in_vain) = (AtomicU32::new(FIRST_GUESS), AtomicU32::new(0));
        Self { is_forbidden, cost, in_vain }
    }

    /// Takes note of a call under the lock that did not sleep, of so many ticks.
    pub fn note_call(&self, ticks: u64) {
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX).min(MOST_COST);
        let known = self.cost.load(Relaxed);
        self.cost.store(known - known / INERTIA + ticks / INERTIA, Relaxed);
    }

    fn patience(&self) -> u64 {
        if self.is_forbidden {
            return 0;
        }
        u64::from((self.cost.load(Relaxed) * CALLS) >> self.in_vain.load(Relaxed).min(SIXTEENTH))
    }

    /// Looks until there is room or patience is over; says which it was.
    #[must_use]
    pub fn look(&self, look: impl FnMut() -> Room) -> bool {
        self.look_at(ticks, look)
    }

    fn look_at(&self, now: impl Fn() -> u64, mut look: impl FnMut() -> Room) -> bool {
        let patience = self.patience();
        if patience == 0 {
            return false;
        }
        let began = now();
        let mut last = began;
        loop {
            let found = look();
            let time = now();
            let waited = time.wrapping_sub(began);
            if found == Room::Plenty || found == Room::Some && waited > patience / PATIENT_PART {
                self.in_vain.store(0, Relaxed);
                return true;
            }
            if waited > patience || time.wrapping_sub(last) > GAP {
                let shift = self.in_vain.load(Relaxed);
                self.in_vain.store(if shift == 0 { FOURTH } else { SIXTEENTH }, Relaxed);
                return found == Room::Some;
            }
            last = time;
            for _ in 0..PAUSES {
                spin_hint();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Looks with a clock that goes on by 100 at each reading; there is room after `at` ticks. Returns how long it took, and
    /// whether there was any.
    fn look(wait: &RoomWait, room: Room, at: u64) -> (u64, bool) {
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 100);
            clock.get()
        };
        let found = wait.look_at(now, || if clock.get() >= at { room } else { Room::None });
        (clock.get(), found)
    }

    fn wait_of_cost(cost: u64) -> RoomWait {
        let wait = RoomWait::new(false);
        for _ in 0..200 {
            wait.note_call(cost);
        }
        wait
    }

    #[test]
    fn who_may_not_look_does_not() {
        let wait = RoomWait::new(true);
        assert!(!wait.look(|| unreachable!("nobody may look")));
    }

    #[test]
    fn a_look_takes_at_most_what_it_saves_and_less_after_it_was_in_vain() {
        let wait = wait_of_cost(1000);
        let (first, found) = look(&wait, Room::Plenty, u64::MAX);
        assert!(!found && (8000..9500).contains(&first), "{first}");
        let (second, _) = look(&wait, Room::Plenty, u64::MAX);
        assert!((1900..2600).contains(&second), "{second}");
        for _ in 0..3 {
            let (later, _) = look(&wait, Room::Plenty, u64::MAX);
            assert!(later < 900, "{later}");
        }
        assert!(look(&wait, Room::Plenty, 300).1);
        assert!(look(&wait, Room::Plenty, 7000).1, "it is patient again");
    }

    #[test]
    fn room_for_one_message_is_enough_after_a_while() {
        let wait = wait_of_cost(1000);
        let (some, found) = look(&wait, Room::Some, 100);
        assert!(found && (1900..3000).contains(&some), "{some}");
        let (plenty, found) = look(&wait, Room::Plenty, 100);
        assert!(found && plenty < 500, "{plenty}");
    }

    #[test]
    fn who_was_not_running_looks_no_more() {
        let wait = wait_of_cost(8000);
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + GAP + 1);
            clock.get()
        };
        let mut looks = 0;
        let found = wait.look_at(now, || {
            looks += 1;
            Room::None
        });
        assert!(!found && looks <= 2, "{looks}");
    }
}
