//! Where this process's mappings of the pool are to lie: in one range of addresses, so that one
//! compare tells them from a program's own memory ([`crate::attached::bounds`]).
//!
//! The range is looked for and not kept: a mapping asks for a place in it, and lies elsewhere if
//! that is taken. So it costs no addresses, and what is unmapped there is free.

use std::sync::atomic::{AtomicBool, Ordering};

use vshmem_link::gather_mappings;

use crate::attached::addresses::{drop_range, no_access};
use crate::attached::bounds::{self, RANGE_BITS};
use crate::errno;

/// Bytes of a range.
const RANGE: usize = 1 << RANGE_BITS;
/// What a range is looked for in. Others' mappings come into that from one of the two ends, and
/// find as much as a range in front of it.
const WINDOW: usize = 4 * RANGE;
/// At its beginning nothing is put: no lock begins before the range and ends in a mapping.
const MARGIN: usize = 2 << 20;

static IS_CHOSEN: AtomicBool = AtomicBool::new(false);

/// Before something is attached. Where there is no such range, mappings lie where the kernel likes.
#[inline]
pub fn choose() {
    if !IS_CHOSEN.load(Ordering::Relaxed) {
        look();
    }
}

#[cold]
#[inline(never)]
fn look() {
    if IS_CHOSEN.swap(true, Ordering::Relaxed) || !bounds::are_followed() {
        return;
    }
    errno::untouched(|| {
        let Ok(start) = no_access(0, WINDOW, 0) else { return };
        drop_range(start, WINDOW);
        let begin = (start + RANGE).next_multiple_of(RANGE);
        bounds::set_range(begin >> RANGE_BITS);
        gather_mappings(begin + MARGIN..begin + RANGE);
    });
}
