//! Orders the attach table and the kernel: while pieces are cut, moved or counted for a child, no
//! other thread attaches or detaches, and no second one cuts.
//!
//! A thread that attaches or detaches is one of many: it takes a slot, and may be interrupted by a
//! handler that does the same, or more, in the middle; what a thread holds itself never keeps it
//! waiting. A thread that changes pieces is alone, and takes no signal meanwhile: it calls the
//! kernel and the pool, and is soon done. It waits for those in slots, but hardly for one that was
//! interrupted by a handler: that may wait for us, or leave by longjmp.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

use rustix::thread::{Timespec, futex};
use vshmem_mem::{Instant, StallProofTimeout};

/// Threads that attach or detach at the same time. More wait.
const SLOTS: usize = 64;
/// How long to wait for a thread that attaches or detaches: as long as a thread may not be
/// scheduled.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for a thread whose handler runs.
const TIMEOUT_WITH_HANDLERS: Duration = Duration::from_millis(10);
/// The time between two looks counts for so much at most. A pause between two looks takes a tenth
/// of it; longer than that, this process was stopped, and so was the thread that is waited for, or
/// there is no CPU for either.
const MOST_OF_A_LOOK: Duration = Duration::from_millis(1);
/// Set in a slot while a handler runs in the middle. Names of threads are addresses of words.
const PAUSED: usize = 1;

const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// Who attaches or detaches: the thread, or 0.
static BUSY: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
/// Whether a thread changes pieces, and whether others wait for that.
static WORD: AtomicU32 = AtomicU32::new(FREE);
/// The thread that does.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Odd while pieces are being changed.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// Attaches and detaches that have ended.
static ATTACHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread may be in a slot. Its address names the thread.
    static IN_SLOT: Cell<usize> = const { Cell::new(0) };
    /// The signal mask to go back to when a fork is over.
    static MASK_AT_FORK: Cell<u64> = const { Cell::new(0) };
}

fn me() -> usize {
    IN_SLOT.with(|cell| std::ptr::from_ref(cell).addr())
}

/// Blocks all signals, those of libc's own included, and says which were blocked before.
fn block_signals() -> u64 {
    set_signals(libc::SIG_SETMASK, u64::MAX)
}

fn set_signals(how: libc::c_int, mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: both sets are of the eight bytes whose size the call gets.
    unsafe {
        let (new, old) = (&raw const mask, &raw mut before);
        libc::syscall(libc::SYS_rt_sigprocmask, how as usize, new, old, size_of::<u64>());
    }
    before
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

/// As [`try_read`], and looks again until no change has come between; `None` when it is this thread
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
            let _ = rustix::thread::nanosleep(&LOOK_INTERVAL);
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
        // Announced before the slot is taken: a handler that comes in between looks for itself.
        let was_in_slot = IN_SLOT.replace(1);
        // The outer call keeps others away, unless another thread has timed out on it.
        let outer = if OWNER.load(Ordering::Relaxed) == me {
            Outer::KeepsAway
        } else if was_in_slot != 0 {
            outer_call(me)
        } else {
            Outer::None
        };
        match outer {
            Outer::KeepsAway => return Self { slot: None, interrupted: None, was_in_slot },
            Outer::Interrupted(slot) => {
                return Self { slot: None, interrupted: Some(slot), was_in_slot };
            }
            Outer::None => {}
        }
        loop {
            let slot = take_slot(me);
            let word = WORD.load(Ordering::SeqCst);
            if word == FREE {
                return Self { slot: Some(slot), interrupted: None, was_in_slot };
            }
            leave_slot(slot, me);
            wait_for_change(word);
        }
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        ATTACHES.fetch_add(1, Ordering::AcqRel);
        let me = me();
        if let Some(slot) = self.slot {
            leave_slot(slot, me);
        }
        if let Some(slot) = self.interrupted {
            let paused = me | PAUSED;
            let _ = BUSY[slot].compare_exchange(me, paused, Ordering::Release, Ordering::Relaxed);
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
    for (index, slot) in BUSY.iter().enumerate() {
        let word = slot.load(Ordering::Relaxed);
        if word == me {
            return Outer::KeepsAway;
        }
        if word == me | PAUSED
            && slot.compare_exchange(word, me, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            return Outer::Interrupted(index);
        }
    }
    Outer::None
}

fn take_slot(me: usize) -> usize {
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

/// Not when another thread has timed out on this one and emptied the slot.
fn leave_slot(slot: usize, me: usize) {
    let _ = BUSY[slot].compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed);
}

/// The slot of a call that a handler has interrupted.
#[derive(Debug)]
pub struct Paused(Option<usize>);

/// To be called when a handler begins.
pub fn pause() -> Paused {
    if IN_SLOT.get() == 0 {
        return Paused(None);
    }
    let me = me();
    Paused(BUSY.iter().position(|slot| {
        slot.compare_exchange(me, me | PAUSED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }))
}

/// To be called when it has ended.
pub fn resume(paused: &Paused) {
    if let Some(slot) = paused.0 {
        let me = me();
        // Not when another thread has timed out on this one.
        let _ = BUSY[slot].compare_exchange(me | PAUSED, me, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Locks the attach table for this thread.
fn seize(me: usize) {
    while let Err(seen) = WORD.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::Relaxed) {
        wait_for_change(seen);
    }
    OWNER.store(me, Ordering::Relaxed);
    let mut looks = 0_u32;
    for slot in &BUSY {
        await_slot(slot, me, &mut looks, Instant::now, || {
            // Not libc's, which a cancellation would end.
            let _ = rustix::thread::nanosleep(&LOOK_INTERVAL);
        });
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
        let mask = block_signals();
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
            set_signals(libc::SIG_SETMASK, mask);
        }
    }
}

/// Locks the attach table for the duration of a fork. No signal comes meanwhile.
pub fn hold_for_fork() {
    let mask = block_signals();
    MASK_AT_FORK.set(mask);
    seize(me());
}

/// The fork is over, in the parent or with [`begin_child`] in the child.
pub fn release_after_fork() {
    release();
    set_signals(libc::SIG_SETMASK, MASK_AT_FORK.get());
}

/// In a new child, locks that other threads held are free.
pub fn begin_child() {
    let me = me();
    for slot in &BUSY {
        if slot.load(Ordering::Relaxed) & !PAUSED != me {
            slot.store(0, Ordering::Relaxed);
        }
    }
    if OWNER.load(Ordering::Relaxed) != me {
        OWNER.store(0, Ordering::Relaxed);
        WORD.store(FREE, Ordering::Relaxed);
    }
    let changes = CHANGES.load(Ordering::Relaxed);
    CHANGES.store(changes & !1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
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

    /// The whole process is stopped in the middle: who attaches was stopped as well, and keeps its
    /// slot until it leaves it.
    #[test]
    fn a_stop_of_the_process_takes_no_slot_from_who_was_stopped_with_it() {
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
