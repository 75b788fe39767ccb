//! Orders the attach table and the kernel: while pieces are cut, moved or counted for a child, no
//! other thread attaches or detaches, and no second one cuts.
//!
//! A thread that attaches or detaches is one of many: it takes a slot, and may be interrupted by a
//! handler that does the same, or more, in the middle; what a thread holds itself never keeps it
//! waiting. A thread that changes pieces is alone, and takes no signal meanwhile: it calls the
//! kernel and the pool, and is soon done. It waits for those in slots, but hardly for one that was
//! interrupted by a handler: that may wait for us, or leave by longjmp. Where it has not waited,
//! the interrupted call takes a slot again when the handler has ended, and so waits itself: what it
//! maps could otherwise lie where the other thread has just unmapped, and be taken for that.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};

use rustix::thread::futex;
use vshmem_mem::signal_mask;

use super::slots::{self, PAUSED};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// What [`IN_SLOT`] says of a thread: it is in no slot.
const OUTSIDE: usize = 0;
/// It takes a slot, which does not count yet: a thread that changes pieces may have passed it.
const ENTERING: usize = 1;
/// It may be in a slot, which counts.
const INSIDE: usize = 2;

/// Whether a thread changes pieces, and whether others wait for that.
static WORD: AtomicU32 = AtomicU32::new(FREE);
/// The thread that does.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Odd while pieces are being changed.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// Attaches and detaches that have ended.
static ATTACHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread is in a slot. Its address names the thread.
    static IN_SLOT: Cell<usize> = const { Cell::new(OUTSIDE) };
    /// The signal mask to go back to when a fork is over.
    static MASK_AT_FORK: Cell<u64> = const { Cell::new(0) };
}

fn me() -> usize {
    IN_SLOT.with(|cell| std::ptr::from_ref(cell).addr())
}

/// How often pieces have been changed or attached so far.
pub fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire).wrapping_add(ATTACHES.load(Ordering::Acquire) << 32)
}

/// Reads the attach table without blocking other threads. `None` when pieces were changed
/// meanwhile: then one of them may have been out of the table.
fn try_read<T>(look: impl FnOnce() -> T) -> Option<T> {
    let before = CHANGES.load(Ordering::Acquire);
    let seen = look();
    fence(Ordering::Acquire);
    (before & 1 == 0 && CHANGES.load(Ordering::Relaxed) == before).then_some(seen)
}

/// As `try_read`, and looks again until no change has come between; `None` when it is this thread
/// that changes pieces.
///
/// Not by waiting for the attach table: the caller may hold a lock that a fork waits for which
/// holds them, as an allocator does that gives memory back. A change is over soon, whatever waits
/// behind it.
pub fn read_consistent<T>(look: impl Fn() -> T) -> Option<T> {
    let mut looks = 0_u32;
    loop {
        if let Some(seen) = try_read(&look) {
            return Some(seen);
        }
        if OWNER.load(Ordering::Relaxed) == me() {
            return None;
        }
        looks = looks.saturating_add(1);
        if looks < 100 {
            rustix::thread::sched_yield();
        } else {
            slots::pause_between_looks();
        }
    }
}

/// Waits until no thread changes pieces.
fn wait_for_change(seen: u32) {
    let awaited = seen == AWAITED
        || WORD.compare_exchange(HELD, AWAITED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if awaited {
        // A signal or a change of the word: the caller looks again in any case.
        let _ = futex::wait(&WORD, futex::Flags::PRIVATE, AWAITED, None);
    }
}

/// For as long as it lives, this thread attaches or detaches.
#[derive(Debug)]
pub struct Attaching {
    slot: Option<usize>,
    /// The slot of the call that a handler has interrupted, if this one is the handler's.
    interrupted: Option<usize>,
    was_in_slot: usize,
}

impl Attaching {
    /// Waits until no thread changes pieces.
    pub fn begin() -> Self {
        let me = me();
        let was_in_slot = IN_SLOT.get();
        // The outer call keeps others away, unless another thread has timed out on it.
        let outer = if OWNER.load(Ordering::Relaxed) == me {
            Outer::KeepsAway
        } else if was_in_slot == INSIDE {
            outer_call(me)
        } else {
            if was_in_slot == ENTERING {
                // A handler's that the kernel has entered past this library: as in `pause`.
                slots::change(0, me, 0);
            }
            Outer::None
        };
        let (slot, interrupted) = match outer {
            Outer::KeepsAway => (None, None),
            Outer::Interrupted(slot) => (None, Some(slot)),
            Outer::None => (Some(enter(me)), None),
        };
        Self { slot, interrupted, was_in_slot }
    }
}

/// Takes a slot, and waits until no thread changes pieces.
fn enter(me: usize) -> usize {
    loop {
        // Announced before the slot is taken: a handler that comes from here on empties it.
        IN_SLOT.set(ENTERING);
        let slot = slots::take(me);
        let word = WORD.load(Ordering::SeqCst);
        if word == FREE {
            IN_SLOT.set(INSIDE);
            compiler_fence(Ordering::SeqCst);
            // Otherwise there was one, and emptied it; or its end has taken another slot.
            if let Some(slot) = slots::find_near(slot, me) {
                return slot;
            }
        } else {
            slots::change(slot, me, 0);
            wait_for_change(word);
        }
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        ATTACHES.fetch_add(1, Ordering::AcqRel);
        let me = me();
        if let Some(slot) = self.slot {
            slots::change(slot, me, 0);
        }
        if let Some(slot) = self.interrupted {
            slots::change(slot, me, me | PAUSED);
        }
        IN_SLOT.set(self.was_in_slot);
    }
}

/// What a call finds that may stand in the middle of another one of its thread.
#[derive(Debug)]
enum Outer {
    /// No other, or one that another thread has timed out on.
    None,
    /// One that keeps those who change pieces away.
    KeepsAway,
    /// One that a handler has interrupted: it keeps them away for as long as the handler is in a
    /// call itself.
    Interrupted(usize),
}

/// Looks for the slot of the call that `me` is in, and takes the mark of a handler off it: who
/// changes pieces does not wait long for a handler, but it does for a call.
fn outer_call(me: usize) -> Outer {
    if slots::holds(me) {
        return Outer::KeepsAway;
    }
    slots::find_and_change(me | PAUSED, me).map_or(Outer::None, Outer::Interrupted)
}

/// The slot of a call that a handler has interrupted.
#[derive(Debug)]
pub struct Paused(Option<usize>);

/// To be called when a handler begins.
pub fn pause() -> Paused {
    let in_slot = IN_SLOT.get();
    if in_slot == OUTSIDE {
        return Paused(None);
    }
    let me = me();
    if in_slot == ENTERING {
        slots::change(0, me, 0);
        return Paused(None);
    }
    Paused(slots::find_and_change(me, me | PAUSED))
}

/// To be called when it has ended.
pub fn resume(paused: &Paused) {
    let Some(slot) = paused.0 else { return };
    let me = me();
    if !slots::change(slot, me | PAUSED, me) && !slots::holds(me) {
        // Another thread has timed out on this one, and may be changing pieces now.
        enter_again(me);
    }
}

/// Out of line: it takes stack that the program's handlers need.
#[cold]
#[inline(never)]
fn enter_again(me: usize) {
    enter(me);
}

/// Locks the attach table for this thread.
fn seize(me: usize) {
    while let Err(seen) = WORD.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::Relaxed) {
        wait_for_change(seen);
    }
    OWNER.store(me, Ordering::Relaxed);
    slots::await_others(me);
}

