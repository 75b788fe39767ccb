//! A cache of the mappings of detached segments, at addresses that the program does not know.
//!
//! To map a mebibyte and unmap it again costs several times what clearing it does, nearly all of it
//! for page table entries. So shmdt moves the mapping away (the program's address is unmapped as it
//! must be, and the entries come along), and the next attach of the same pages hands it out again.
//! A segment that is made in pages which lie here is cleared through the mapping that is there.
//!
//! In a guest, moving costs more, and so it does for a few pages anywhere: there a mapping stays
//! where it is and is closed to any access, so that a touch is SIGSEGV as well. Opening it again
//! brings all its pages back at once; a guest that meets them one by one takes a fault of its own
//! for each, some 180 us in User Mode Linux. Calls on a range that is closed find it unmapped: it
//! is, before they get to it.
//!
//! A fixed table without a lock, because shmat and shmdt may be called from signal handlers:
//! a thread that does not get an entry does without.

mod entry;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use vshmem_ipc::{Backing, Errno};
use vshmem_link::{Memory, next_place};
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::addresses::drop_mapping;
use crate::attached::attach_table::{Piece, pause_between_looks};
use crate::attached::fixed;
use crate::process;

use entry::{Entry, FREE, GIVEN_UP, TOTAL, claimed};

/// Mappings at most.
const MOST: usize = 16;
/// Bytes of all of them at most: they count for the program's address space.
const MOST_BYTES: usize = 32 << 20;
/// Bytes of one at most: what lies here untouched is of no use.
const LARGEST: usize = 16 << 20;
/// Bytes of a new segment from which its pages are cleared through a mapping: fewer are cleared
/// faster by a write(2).
const WORTH_MAPPING: u64 = 32 << 10;
/// Bytes of a mapping up to which closing it in place and opening it again costs less than moving
/// it.
const CLOSED_IN_PLACE: usize = 64 << 10;
/// Bytes that one table of the lowest level of page tables maps.
const TABLE: usize = 2 << 20;

/// How often to look whether another thread still has an entry that it has claimed, which it keeps
/// for a call of the kernel or two: 10 or 20 ms in all. No longer: its handler may wait for this
/// thread.
const LOOKS: u32 = 200;

static ENTRIES: [Entry; MOST] = [const { Entry::new() }; MOST];
static TURNS: AtomicU64 = AtomicU64::new(0);

/// Whether mappings are kept at all.
static ALLOWED: AtomicU32 = AtomicU32::new(UNASKED);
const UNASKED: u32 = 0;
const YES: u32 = 1;
const NO: u32 = 2;
/// Set for good when a program does to its mappings what would show in a later attach.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// A program with a bound on its address space needs all of it itself.
pub fn is_allowed() -> bool {
    match ALLOWED.load(Ordering::Relaxed) {
        YES => !CLOSED.load(Ordering::Relaxed),
        NO => false,
        _ => {
            let bound = rustix::process::getrlimit(rustix::process::Resource::As).current;
            // What can be neither moved nor closed cannot be kept out of sight.
            let allowed = bound.is_none() && !fixed::are_ours();
            ALLOWED.store(if allowed { YES } else { NO }, Ordering::Relaxed);
            allowed && !CLOSED.load(Ordering::Relaxed)
        }
    }
}

/// Keeps nothing any more, from now on.
pub fn close() {
    CLOSED.store(true, Ordering::Relaxed);
    drop_all();
}

/// A mapping of exactly these pages, for loads and stores. It is the caller's then.
#[inline]
pub fn take(offset: u64, bytes: usize) -> Option<usize> {
    if TOTAL.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let entry = ENTRIES.iter().find(|entry| entry.claim(|entry| entry.shows(offset, bytes)))?;
    let (start, _) = entry.range();
    let opened = entry.open();
    if !entry.vacate() {
        return None;
    }
    if !opened {
        drop_mapping(start, bytes);
    }
    opened.then_some(start)
}

/// Unmaps a piece, or keeps the mapping for later where the program does not know it.
pub fn detach(piece: Piece) {
    let is_shared = process::joined().is_some_and(|session| !session.client().has_left());
    if piece.is_plain() && is_shared {
        cache_mapping(piece.offset_of(piece.start), piece.start, piece.bytes);
    } else {
        drop_mapping(piece.start, piece.bytes);
    }
}

