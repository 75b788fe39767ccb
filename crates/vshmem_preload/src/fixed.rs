//! Mappings that can only be replaced ([`vshmem_link::Link::is_fixed`]): grants of Xen's.
//!
//! A child that fork has made has none of them, and maps them again where they were. Other rights
//! are another mapping in the same place. Nothing here uses the heap.

use std::ptr::NonNull;

use libc::c_int;
use vshmem_ipc::Errno;
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::{self, Piece};
use crate::next::system_call;
use crate::process;

/// Whether this process's mappings are of that kind.
pub fn are_ours() -> bool {
    process::joined().is_some_and(|session| session.link().is_fixed())
}

/// The piece that holds a range, if there is one.
fn piece_of(start: usize, bytes: usize) -> Option<Piece> {
    let mut found = None;
    if are_ours() {
        attached::each(|piece| {
            if piece.start <= start && start.saturating_add(bytes.max(1)) <= piece.end() {
                found = Some(piece);
            }
        });
    }
    found
}

/// mremap(2) of a part of a segment, as far as the kernel's books go: the new range holds the same
/// memory, and what is behind it faults. The old range is gone, unless its size was 0.
pub fn remap(
    start: usize,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    target: usize,
) -> Result<usize, Errno> {
    let page = |bytes: usize| bytes.next_multiple_of(4096);
    let (bytes, new_bytes) = (page(bytes), page(new_bytes));
    let session = process::joined().ok_or(Errno::INVAL)?;
    let piece = piece_of(start, bytes).ok_or(Errno::FAULT)?;
    let (may_move, fixed) = (flags & libc::MREMAP_MAYMOVE != 0, flags & libc::MREMAP_FIXED != 0);
    let unknown = flags & !(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) != 0;
    let overlaps =
        fixed && target < start.saturating_add(bytes) && start < target.saturating_add(new_bytes);
    if unknown
        || new_bytes == 0
        || !start.is_multiple_of(4096)
        || (fixed && (!may_move || !target.is_multiple_of(4096) || overlaps))
        || (bytes == 0 && !may_move)
    {
        return Err(Errno::INVAL);
    }
    let begin = |at: usize| NonNull::new(at as *mut u8).ok_or(Errno::INVAL);
    if !fixed && bytes != 0 && new_bytes > bytes {
        // In place, if there is room; the caller covers what is behind the segment.
        let more = vshmem_mem::reserve(begin(start + bytes)?, new_bytes - bytes);
        match more {
            Ok(()) => return Ok(start),
            Err(_) if !may_move => return Err(Errno::NOMEM),
            Err(_) => {}
        }
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let (at, flags) = if fixed { (target, flags | libc::MAP_FIXED) } else { (0, flags) };
    // SAFETY: the program has asked for what lies at the target to be replaced; elsewhere the kernel
    // chooses a free range.
    let got = unsafe {
        let none = libc::PROT_NONE as usize;
        system_call(libc::SYS_mmap, [at, new_bytes, none, flags as usize, usize::MAX, 0])
    };
    let to = usize::try_from(got).map_err(|_| Errno::NOMEM)?;
    let length = if bytes == 0 { piece.end() - start } else { bytes }.min(new_bytes);
    let there = Piece { start: to, base: to.wrapping_sub(start - piece.base), ..piece };
    let mapped = map(session, there, to, length, piece.rights.now);
    if mapped.is_err() {
        crate::unmap::drop_range(to, new_bytes);
        return mapped.map(|()| to);
    }
    if bytes != 0 {
        crate::unmap::drop_range(start, bytes);
    }
    Ok(to)
}

/// Whether a range touches an attached segment of that kind.
pub fn touches(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes.max(1));
    let mut touched = false;
    if are_ours() {
        attached::each(|piece| touched |= piece.start < end && piece.end() > start);
    }
    touched
}

/// Whether a range lies inside an attached segment of that kind.
pub fn holds(start: usize, bytes: usize) -> bool {
    let mut inside = false;
    if are_ours() {
        attached::each(|piece| {
            inside |= piece.start <= start && start.saturating_add(bytes) <= piece.end();
        });
    }
    inside
}

/// Maps a child's part of the pool again: its tables, and what it has attached.
///
/// All addresses are taken before anything is mapped: what the kernel is asked for meanwhile would be
/// put into the very gaps.
///
/// # Errors
/// When the tables cannot be mapped where they were: the child has no part in the pool then.
pub fn map_again(session: &Session) -> Result<(), Errno> {
    session.reserve_tables()?;
    attached::each(|piece| {
        if piece.rights.inherited && !reserve(piece) {
            // Something else lies there by now: it is no longer attached.
            let _ = attached::take(|other| other == piece);
        }
    });
    session.renew_tables()?;
    attached::each(|piece| {
        if piece.rights.inherited {
            // What cannot be mapped is a place that faults, as it would be without.
            let _ = map(session, piece, piece.start, piece.bytes, piece.rights.now);
        }
    });
    Ok(())
}

/// Takes a piece's addresses, which are free in a new child; whether it could.
fn reserve(piece: Piece) -> bool {
    NonNull::new(piece.start as *mut u8)
        .is_some_and(|start| vshmem_mem::reserve(start, piece.bytes).is_ok())
}

/// Other rights for a range, what lies between segments included.
pub fn protect(start: usize, bytes: usize, rights: c_int) -> c_int {
    let Some(session) = process::joined() else { return -1 };
    let end = start.saturating_add(bytes);
    let mut at = start;
    while at < end {
        let (mut here, mut next) = (None, end);
        attached::each(|piece| {
            if piece.start <= at && at < piece.end() {
                here = Some(piece);
            } else if piece.start > at {
                next = next.min(piece.start);
            }
        });
        let until = here.map_or(next, |piece: Piece| piece.end().min(end));
        let changed = match here {
            Some(piece) => map(session, piece, at, until - at, rights as u32),
            // SAFETY: the program has asked for it.
            None => match unsafe {
                system_call(libc::SYS_mprotect, [at, until - at, rights as usize, 0, 0, 0])
            } {
                0 => Ok(()),
                _ => return -1,
            },
        };
        if let Err(errno) = changed {
            crate::errno::set(errno);
            return -1;
        }
        at = until;
    }
    0
}

/// Maps a part of a piece with these rights, in place of what is there.
fn map(
    session: &Session,
    piece: Piece,
    start: usize,
    bytes: usize,
    rights: u32,
) -> Result<(), Errno> {
    let bytes = bytes.next_multiple_of(4096);
    let allows = |bit: c_int| rights & bit as u32 != 0;
    if !allows(libc::PROT_READ) && !allows(libc::PROT_WRITE) && !allows(libc::PROT_EXEC) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let none = libc::PROT_NONE as usize;
        // SAFETY: the range is an attached segment's, which the program does not want to use now.
        let got = unsafe {
            system_call(libc::SYS_mmap, [start, bytes, none, flags as usize, usize::MAX, 0])
        };
        return if usize::try_from(got) == Ok(start) { Ok(()) } else { Err(Errno::NOMEM) };
    }
    let protection =
        Protection { write: allows(libc::PROT_WRITE), execute: allows(libc::PROT_EXEC) };
    let offset = piece.offset + start.wrapping_sub(piece.base) as u64;
    // SAFETY: the range is an attached segment's, and the same memory follows in its place.
    let mapping =
        unsafe { session.link().map(offset, bytes, protection, NonNull::new(start as *mut u8)) }?;
    mapping.leak();
    Ok(())
}
