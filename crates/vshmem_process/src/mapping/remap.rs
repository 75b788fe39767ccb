//! mremap(2) and remap_file_pages(2): a mapping of a segment shows the segment and nothing else.
//!
//! To the kernel an attach is a mapping of the pool's file, in which other segments and the pool's
//! own tables lie before and behind. What would grow over the segment's end, or show another page
//! of the file, is therefore not left to the kernel: addresses beyond the end are reserved without
//! any access, before the segment comes to lie in front of them, so that there is no moment at
//! which they show anything.

use std::ptr::NonNull;

use libc::{c_int, c_void};
use vshmem_ipc::{Client, Errno};
use vshmem_link::Memory;
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::addresses::{PAGE, drop_range, no_access};
use crate::attached::attach_table::{Marks, Piece, Rights};
use crate::attached::{fixed as attached_fixed, mapping_cache, pieces};
use crate::errno;
use crate::mapping::change::change;
use crate::mapping::remap_request::RemapRequest;
use crate::mapping::{fixed, reconcile, user};
use crate::next::system_call;

/// The kernel's mremap(2) to a given place.
fn second_mapping(start: usize, bytes: usize, at: Option<usize>) -> Result<usize, Errno> {
    let fixed = if at.is_some() { libc::MREMAP_FIXED } else { 0 };
    let flags = (libc::MREMAP_MAYMOVE | fixed) as usize;
    // SAFETY: an old length of 0 leaves what is there; the new place was reserved by the caller, or
    // is the kernel's choice.
    let got = unsafe { system_call(libc::SYS_mremap, [start, 0, bytes, flags, at.unwrap_or(0)]) };
    usize::try_from(got).map_err(|_| Errno::from_raw_os_error(errno::get()))
}

/// mremap(2), by whatever call.
pub fn remap(
    start: usize,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    target: usize,
    call: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let pages = |bytes: usize| bytes.checked_next_multiple_of(PAGE);
    let (Some(bytes), Some(new_bytes)) = (pages(bytes), pages(new_bytes)) else { return call() };
    let request = RemapRequest { start, bytes, new_bytes, flags, target };
    let replaces = request.has(libc::MREMAP_FIXED);
    errno::untouched(|| {
        mapping_cache::drop_range(start, bytes.max(1));
        if replaces {
            mapping_cache::drop_range(target, new_bytes);
        }
    });
    let target_changes = || replaces.then(|| change(target, new_bytes)).flatten();
    let changing = change(start, bytes).or_else(target_changes);
    let Some(changing) = &changing else { return passed_on(call) };
    let session = changing.session();
    let source = pieces::find(|piece| piece.holds(start, 1));
    let placed = match source {
        _ if request.moves_several() => Err(Errno::FAULT),
        Some(piece) => place(session, piece, request),
        None => Ok(None),
    };
    let result = match placed {
        Ok(None) => call(),
        Ok(Some(place)) => place as *mut c_void,
        Err(error) => {
            errno::set(error);
            libc::MAP_FAILED
        }
    };
    if result != libc::MAP_FAILED {
        user::forget();
        remapped(session.client(), source, request, result.addr());
    } else if replaces && !request.overlaps() {
        let moved = if request.copies() { 0 } else { bytes.min(new_bytes) };
        reconcile::half_moved(session.client(), start, moved, target);
        reconcile::unmapped(session.client(), start, bytes);
        reconcile::unmapped(session.client(), target, new_bytes);
    }
    result
}

/// A call that touches nothing that is attached.
fn passed_on(call: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let result = call();
    if result != libc::MAP_FAILED {
        user::forget();
    }
    result
}