/// Takes a mapping away from the address that the program knows. The caller owns the range.
fn cache_mapping(offset: u64, start: usize, bytes: usize) {
    let in_place = bytes <= CLOSED_IN_PLACE || is_device();
    let moved = NonNull::new(start as *mut u8)
        .filter(|_| bytes <= LARGEST && is_allowed())
        // SAFETY: the caller owns the range, and the new place is the kernel's choice.
        .and_then(|start| unsafe {
            if in_place {
                vshmem_mem::protect(start, bytes, None).ok().map(|()| start)
            } else {
                let nearby = place_nearby(start.addr().get(), bytes);
                let place = nearby.or_else(|| next_place(offset, bytes));
                vshmem_mem::relocate(start, bytes, place).ok()
            }
        });
    match moved {
        Some(place) => store(offset, place.as_ptr().addr(), bytes, in_place),
        None => drop_mapping(start, bytes),
    }
}

/// Where a mapping had better be moved to: within the one page table that it lies in, back and
/// forth between two places. No table is made or freed then. A mapping that lies in two tables is
/// moved in parts, and for a part of up to 33 pages the kernel flushes them one by one, which
/// in a virtual machine costs more than all the rest. `None`: it is too large for that.
fn place_nearby(start: usize, bytes: usize) -> Option<usize> {
    let unit = bytes.next_power_of_two();
    if 2 * unit > TABLE {
        return None;
    }
    let table = start & !(TABLE - 1);
    let other = start ^ unit;
    if start.max(other) + bytes <= table + TABLE {
        return Some(other);
    }
    table.checked_sub(TABLE)
}

/// Whether the kernel sees the pool as a device's memory, as in a guest.
fn is_device() -> bool {
    process::joined().is_some_and(|session| session.link().capabilities().memory == Memory::Device)
}

