//! Acquiring a lock: spinning, yielding, sleeping, and taking it over from a holder that does not
//! go on.

use vshmem_mem::tuning::PEER_TIMEOUT;
use vshmem_mem::tuning::lock::{
    ASIDE, POLLS, STREAK, TAKEOVER, TURNS_PER_CLOCK_READ, TURNS_TAKE, YIELDS,
};
use vshmem_mem::{Map, Ordering, spin_hint};
use vshmem_wire::{Cell, Place, RawCell, ThreadSlot, field};

use super::context::LockContext;
use super::intent::carry_out;
use super::word::{COMMITTED, FREE, LockWord, taken};
use crate::cell::load_cell;
use crate::fault::Fault;
use crate::wait::yield_cpu;

/// Polls before a waiting thread gives the CPU away. A holder that was preempted may need this very
/// CPU: see decision 43.
const SPINS: u32 = if cfg!(any(loom, fuzzing)) { 0 } else { POLLS };
/// It takes over when the word has not changed for so long. By the clock: where many wait for a CPU
/// a single yield may last longer.
const TIMEOUT: std::time::Duration =
    if cfg!(fuzzing) { std::time::Duration::ZERO } else { TAKEOVER };

/// How long a change has waited for its lock, from the first time it asks.
#[derive(Debug, Default)]
pub(super) struct Wait {
    timeout: Option<vshmem_mem::StallProofTimeout>,
}

impl Wait {
    /// Whether it has waited for [`PEER_TIMEOUT`].
    #[cfg(not(loom))]
    pub fn is_over(&mut self) -> bool {
        self.is_over_at(vshmem_mem::Instant::now())
    }

    /// Whether it has waited for [`PEER_TIMEOUT`].
    #[cfg(loom)]
    pub fn is_over(&mut self) -> bool {
        let _ = Self::is_over_at;
        false
    }

    fn is_over_at(&mut self, now: vshmem_mem::Instant) -> bool {
        let begin = || vshmem_mem::StallProofTimeout::new(now, PEER_TIMEOUT, TURNS_TAKE);
        self.timeout.get_or_insert_with(begin).is_over(now)
    }
}

/// How long a lock word has not changed, from the first time it is asked.
#[derive(Debug, Default)]
struct StallTimer {
    end: Option<vshmem_mem::Instant>,
}

impl StallTimer {
    #[cfg(not(loom))]
    fn has_lasted(&mut self, losses: u32) -> bool {
        let now = vshmem_mem::Instant::now();
        let end = *self.end.get_or_insert_with(|| now.after(TIMEOUT * (1 << losses)));
        end.remaining(now).is_zero()
    }

    #[cfg(loom)]
    fn has_lasted(&mut self, losses: u32) -> bool {
        let _ = (&self.end, TIMEOUT, losses);
        true
    }
}

#[inline]
pub(super) fn acquire(
    lock_context: &LockContext<'_>,
    lock: Place<RawCell>,
    losses: u32,
    wait: &mut Wait,
) -> Result<Cell, Fault> {
    // Written first, so that a thread that reaps this process knows which lock it may hold. The
    // slot's former record now seems to belong to this lock. That has no effect, as it has been
    // carried out.
    lock_context.map.store(
        field!(lock_context.threads.row(lock_context.slot)?, ThreadSlot, intent_lock),
        lock.offset(),
        Ordering::Relaxed,
    )?;
    // Acquires: pairs with HAND-OVER of the former holder.
    let seen = load_cell(lock_context.map, lock)?;
    let word = LockWord::unpack(seen.word);
    if cfg!(not(loom)) && word.holder == lock_context.slot && seen.tag.is_multiple_of(STREAK) {
        stand_aside(lock_context.map, lock, seen.word)?;
    }
    let mine = taken(lock_context.slot);
    if word.state == FREE && lock_context.map.replace_cell(lock, seen, mine)? {
        return Ok(seen.successor(mine));
    }
    acquire_contended(lock_context, lock, losses, wait)
}

/// Lets other threads take a lock that this thread has taken many times in a row: it takes the word
/// back so soon after each release that a thread on another CPU would hardly ever see it free.
#[cold]
fn stand_aside(map: &Map, lock: Place<RawCell>, word: u64) -> Result<(), Fault> {
    for _ in 0..ASIDE {
        spin_hint();
        if map.load(lock.word(), Ordering::Relaxed)? != word {
            break;
        }
    }
    Ok(())
}

#[cold]
fn acquire_contended(
    lock_context: &LockContext<'_>,
    lock: Place<RawCell>,
    losses: u32,
    wait: &mut Wait,
) -> Result<Cell, Fault> {
    let mut last = Cell::default();
    let mut looks = 0;
    let mut stall_timer = StallTimer::default();
    let mut interrupted_self = false;
    let mut turn = 0u32;
    loop {
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(TURNS_PER_CLOCK_READ) && wait.is_over() {
            return Err(Fault::corrupt(lock, "a lock that no thread can take"));
        }
        // Acquires: pairs with COMMIT, if it is committed, and with HAND-OVER, if it is free.
        let cell = load_cell(lock_context.map, lock)?;
        let seen = LockWord::unpack(cell.word);
        if cell != last {
            last = cell;
            looks = 0;
            stall_timer = StallTimer::default();
            // Not at each look: it takes longer than a look.
            interrupted_self = seen.state != FREE && lock_context.slot_cache.is_mine(seen.holder);
        }
        let lasts = looks >= SPINS && stall_timer.has_lasted(losses);
        if seen.state == FREE || interrupted_self || lasts {
            if seen.state == COMMITTED {
                carry_out(lock_context, seen.holder, lock, cell.tag)?;
            }
            let mine = taken(lock_context.slot);
            if lock_context.map.replace_cell(lock, cell, mine)? {
                return Ok(cell.successor(mine));
            }
            continue;
        }
        looks += 1;
        if looks <= SPINS {
            spin_hint();
        } else if looks <= SPINS + YIELDS {
            yield_cpu();
        } else {
            pause();
        }
    }
}

fn pause() {
    #[cfg(not(loom))]
    // Cut short by a signal is as good.
    vshmem_mem::sleep_shortly(vshmem_mem::tuning::SHORTEST_SLEEP);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A lock that was lost while this process was stopped can be taken again: the pool is not to
    /// be called corrupt for it.
    #[test]
    fn a_process_that_was_stopped_does_not_give_a_lock_up() {
        let begun = vshmem_mem::Instant::now();
        let mut wait = Wait::default();
        assert!(!wait.is_over_at(begun));
        assert!(!wait.is_over_at(begun.after(2 * PEER_TIMEOUT)));
    }

    #[test]
    fn a_lock_that_is_never_had_is_given_up() {
        let mut now = vshmem_mem::Instant::now();
        let mut wait = Wait::default();
        let looks = (0..).find(|_| {
            now = now.after(TURNS_TAKE / 2);
            wait.is_over_at(now)
        });
        assert_eq!(looks, Some(80));
    }
}
