//! How long a sender spins for space in the ring before it sends under the lock.
//!
//! Sending under the lock is slow for both sides: the messages of the ring move to a list, and each
//! has to be taken from there under the lock as well, until the list is empty. So a sender looks
//! for a while instead, without the lock:
//! * One that finds the ring full looks for room. What it may spend is what the ring has saved:
//!   each message that has been sent without the lock adds the cost of a call under the lock, each
//!   look takes off what it took. So all looks together never cost more than sending all messages
//!   under the lock would have, whatever receivers do.
//! * One that finds messages in the list looks whether receivers take any, for as long as its own
//!   call will cost. While it does, receivers take two for one that comes, so the list becomes
//!   empty and the ring is opened again. It spends at most twice what the call alone costs.
//!
//! As with waiters that sleep (`spin.rs`), a sender that has looked in vain looks for a fourth of
//! that next time, then for a sixteenth, until a look succeeds. Of those that find messages in the
//! list, one call in sixteen looks then, for as long as at first. That costs no more than a
//! sixteenth in each call, and it sees receivers that take messages at longer intervals: with 64
//! processes on two CPUs, short looks found none, and the queue stayed with its list. A thread that
//! was not running for a while between two looks leaves the CPU to others. What a call costs is
//! measured here: a moving average.
//!
//! Room for one message is not enough to go on: sender and receiver would take turns with every
//! message, and wait for each other's cache lines each time. A sender goes on when receivers have
//! gone on to the other cache line of the ring, or when it has looked for as long as a call under
//! the lock takes.

use vshmem_mem::tuning::send::{
    FIRST_GUESS, LEAVE_LINES, LEAVE_LINES_DOUBLED, MOST_COST, MOST_CREDIT, PAUSES, SOME_CALLS,
};
use vshmem_mem::tuning::{FOURTH, GAP, INERTIA, SIXTEENTH};
use vshmem_mem::unmodelled::{AtomicU32, Ordering::Relaxed};
use vshmem_mem::{spin_hint, ticks};
use vshmem_wire::RING_SLOTS;

/// What there is to spend at first: as many calls go under the lock when one does.
const CALLS: u32 = RING_SLOTS as u32 + 1;

/// How long a sender may look: private to a process.
#[derive(Debug)]
pub struct SendBackoff {
    is_forbidden: bool,
    /// Ticks of a call under the lock.
    cost: AtomicU32,
    /// Ticks that may be spent on looking for room.
    credit: AtomicU32,
    /// Part of the timeout that is left after looks in vain, as a shift: for room, and in the
    /// list. There `SIXTEENTH` means that one call in so many looks.
    in_vain: [AtomicU32; 2],
    /// Calls under the lock until the next that asks whether a receiver can run meanwhile, or that
    /// looks after looks in vain.
    unasked: AtomicU32,
    /// Calls under the lock until the next that is measured.
    unmeasured: AtomicU32,
}

/// What a look has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingSpace {
    /// Nothing has changed.
    None,
    /// There is a free slot; or receivers have taken some messages, and left others.
    Some,
    /// A cache line of the ring is free, or the ring is open again.
    Plenty,
}

#[derive(Debug, Clone, Copy)]
enum For {
    RingSpace,
    Ring,
}

impl SendBackoff {
    /// Nothing is known yet. `is_forbidden`: no thread looks.
    #[must_use]
    pub fn new(is_forbidden: bool) -> Self {
        Self {
            is_forbidden,
            cost: AtomicU32::new(FIRST_GUESS),
            credit: AtomicU32::new(FIRST_GUESS * CALLS),
            in_vain: [AtomicU32::new(0), AtomicU32::new(0)],
            unasked: AtomicU32::new(0),
            unmeasured: AtomicU32::new(0),
        }
    }

    /// Whether a call under the lock may look first. `ask` says whether a receiver can run
    /// meanwhile; after a no, and after looks in vain, it is asked again some calls later, as
    /// reading the clock takes a tenth of such a call.
    pub fn may_look(&self, ask: impl FnOnce() -> bool) -> bool {
        if self.is_forbidden || !is_due(&self.unasked, 1) {
            return false;
        }
        let may = ask();
        let is_rare = self.looks_rarely(For::Ring);
        self.unasked.store(if may && !is_rare { 0 } else { SOME_CALLS }, Relaxed);
        may
    }

    /// Whether `may_look` lets one call in so many look, instead of shorter looks in each.
    fn looks_rarely(&self, what: For) -> bool {
        matches!(what, For::Ring) && self.in_vain[what as usize].load(Relaxed) >= SIXTEENTH
    }