/// Does what the kernel must not do by itself with a piece; `None` where it may.
fn place(session: &Session, piece: Piece, request: RemapRequest) -> Result<Option<usize>, Errno> {
    let RemapRequest { start, bytes, new_bytes, .. } = request;
    let more = request.grows() || bytes == 0;
    if attached_fixed::are_ours() && (more || request.flags & !libc::MREMAP_MAYMOVE != 0) {
        return errno::untouched(|| fixed::remap(session, piece, request)).map(Some);
    }
    // Of a dax device the kernel would give addresses at which each touch is SIGBUS.
    if !request.is_in_units_of(session.link().capabilities().page_bytes as usize) {
        return Err(Errno::INVAL);
    }
    if more && !piece.holds(start, bytes) {
        // Two mappings, even where the kernel has made one of them: EFAULT.
        return request.check().and(Err(Errno::FAULT));
    }
    let beyond = new_bytes > piece.rest(start) && piece.holds(start, bytes);
    let moves = more || request.has(libc::MREMAP_FIXED);
    if !beyond || !moves || request.has(libc::MREMAP_DONTUNMAP) {
        return Ok(None);
    }
    request.check()?;
    errno::untouched(|| grow(session, piece, request)).map(Some)
}

/// A piece that is to be longer than what the segment has from there on.
fn grow(session: &Session, piece: Piece, request: RemapRequest) -> Result<usize, Errno> {
    let RemapRequest { start, bytes, new_bytes, .. } = request;
    let shown = piece.rest(start).min(new_bytes);
    if session.link().capabilities().memory == Memory::Device && shown > 0 {
        // Such mappings grow nowhere: the kernel's word.
        drop_range(second_mapping(start, PAGE, None)?, PAGE);
    }
    let in_place = bytes != 0
        && !request.has(libc::MREMAP_FIXED)
        && start + bytes == piece.end()
        && shown <= bytes;
    if in_place
        && let Some(behind) = NonNull::new((start + bytes) as *mut u8)
        && vshmem_mem::reserve(behind, new_bytes - bytes).is_ok()
    {
        return Ok(start);
    }
    if !request.has(libc::MREMAP_MAYMOVE) {
        return Err(Errno::NOMEM);
    }
    let to = request.reserve()?;
    if shown > 0
        && let Err(error) = second_mapping(start, shown, Some(to))
    {
        drop_range(to, new_bytes);
        return Err(error);
    }
    if bytes != 0 {
        drop_range(start, bytes);
    }
    Ok(to)
}

/// Follows a successful mremap in the attach table. `source` is the piece at its old start.
fn remapped(this_client: &Client, source: Option<Piece>, request: RemapRequest, to: usize) {
    let RemapRequest { start: from, bytes: before, new_bytes: kept, .. } = request;
    if request.has(libc::MREMAP_FIXED) && to != from {
        // What lay at the target has gone.
        pieces::forget_range(this_client, to, kept);
    }
    if request.copies() {
        if let Some(piece) = source
            && errno::untouched(|| this_client.attach_again(piece.id)).is_ok()
        {
            let second = Piece { start: from, bytes: kept, ..piece };
            let _ = pieces::add(second.moved(from, to));
        }
        return;
    }
    if kept < before {
        pieces::forget_range(this_client, from.saturating_add(kept), before - kept);
    }
    let more = kept.saturating_sub(before);
    if to != from {
        pieces::recut(
            this_client,
            from,
            before.min(kept),
            |_| true,
            |piece| Some(Piece { bytes: piece.bytes + more, ..piece.moved(from, to) }),
        );
    } else if more > 0 {
        pieces::advance(from, before, more);
    }
}

/// remap_file_pages(2), by whatever call.
pub fn show(
    start: usize,
    bytes: usize,
    rights: c_int,
    page: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // As the kernel rounds.
    let (start, bytes) = (start & !(PAGE - 1), bytes & !(PAGE - 1));
    errno::untouched(|| mapping_cache::drop_range(start, bytes));
    let Some(change) = change(start, bytes) else { return call() };
    let sought = if rights == 0 { page.checked_mul(PAGE).filter(|_| bytes > 0) } else { None };
    let shown = sought
        .ok_or(Errno::INVAL)
        .and_then(|place| errno::untouched(|| show_pages(change.session(), start, bytes, place)));
    user::forget();
    errno::answer_unit(shown)
}

