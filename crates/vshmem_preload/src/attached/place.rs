//! Where this process's mappings of the pool are to lie: beside each other, so that of a program's
//! own memory nothing lies between their bounds ([`crate::attached::bounds`]).

use std::sync::atomic::{AtomicBool, Ordering};

use vshmem_link::gather_mappings;

use crate::attached::addresses::{drop_range, no_access};
use crate::attached::bounds;
use crate::errno;

/// Bytes of addresses to look for, the more the better: others' mappings come into them from one of
/// the two ends.
const WANTED: [usize; 4] = [64 << 30, 16 << 30, 4 << 30, 1 << 30];

static IS_CHOSEN: AtomicBool = AtomicBool::new(false);

/// Before something is attached. Where there is no place, mappings lie where the kernel likes.
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
        let found =
            WANTED.into_iter().find_map(|bytes| Some((no_access(0, bytes, 0).ok()?, bytes)));
        if let Some((start, bytes)) = found {
            drop_range(start, bytes);
            gather_mappings(start + bytes / 4..start + bytes / 4 * 3);
        }
    });
}