/// Puts a mapping into the cache.
fn store(offset: u64, start: usize, bytes: usize, closed: bool) {
    let known = ENTRIES.iter().any(|entry| entry.is(|entry| entry.shows(offset, bytes)));
    if known || bytes > LARGEST || !is_allowed() {
        return drop_mapping(start, bytes);
    }
    while TOTAL.load(Ordering::Relaxed) + bytes > MOST_BYTES && drop_oldest() {}
    for _ in 0..2 {
        for entry in &ENTRIES {
            let free = entry
                .state
                .compare_exchange(FREE, claimed(), Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
            if free {
                entry.offset.store(offset, Ordering::Relaxed);
                entry.start.store(start, Ordering::Relaxed);
                entry.bytes.store(bytes, Ordering::Relaxed);
                entry.closed.store(closed, Ordering::Relaxed);
                entry.turn.store(TURNS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                TOTAL.fetch_add(bytes, Ordering::AcqRel);
                entry.keep();
                return;
            }
        }
        drop_oldest();
    }
    drop_mapping(start, bytes);
}

fn drop_oldest() -> bool {
    let oldest = ENTRIES
        .iter()
        .filter(|entry| entry.is(|_| true))
        .min_by_key(|entry| entry.turn.load(Ordering::Relaxed));
    oldest.is_some_and(|entry| drop_entry(entry, |_| true))
}

fn drop_entry(entry: &Entry, wanted: impl Fn(&Entry) -> bool) -> bool {
    let mine = entry.claim(wanted);
    if mine {
        entry.discard();
    }
    mine
}

/// Unmaps everything: addresses are short, or something is to lie just there. Says whether there
/// was anything.
pub fn drop_all() -> bool {
    let mut any = false;
    if TOTAL.load(Ordering::Relaxed) != 0 {
        for entry in &ENTRIES {
            any |= drop_entry(entry, |_| true);
        }
    }
    any
}

/// Maps something. What is cached takes addresses: where there are too few, it is unmapped first.
///
/// # Errors
/// What `map` says.
pub fn map_with_room<T>(map: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match map() {
        Err(Errno::NOMEM) if drop_all() => map(),
        other => other,
    }
}

/// What is to be done in a child: its mappings have no page table entries, so they are of no use,
/// and no thread is left to give back what other threads had claimed. What this thread has claimed
/// stays so: a handler that has interrupted it has forked, and it goes on in the child.
pub fn begin_child() {
    let mut kept = 0;
    for entry in &ENTRIES {
        if !drop_entry(entry, |_| true) && entry.state.load(Ordering::Relaxed) != FREE {
            if entry.state.load(Ordering::Relaxed) & !GIVEN_UP == claimed() {
                // It may be counted already, or be no more: then too much is, and never too little,
                // by which entries would be passed over.
                kept += entry.bytes.load(Ordering::Relaxed);
            } else {
                entry.forget_range();
                entry.state.store(FREE, Ordering::Relaxed);
            }
        }
    }
    TOTAL.store(kept, Ordering::Relaxed);
}

/// Unmaps what touches a range that a program is about to do something to: it is to find nothing.
/// Nor may a thread that has claimed such a mapping unmap it later, when the program's own lies
/// there: it ends, or learns that the range was given up.
pub fn drop_range(start: usize, bytes: usize) {
    if TOTAL.load(Ordering::Relaxed) == 0 {
        return;
    }
    for entry in &ENTRIES {
        let mut looks = 0;
        drop_if_touched(entry, start, bytes, || {
            looks += 1;
            pause_between_looks();
            looks < LOOKS
        });
    }
}

/// `pause` is called while another thread has claimed the entry, and says whether to wait on.
fn drop_if_touched(entry: &Entry, start: usize, bytes: usize, mut pause: impl FnMut() -> bool) {
    let end = start.saturating_add(bytes);
    let touches = |entry: &Entry| {
        let (from, length) = entry.range();
        from < end && from.saturating_add(length) > start
    };
    while !drop_entry(entry, touches)
        && let Some(state) = entry.claim_in_force()
        && touches(entry)
    {
        // What this thread has claimed is that of a call which its handler has interrupted.
        // Another one's may have become a claim of other memory meanwhile.
        if state == claimed() || !pause() && touches(entry) {
            entry.give_up(state);
        }
    }
}

/// Makes new pages ready, through a mapping that is here if there is one.
#[derive(Debug)]
pub struct Through<'a>(pub &'a Session);

impl Backing for Through<'_> {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        if !dirty {
            return map_with_room(|| self.0.prepare(offset, bytes, dirty));
        }
        let kept = ENTRIES.iter().find(|entry| entry.claim(|entry| entry.covers(offset, bytes)));
        if let Some(entry) = kept {
            let (start, _) = entry.range();
            if entry.open() {
                let begin = start + (offset - entry.offset.load(Ordering::Relaxed)) as usize;
                clear_if(begin, bytes as usize, || entry.claim_in_force().is_some());
                // It stays open: the attach is about to follow.
                if entry.keep() {
                    return Ok(());
                }
            } else {
                entry.discard();
            }
        }
        let is_small = !is_device() && bytes < WORTH_MAPPING;
        if is_small || bytes > LARGEST as u64 || !is_allowed() {
            return map_with_room(|| self.0.prepare(offset, bytes, dirty));
        }
        let length = bytes as usize;
        let map = || self.0.link().map(offset, length, Protection::READ_WRITE);
        let mapping = map_with_room(map)?;
        let start = mapping.leak().as_ptr().addr();
        clear_if(start, length, || true);
        // The attach that follows finds it.
        store(offset, start, length, false);
        Ok(())
    }

    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        map_with_room(|| self.0.zero(offset, bytes))
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Errno> {
        map_with_room(|| self.0.copy(from, to, bytes))
    }

    fn at_hand(&self, bytes: u64) -> Option<u64> {
        let fits = |entry: &Entry| entry.bytes.load(Ordering::Relaxed) as u64 == bytes;
        let newest = ENTRIES
            .iter()
            .filter(|entry| entry.is(fits))
            .max_by_key(|entry| entry.turn.load(Ordering::Relaxed))?;
        Some(newest.offset.load(Ordering::Relaxed))
    }

    fn node(&self) -> Option<u32> {
        self.0.node()
    }
}

/// Bytes that are cleared between two looks whether the range is still the caller's: in a guest
/// whose pages come one by one, 3 ms; a thread waits for three times as long before it gives a
/// range up.
const BLOCK: usize = 64 << 10;