/// Shows pages from `place` of a segment on in a range of an attach of it.
fn show_pages(session: &Session, start: usize, bytes: usize, place: usize) -> Result<(), Errno> {
    let end = start.checked_add(bytes).ok_or(Errno::INVAL)?;
    place.checked_add(bytes).ok_or(Errno::INVAL)?;
    let first = pieces::find(|piece| piece.holds(start, 1)).ok_or(Errno::INVAL)?;
    // The range may be in several pieces, if they are alike.
    let mut at = start;
    while at < end {
        let next = pieces::find(|piece| {
            piece.holds(at, 1) && piece.id == first.id && piece.rights == first.rights
        });
        at = next.ok_or(Errno::INVAL)?.end();
    }
    // Of what the kernel keeps beside the rights only a lock outlives it.
    let marks = first.rights.marks.only(Marks::LOCKED.and(Marks::OF_DESCRIPTOR));
    let (base, rights) = (start.wrapping_sub(place), Rights { marks, ..first.rights });
    let shown = Piece { start, bytes, base, rights, ..first };
    let this_client = session.client();
    if !marks.has(Marks::OF_DESCRIPTOR) {
        return show_pages_of_segment(session, shown);
    }
    this_client.attach_again(first.id)?;
    if let Err(error) = map_pages(session, shown) {
        let _ = this_client.shmdt(first.id);
        reconcile::unmapped(this_client, start, bytes);
        return Err(error);
    }
    pieces::forget_range(this_client, start, bytes);
    pieces::add(shown).map_err(|_| Errno::NOMEM)
}

/// As the kernel does it with a segment: unmapped first, then attached. So a removed one of which
/// this was the last attach has gone by then: EINVAL, and nothing is mapped there any more.
fn show_pages_of_segment(session: &Session, shown: Piece) -> Result<(), Errno> {
    let (Piece { start, bytes, id, .. }, this_client) = (shown, session.client());
    // The addresses stay taken, and show nothing of what the segment leaves to others.
    no_access(start, bytes, libc::MAP_FIXED)?;
    pieces::forget_range(this_client, start, bytes);
    let refused = match this_client.attach_again(id) {
        Ok(()) => match map_pages(session, shown) {
            Ok(()) => return pieces::add(shown).map_err(|_| Errno::NOMEM),
            Err(error) => {
                let _ = this_client.shmdt(id);
                error
            }
        },
        Err(Errno::IDRM) => Errno::INVAL,
        Err(error) => error,
    };
    drop_range(start, bytes);
    Err(refused)
}

/// Maps what a piece shows, with its rights, in place of what is there. What would lie behind the
/// segment is without any access.
fn map_pages(session: &Session, piece: Piece) -> Result<(), Errno> {
    let there = piece.rest(piece.start).min(piece.bytes);
    if there < piece.bytes {
        no_access(piece.start + there, piece.bytes - there, libc::MAP_FIXED)?;
    }
    if there > 0 { map_as(session, piece, there) } else { Ok(()) }
}

/// Maps the first `bytes` bytes that a piece shows.
fn map_as(session: &Session, piece: Piece, bytes: usize) -> Result<(), Errno> {
    let has = |bit: c_int| piece.rights.now & bit as u32 != 0;
    let protection = Protection { write: has(libc::PROT_WRITE), execute: has(libc::PROT_EXEC) };
    let at = NonNull::new(piece.start as *mut u8).ok_or(Errno::INVAL)?;
    let offset = piece.offset_of(piece.start);
    // SAFETY: the range is an attached segment's, and the program has asked for other pages of the
    // segment to be there.
    unsafe { session.link().map_at(offset, bytes, protection, at) }?.leak();
    if !has(libc::PROT_READ) {
        let words = [piece.start, bytes, piece.rights.now as usize];
        // SAFETY: the mapping was just made for the program, which has had it with these rights.
        unsafe { system_call(libc::SYS_mprotect, words) };
    }
    Ok(())
}
