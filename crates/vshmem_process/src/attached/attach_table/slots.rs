//! Slots of threads that attach or detach: a thread that changes pieces waits for the threads in
//! them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use vshmem_mem::tuning::{PEER_TIMEOUT, SHORTEST_SLEEP};
use vshmem_mem::{Instant, StallProofTimeout, sleep_shortly};

/// Threads that attach or detach at the same time. More wait.
const SLOTS: usize = 64;
/// How long to wait for a thread that attaches or detaches: as long as a thread may not be
/// scheduled.
const TIMEOUT: Duration = PEER_TIMEOUT;
/// How long to wait for a thread whose handler runs.
const TIMEOUT_WITH_HANDLERS: Duration = Duration::from_millis(10);
/// The time between two looks counts for so much at most. A pause between two looks takes a tenth
/// of it; longer than that, this process was stopped, and so was the thread that is waited for, or
/// there is no CPU for either.
const MOST_OF_A_LOOK: Duration = Duration::from_millis(1);
/// Set in a slot while a handler runs in the middle. Names of threads are addresses of words.
pub const PAUSED: usize = 1;

/// The threads that attach or detach, by their names; 0: none.
static BUSY: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];

/// What a thread does between two looks at what another one is about to end.
pub fn pause_between_looks() {
    sleep_shortly(SHORTEST_SLEEP);
}

/// Takes a slot for a thread.
pub fn take(me: usize) -> usize {
    let first = (me >> 6) % SLOTS;
    loop {
        for index in (first..SLOTS).chain(0..first) {
            let slot = &BUSY[index];
            if slot.load(Ordering::Relaxed) == 0
                && slot.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            {
                return index;
            }
        }
        rustix::thread::sched_yield();
    }
}

/// Whether a slot holds this word: a thread, or one that a handler has interrupted.
pub fn holds(word: usize) -> bool {
    find(word).is_some()
}

/// The slot that does, which is `slot` most of the time.
pub fn find_near(slot: usize, word: usize) -> Option<usize> {
    if BUSY[slot].load(Ordering::Relaxed) == word { Some(slot) } else { find(word) }
}

/// The slot that does.
fn find(word: usize) -> Option<usize> {
    BUSY.iter().position(|slot| slot.load(Ordering::Relaxed) == word)
}

/// Changes the word of the slot that holds `from`, and says which one that is. `None`: another
/// thread has timed out on its thread and emptied it.
pub fn find_and_change(from: usize, to: usize) -> Option<usize> {
    (0..SLOTS).find(|&slot| change_at(slot, from, to))
}

/// The same where it is `slot` most of the time: the thread may have entered another one since.
pub fn change(slot: usize, from: usize, to: usize) -> bool {
    change_at(slot, from, to) || find_and_change(from, to).is_some()
}

fn change_at(slot: usize, from: usize, to: usize) -> bool {
    let slot = &BUSY[slot];
    slot.load(Ordering::Relaxed) == from
        && slot.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Waits until no other thread is in a slot.
pub fn await_others(me: usize) {
    let mut looks = 0_u32;
    for slot in &BUSY {
        await_slot(slot, me, &mut looks, Instant::now, pause_between_looks);
    }
}

/// Waits until no other thread is in `slot`, or empties it when its thread keeps it for too long.
fn await_slot(
    slot: &AtomicUsize,
    me: usize,
    looks: &mut u32,
    mut now: impl FnMut() -> Instant,
    mut pause: impl FnMut(),
) {
    let (mut seen, mut with_this, mut in_all) = (0, None, None);
    loop {
        let other = slot.load(Ordering::SeqCst);
        if other == 0 || other & !PAUSED == me {
            return;
        }
        *looks = looks.saturating_add(1);
        if *looks < 100 {
            std::hint::spin_loop();
            continue;
        }
        // Another thread's slot, or a handler that begins or ends: the wait begins anew.
        if other != seen {
            (seen, with_this) = (other, None);
        }
        let now = now();
        let span = if other & PAUSED == 0 { TIMEOUT } else { TIMEOUT_WITH_HANDLERS };
        let begin = |span| StallProofTimeout::new(now, span, MOST_OF_A_LOOK);
        let with_this = with_this.get_or_insert_with(|| begin(span));
        let in_all = in_all.get_or_insert_with(|| begin(TIMEOUT));
        // Both take note of the look.
        if with_this.is_over(now) | in_all.is_over(now) {
            let _ = slot.compare_exchange(other, 0, Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        if *looks < 200 {
            rustix::thread::sched_yield();
        } else {
            pause();
        }
    }
}

/// In a new child, no other thread is in a slot.
pub fn begin_child(me: usize) {
    for slot in &BUSY {
        if slot.load(Ordering::Relaxed) & !PAUSED != me {
            slot.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const HOLDER: usize = 0x1000;
    const WAITER: usize = 0x2000;
    const AN_HOUR: Duration = Duration::from_secs(3600);

    /// Waits for a slot that holds `word`, by a clock that goes on by what `pause` says of the
    /// pauses so far. Returns the pauses.
    fn wait_by(slot: &AtomicUsize, mut pause: impl FnMut(u32) -> Duration) -> u32 {
        let (clock, pauses) = (Cell::new(Instant::now()), Cell::new(0));
        await_slot(
            slot,
            WAITER,
            &mut 0,
            || clock.get(),
            || {
                pauses.set(pauses.get() + 1);
                clock.set(clock.get().after(pause(pauses.get())));
            },
        );
        pauses.get()
    }

    /// The whole process is stopped in the middle: a thread that attaches was stopped as well, and
    /// keeps its slot until it leaves it.
    #[test]
    fn a_stop_of_the_process_takes_no_slot_from_a_thread_that_was_stopped_with_it() {
        for word in [HOLDER, HOLDER | PAUSED] {
            let slot = AtomicUsize::new(word);
            let pauses = wait_by(&slot, |pause| match pause {
                1 => AN_HOUR,
                5 => {
                    let left = slot.swap(0, Ordering::Relaxed);
                    assert_eq!(left, word, "its own to leave");
                    Duration::from_micros(100)
                }
                _ => Duration::from_micros(100),
            });
            assert_eq!(pauses, 5);
        }
    }

    #[test]
    fn a_slot_that_is_never_left_is_emptied() {
        let pause = Duration::from_micros(100);
        for (word, timeout) in [(HOLDER, TIMEOUT), (HOLDER | PAUSED, TIMEOUT_WITH_HANDLERS)] {
            let slot = AtomicUsize::new(word);
            assert_eq!(pause * wait_by(&slot, |_| pause), timeout);
            assert_eq!(slot.load(Ordering::Relaxed), 0);
            // However long pauses are that find no CPU.
            let slot = AtomicUsize::new(word);
            assert_eq!(MOST_OF_A_LOOK * wait_by(&slot, |_| AN_HOUR), timeout);
        }
    }

    #[test]
    fn a_handler_that_comes_and_goes_is_waited_for_as_long_as_a_call() {
        let slot = AtomicUsize::new(HOLDER);
        let pauses = wait_by(&slot, |_| {
            slot.fetch_xor(PAUSED, Ordering::Relaxed);
            MOST_OF_A_LOOK
        });
        assert_eq!(MOST_OF_A_LOOK * pauses, TIMEOUT);
    }
}