    /// When a call under the lock has begun, if it is one of those that are measured.
    pub fn begin_call(&self) -> Option<u64> {
        is_due(&self.unmeasured, SOME_CALLS).then(ticks)
    }

    /// Takes note of a call under the lock that did not sleep and has begun then.
    pub fn end_call(&self, began: u64) {
        self.note_call(ticks().wrapping_sub(began));
    }

    /// Takes note of a call under the lock, of so many ticks.
    fn note_call(&self, ticks: u64) {
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX).min(MOST_COST);
        let known = self.cost.load(Relaxed);
        self.cost.store(known - known / INERTIA + ticks / INERTIA, Relaxed);
    }

    /// Takes note of a message that was sent without the lock.
    #[inline]
    pub fn note_sent(&self) {
        // Other threads may do the same at the same time: what is lost of it is not spent.
        let credit = self.credit.load(Relaxed);
        if credit < MOST_CREDIT {
            self.credit.store(credit + self.cost.load(Relaxed), Relaxed);
        }
    }

    /// Looks until there is room in a ring that was full, or the timeout is over; says which it
    /// was.
    #[must_use]
    pub fn look_for_room(&self, look: impl FnMut() -> RingSpace) -> bool {
        self.look(For::RingSpace, ticks, look)
    }

    /// Looks until a queue that uses its list uses its ring again, or the timeout is over; says
    /// which it was.
    #[must_use]
    pub fn look_for_ring(&self, look: impl FnMut() -> RingSpace) -> bool {
        self.look(For::Ring, ticks, look)
    }

    fn look(&self, what: For, now: impl Fn() -> u64, mut look: impl FnMut() -> RingSpace) -> bool {
        if self.is_forbidden {
            return false;
        }
        let in_vain = &self.in_vain[what as usize];
        let cost = u64::from(self.cost.load(Relaxed));
        let most = match what {
            For::RingSpace => u64::from(self.credit.load(Relaxed)),
            For::Ring => cost,
        };
        let shift = if self.looks_rarely(what) { 0 } else { in_vain.load(Relaxed).min(SIXTEENTH) };
        let timeout = most >> shift;
        let began = now();
        let (mut last, mut found) = (began, RingSpace::None);
        let mut waited = 0;
        while waited < timeout {
            found = look();
            let time = now();
            waited = time.wrapping_sub(began);
            let is_enough = match what {
                For::RingSpace => found == RingSpace::Some && waited >= cost,
                For::Ring => false,
            };
            if found == RingSpace::Plenty || is_enough || time.wrapping_sub(last) > GAP {
                break;
            }
            last = time;
            for _ in 0..PAUSES {
                spin_hint();
            }
        }
        if let For::RingSpace = what {
            let spent = u32::try_from(waited).unwrap_or(u32::MAX);
            self.credit.store(self.credit.load(Relaxed).saturating_sub(spent), Relaxed);
        }
        let before = in_vain.load(Relaxed);
        let after = match (found, before) {
            (RingSpace::Some | RingSpace::Plenty, _) => 0,
            (RingSpace::None, 0) => FOURTH,
            (RingSpace::None, _) => SIXTEENTH,
        };
        if after != before {
            in_vain.store(after, Relaxed);
        }
        match what {
            For::RingSpace => found != RingSpace::None,
            For::Ring => found == RingSpace::Plenty,
        }
    }
}

/// Lets others go on after a slot was lost to another thread, longer with each failure on end.
///
/// That thread has the ring's cache lines now, and its next calls are short as long as no other
/// thread takes them away. Two that call again at once take them from each other with each step.
#[cold]
pub fn leave_lines(failures: u32) {
    let timeout = LEAVE_LINES << failures.min(LEAVE_LINES_DOUBLED);
    let began = ticks();
    // For a counter that stands still.
    for _ in 0..timeout {
        if ticks().wrapping_sub(began) >= timeout {
            break;
        }
        spin_hint();
    }
}