fn release() {
    OWNER.store(0, Ordering::Relaxed);
    if WORD.swap(FREE, Ordering::SeqCst) == AWAITED {
        let _ = futex::wake(&WORD, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}

/// As long as it exists, this thread holds the attach table's lock, and takes no signal.
#[derive(Debug)]
pub struct Changing {
    /// The signals that were blocked before; none when an outer one of this thread's goes on.
    mask: Option<u64>,
}

impl Changing {
    /// Waits until it is.
    pub fn begin() -> Self {
        let me = me();
        if OWNER.load(Ordering::Relaxed) == me {
            return Self { mask: None };
        }
        let mask = signal_mask::block_all().unwrap_or(0);
        seize(me);
        CHANGES.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::Release);
        Self { mask: Some(mask) }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        if let Some(mask) = self.mask {
            CHANGES.fetch_add(1, Ordering::AcqRel);
            release();
            signal_mask::set(mask);
        }
    }
}

/// Locks the attach table for the duration of a fork. No signal comes meanwhile.
pub fn hold_for_fork() {
    let mask = signal_mask::block_all().unwrap_or(0);
    MASK_AT_FORK.set(mask);
    seize(me());
}

/// The fork is over, in the parent or with [`begin_child`] in the child.
pub fn release_after_fork() {
    release();
    signal_mask::set(MASK_AT_FORK.get());
}

/// In a new child, locks that other threads held are free.
pub fn begin_child() {
    let me = me();
    slots::begin_child(me);
    if OWNER.load(Ordering::Relaxed) != me {
        OWNER.store(0, Ordering::Relaxed);
        WORD.store(FREE, Ordering::Relaxed);
    }
    let changes = CHANGES.load(Ordering::Relaxed);
    CHANGES.store(changes & !1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    /// Another thread that changes pieces for a while. Returns when it does; `is_over` is set
    /// before it ends.
    fn change_meanwhile<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        is_over: &'scope AtomicBool,
    ) {
        let (tell, begun) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let _changing = Changing::begin();
            tell.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            is_over.store(true, Ordering::Release);
        });
        begun.recv().unwrap();
    }

    /// A call that a handler has interrupted for long is not waited for. It waits itself, then.
    #[test]
    fn an_interrupted_call_does_not_go_on_while_another_thread_changes_pieces() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let attaching = Attaching::begin();
            let paused = pause();
            change_meanwhile(scope, &is_over);
            resume(&paused);
            assert!(is_over.load(Ordering::Acquire), "it has gone on beside the change");
            assert!(slots::holds(me()));
            drop(attaching);
            assert!(!slots::holds(me()));
            assert_eq!(IN_SLOT.get(), OUTSIDE);
        });
    }

    /// A handler comes when its thread has taken a slot, and not yet seen that a thread changes
    /// pieces which has passed this slot before.
    #[test]
    fn a_call_of_a_handler_does_not_rely_on_a_slot_that_does_not_count_yet() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            change_meanwhile(scope, &is_over);
            IN_SLOT.set(ENTERING);
            slots::take(me());
            let paused = pause();
            let attaching = Attaching::begin();
            assert!(is_over.load(Ordering::Acquire), "it attaches beside the change");
            drop(attaching);
            resume(&paused);
            assert!(!slots::holds(me()));
            IN_SLOT.set(OUTSIDE);
        });
    }
}