/// Writes zeros into a range of a mapping that the caller has claimed, as long as it is.
fn clear_if(start: usize, bytes: usize, is_ours: impl Fn() -> bool) {
    for begin in (start..start + bytes).step_by(BLOCK).take_while(|_| is_ours()) {
        let length = BLOCK.min(start + bytes - begin);
        // SAFETY: the range lies inside a mapping for loads and stores that is the caller's alone;
        // the pages are a segment's that no other process can attach yet.
        unsafe { std::ptr::write_bytes(begin as *mut u8, 0, length) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const BYTES: usize = 4096;
    /// The table is the process's: one test after the other.
    static TABLE_IN_USE: Mutex<()> = Mutex::new(());

    fn fill(entry: &Entry, state: u32) {
        // No page is there: nothing unmaps it.
        entry.start.store(1 << 44, Ordering::Relaxed);
        entry.bytes.store(BYTES, Ordering::Relaxed);
        TOTAL.fetch_add(BYTES, Ordering::Relaxed);
        entry.state.store(state, Ordering::Release);
    }

    #[test]
    fn a_program_is_not_given_a_range_that_another_thread_is_about_to_unmap() {
        let _alone = TABLE_IN_USE.lock().unwrap();
        let [entry, ..] = &ENTRIES;
        fill(entry, std::thread::spawn(claimed).join().unwrap());
        let mut looks = 0;
        drop_if_touched(entry, 1 << 44, BYTES, || {
            looks += 1;
            if looks == 3 {
                entry.vacate();
            }
            true
        });
        assert_eq!(looks, 3, "it was not waited for");
    }

    /// Its handler may have left the call by siglongjmp(3). Or else it goes on at last.
    #[test]
    fn a_thread_that_keeps_an_entry_for_too_long_is_waited_for_once_and_leaves_the_range_alone() {
        let _alone = TABLE_IN_USE.lock().unwrap();
        let [entry, ..] = &ENTRIES;
        for thread in [std::thread::spawn(claimed).join().unwrap(), claimed()] {
            let most = if thread == claimed() { 0 } else { 3 };
            fill(entry, thread);
            let mut looks = 0;
            for _ in 0..2 {
                drop_if_touched(entry, 1 << 44, BYTES, || {
                    looks += 1;
                    looks < most
                });
            }
            assert_eq!(looks, most);
            assert!(!entry.keep(), "it stays in the cache");
            assert_eq!(entry.state.load(Ordering::Relaxed), FREE);
            assert_eq!(TOTAL.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_range_that_was_given_up_is_neither_opened_nor_cleared_further() {
        let _alone = TABLE_IN_USE.lock().unwrap();
        let [entry, ..] = &ENTRIES;
        fill(entry, claimed());
        entry.closed.store(true, Ordering::Relaxed);
        let mut pages = vec![1_u8; 3 * BLOCK];
        let start = pages.as_mut_ptr().addr();
        std::hint::black_box(&mut pages);
        let looks = std::cell::Cell::new(0);
        clear_if(start, pages.len(), || {
            if looks.replace(looks.get() + 1) == 1 {
                drop_if_touched(entry, 1 << 44, BYTES, || true);
            }
            entry.claim_in_force().is_some()
        });
        assert_eq!(pages.iter().filter(|&&byte| byte == 0).count(), BLOCK);
        assert!(!entry.open());
        assert!(!entry.vacate());
        assert_eq!(TOTAL.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_entry_that_is_used_again_is_not_given_up_for_what_it_has_shown_before() {
        let _alone = TABLE_IN_USE.lock().unwrap();
        let [entry, ..] = &ENTRIES;
        fill(entry, claimed());
        entry.vacate();
        // As `store` begins.
        entry.state.store(claimed(), Ordering::Relaxed);
        drop_if_touched(entry, 1 << 44, BYTES, || true);
        assert!(entry.claim_in_force().is_some());
        entry.vacate();
    }

    #[test]
    fn a_child_of_a_handler_goes_on_with_the_entry_that_the_handler_has_interrupted() {
        let _alone = TABLE_IN_USE.lock().unwrap();
        let [own, other, ..] = &ENTRIES;
        fill(own, claimed());
        let thread = std::thread::spawn(claimed).join().unwrap();
        fill(other, thread);
        begin_child();
        assert_eq!(other.state.load(Ordering::Relaxed), FREE);
        assert_eq!(own.state.load(Ordering::Relaxed), claimed());
        own.vacate();
        assert_eq!(TOTAL.load(Ordering::Relaxed), 0);
    }
}
