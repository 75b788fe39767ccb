//! Calls on all of a mapping, where the device maps larger units than a page.
//!
//! The kernel maps and cuts whole units there, and refuses with EINVAL what begins or ends inside
//! of one. A program that has mapped 4 KiB and unmaps 4 KiB does not know of the rest of the unit,
//! which holds nothing that is its own. So a call that has failed is made again for whole units,
//! where its range begins with a piece and ends with one. Other pieces in these units, which a call
//! on a part has cut off that the kernel did not mind, are not to be changed with it: then the call
//! is refused as the kernel has refused it, and munmap(2) leaves their units mapped until the last
//! piece goes.

use std::ops::Range;

use libc::c_int;

use crate::attached::addresses::PAGE;
use crate::attached::pieces;
use crate::{errno, process};

/// What a call on a range has returned, or what it returns for the whole units around the range.
/// The caller holds the attach table ([`crate::mapping::change::change`]).
pub fn again(
    result: c_int,
    start: usize,
    bytes: usize,
    call: impl FnOnce(usize, usize) -> c_int,
) -> c_int {
    if !is_refused(result, start) {
        return result;
    }
    match around(start, bytes) {
        Some((units, alone)) if units == alone => call(units.start, units.len()),
        _ => result,
    }
}

/// The same for munmap(2): what the program gives up stays mapped as long as its units hold a
/// piece, where nobody knows of it.
pub fn unmap_again(
    result: c_int,
    start: usize,
    bytes: usize,
    call: impl FnOnce(usize, usize) -> c_int,
) -> c_int {
    if !is_refused(result, start) {
        return result;
    }
    match around(start, bytes) {
        Some((_, alone)) if alone.is_empty() => 0,
        Some((_, alone)) => call(alone.start, alone.len()),
        None => result,
    }
}

/// Whether a call from `start` on has failed as it does for a part of a unit.
fn is_refused(result: c_int, start: usize) -> bool {
    result == -1 && errno::get() == libc::EINVAL && start.is_multiple_of(PAGE)
}

/// The whole units around a range, if that is more than the range; and those of them in which there
/// is no other piece.
fn around(start: usize, bytes: usize) -> Option<(Range<usize>, Range<usize>)> {
    let session = process::joined()?;
    let link = session.link();
    let end = start.checked_add(bytes)?;
    let (mut from, mut to) = (start, end);
    pieces::each(|piece| {
        // Behind the object's memory, addresses are reserved by the page.
        let shown = piece.rest(piece.start).min(piece.bytes);
        if shown == 0 || !piece.touches(start, end) {
            return;
        }
        let units = link.capabilities().footprint(piece.start, shown);
        if piece.start == start {
            from = from.min(units.start);
        }
        if piece.start + shown == end {
            to = to.max(units.end);
        }
    });
    let units = from..to;
    (units != (start..end))
        .then(|| (units.clone(), pieces::units_alone(session, start..end, units)))
}