/// Counts down, and begins again at `from` when it has come to its end; says whether it has.
fn is_due(left: &AtomicU32, from: u32) -> bool {
    let before = left.load(Relaxed);
    left.store(if before == 0 { from - 1 } else { before - 1 }, Relaxed);
    before == 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Looks with a clock that goes on by 50 at each reading; `room` is found after `at` ticks.
    /// Returns how long it took, and what it said.
    fn look(wait: &SendBackoff, what: For, room: RingSpace, at: u64) -> (u64, bool) {
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 50);
            clock.get()
        };
        let found = wait.look(what, now, || if clock.get() >= at { room } else { RingSpace::None });
        (clock.get(), found)
    }

    fn wait_of_cost(cost: u64) -> SendBackoff {
        let wait = SendBackoff::new(false);
        for _ in 0..200 {
            wait.note_call(cost);
        }
        wait.credit.store(0, Relaxed);
        wait
    }

    #[test]
    fn who_may_not_look_does_not() {
        let wait = SendBackoff::new(true);
        assert!(!wait.look_for_room(|| unreachable!("no thread may look")));
        assert!(!wait.look_for_ring(|| unreachable!("no thread may look")));
    }

    #[test]
    fn all_looks_for_room_together_take_at_most_what_the_ring_has_saved() {
        let wait = wait_of_cost(1000);
        assert_eq!(look(&wait, For::RingSpace, RingSpace::Plenty, 0), (50, false), "nothing saved");
        let mut spent = 0;
        for turn in 1..50 {
            for _ in 0..8 {
                wait.note_sent();
            }
            // Now and then there is room, which makes it patient again.
            spent += look(&wait, For::RingSpace, RingSpace::Some, 5000).0;
            assert!(spent <= turn * (8 * 1000 + 100), "{turn}: {spent}");
        }
        assert!(spent > 50 * 1000, "it does look: {spent}");
    }

    #[test]
    fn after_a_no_it_is_asked_again_some_calls_later() {
        let wait = SendBackoff::new(false);
        let asked = Cell::new(0);
        for _ in 0..100 {
            wait.may_look(|| {
                asked.set(asked.get() + 1);
                false
            });
        }
        assert!((5..9).contains(&asked.get()), "{asked:?}");
        while !wait.may_look(|| true) {}
        assert!(wait.may_look(|| true));
    }

    #[test]
    fn after_looks_in_vain_one_call_in_some_looks() {
        let wait = wait_of_cost(2000);
        let looks = |calls| {
            let mut looks = 0;
            for _ in 0..calls {
                if wait.may_look(|| true) {
                    looks += 1;
                    let _ = look(&wait, For::Ring, RingSpace::None, u64::MAX);
                }
            }
            looks
        };
        assert_eq!(looks(2), 2, "the first ones look each time");
        assert!((5..9).contains(&looks(100)), "and then hardly any");
        while !wait.may_look(|| true) {}
        let (took, found) = look(&wait, For::Ring, RingSpace::Plenty, 1800);
        assert!(found && took >= 1800, "for as long as a call costs: {took}");
        while !wait.may_look(|| true) {}
        assert!(wait.may_look(|| true), "after a success each call looks again");
    }

    #[test]
    fn credit_has_a_bound() {
        let wait = wait_of_cost(1000);
        for _ in 0..10_000 {
            wait.note_sent();
        }
        let (spent, found) = look(&wait, For::RingSpace, RingSpace::Plenty, u64::MAX);
        assert!(!found && spent < u64::from(MOST_CREDIT) + 2000, "{spent}");
    }

    #[test]
    fn a_look_for_the_ring_takes_as_long_as_the_call_and_less_after_the_first_in_vain() {
        let wait = wait_of_cost(2000);
        let looks: Vec<u64> =
            (0..4).map(|_| look(&wait, For::Ring, RingSpace::Plenty, u64::MAX).0).collect();
        assert!((1700..2300).contains(&looks[0]), "{looks:?}");
        assert!((400..700).contains(&looks[1]), "{looks:?}");
        // From here on one call in so many looks.
        assert!((1700..2300).contains(&looks[3]), "{looks:?}");
        assert!(
            !look(&wait, For::Ring, RingSpace::Some, 0).1,
            "receivers take, the list is not empty"
        );
        assert!(look(&wait, For::Ring, RingSpace::Plenty, 1500).1, "it is patient again");
    }

    #[test]
    fn room_for_one_message_is_enough_after_a_while() {
        let wait = wait_of_cost(1000);
        wait.credit.store(50_000, Relaxed);
        let (some, found) = look(&wait, For::RingSpace, RingSpace::Some, 100);
        assert!(found && (900..1300).contains(&some), "{some}");
        let (plenty, found) = look(&wait, For::RingSpace, RingSpace::Plenty, 100);
        assert!(found && plenty < 300, "{plenty}");
    }

    #[test]
    fn who_was_not_running_looks_no_more() {
        let wait = wait_of_cost(4000);
        wait.credit.store(MOST_CREDIT, Relaxed);
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + GAP + 1);
            clock.get()
        };
        let mut looks = 0;
        let found = wait.look(For::RingSpace, now, || {
            looks += 1;
            RingSpace::None
        });
        assert!(!found && looks <= 2, "{looks}");
    }
}
