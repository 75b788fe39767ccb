//! Mappings of a pool in one range of addresses, where a process asks for it: beside each other,
//! with nothing of the program's own between them.
//!
//! The range is not kept: each mapping asks the kernel for the next place in it, and lies elsewhere
//! if that is taken. So it costs no addresses, and what is unmapped is free.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one table of the lowest level of page tables maps.
const TABLE: usize = 2 << 20;

/// Where the range begins, where it ends, and the next place in it. All 0 while there is none.
static BEGIN: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// From now on, mappings without a given address are placed in a range, as far as it is free.
pub fn gather_mappings(range: Range<usize>) {
    BEGIN.store(range.start, Ordering::Relaxed);
    END.store(range.end, Ordering::Relaxed);
    NEXT.store(range.start, Ordering::Release);
}

/// The next place for a mapping; `None` for the kernel's choice.
pub fn next_place(offset: u64, bytes: usize) -> Option<usize> {
    if NEXT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let (begin, end) = (BEGIN.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
    let place = |next: usize| {
        place_of(next, end, offset, bytes).or_else(|| place_of(begin, end, offset, bytes))
    };
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        place(next).map(|place| place.end)
    });
    taken.ok().and_then(place).map(|place| place.start)
}

/// The place from `next` on, with what is to stay free behind it: a small one may be moved back and
/// forth within one page table; a large one lies so that it can have huge pages.
fn place_of(next: usize, end: usize, offset: u64, bytes: usize) -> Option<Range<usize>> {
    let room = bytes.checked_next_power_of_two()?.checked_mul(2)?;
    let (start, length) = if room <= TABLE {
        (next.checked_next_multiple_of(room)?, room)
    } else {
        let within = offset as usize % TABLE;
        (next.checked_next_multiple_of(TABLE)?.checked_add(within)?, bytes)
    };
    let last = start.checked_add(length)?;
    (last <= end).then_some(start..last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_and_leave_small_ones_room_to_move() {
        let end = 1 << 30;
        let small = place_of(0x1000, end, 0x7000, 0x3000).unwrap();
        assert_eq!(small, 0x8000..0x10000);
        assert_eq!(place_of(small.end, end, 0, 0x3000).unwrap().start, 0x10000);
        // Alike modulo a huge page.
        let large = place_of(0x1000, end, 0x123_4000, 4 << 20).unwrap();
        assert_eq!(large.start % TABLE, 0x123_4000 % TABLE);
        assert_eq!(large.len(), 4 << 20);
        assert_eq!(place_of(end - 0x1000, end, 0, 0x1000), None);
        assert_eq!(place_of(0, end, 0, usize::MAX), None);
    }
}
