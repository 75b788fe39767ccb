//! Mappings that can only be replaced ([`Changes::ByReplacement`]): grants of Xen's.
//!
//! A child that fork has made has none of them, and maps them again where they were. Other rights
//! are another mapping in the same place. Nothing here uses the heap.

use std::ptr::NonNull;

use libc::c_int;
use vshmem_ipc::Errno;
use vshmem_link::Changes;
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::attach_table::Piece;
use crate::attached::pieces;
use crate::next::system_call;
use crate::process;

/// Whether this process's mappings are of that kind.
pub fn are_ours() -> bool {
    process::joined()
        .is_some_and(|session| session.link().capabilities().changes == Changes::ByReplacement)
}

/// Whether a range touches an attached segment of that kind.
pub fn touches(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes.max(1));
    let mut touched = false;
    if are_ours() {
        pieces::each(|piece| touched |= piece.touches(start, end));
    }
    touched
}

/// Whether a range lies inside an attached segment of that kind.
pub fn holds(start: usize, bytes: usize) -> bool {
    let mut inside = false;
    if are_ours() {
        pieces::each(|piece| {
            inside |= piece.holds(start, bytes);
        });
    }
    inside
}

/// Maps a child's part of the pool again: its tables, and what it has attached.
///
/// All addresses are taken before anything is mapped: what the kernel is asked for meanwhile would
/// be put into the very gaps.
///
/// # Errors
/// When the tables cannot be mapped where they were: the child has no part in the pool then.
pub fn map_again(session: &Session) -> Result<(), Errno> {
    session.reserve_tables()?;
    pieces::each(|piece| {
        if piece.rights.is_inherited() && !reserve(piece) {
            // Something else lies there by now: it is no longer attached.
            let _ = pieces::take(|other| other == piece);
        }
    });
    session.renew_tables()?;
    pieces::each(|piece| {
        if piece.rights.is_inherited() {
            // What cannot be mapped is a place that faults, as it would be without.
            let _ = map(session, piece, piece.start, piece.bytes, piece.rights.now);
        }
    });
    Ok(())
}

/// Takes a piece's addresses, which are free in a new child; whether it could. What is mapped
/// without any access, behind the segment's end or for want of rights, is private memory, and the
/// child has it.
fn reserve(piece: Piece) -> bool {
    let any = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let shown = piece.bytes.min(piece.rest(piece.start));
    if shown == 0 || piece.rights.now & any as u32 == 0 {
        return true;
    }
    NonNull::new(piece.start as *mut u8)
        .is_some_and(|start| vshmem_mem::reserve(start, shown).is_ok())
}

/// Maps a part of a piece with these rights, in place of what is there. Behind the segment nothing
/// is mapped: what is reserved there stays.
pub fn map(
    session: &Session,
    piece: Piece,
    start: usize,
    bytes: usize,
    rights: u32,
) -> Result<(), Errno> {
    let bytes = bytes.next_multiple_of(4096).min(piece.rest(start));
    if bytes == 0 {
        return Ok(());
    }
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
    let offset = piece.offset_of(start);
    let at = NonNull::new(start as *mut u8).ok_or(Errno::INVAL)?;
    // SAFETY: the range is an attached segment's, and the same memory follows in its place.
    unsafe { session.link().map_at(offset, bytes, protection, at) }?.leak();
    Ok(())
}
