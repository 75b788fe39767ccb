//! mremap(2) and mprotect(2) of mappings that can only be replaced ([`crate::attached::fixed`]).

use libc::c_int;
use vshmem_ipc::Errno;
use vshmem_session::Session;

use crate::attached::addresses::drop_range;
use crate::attached::attach_table::Piece;
use crate::attached::fixed::map;
use crate::attached::pieces;
use crate::mapping::remap_request::RemapRequest;
use crate::next::system_call;
use crate::{errno, process};

/// mremap(2) of a part of a segment, as far as the kernel's tables go: the new range holds the same
/// memory, and what is behind it faults. The old range is gone, unless its size was 0.
pub fn remap(session: &Session, piece: Piece, request: RemapRequest) -> Result<usize, Errno> {
    let RemapRequest { start, bytes, new_bytes, .. } = request;
    request.check()?;
    if !piece.holds(start, bytes) {
        return Err(Errno::FAULT);
    }
    let to = request.reserve_or_extend()?;
    let rights = piece.rights.now;
    if to == start {
        // In place. The segment may go on where it had been cut.
        let more = new_bytes.saturating_sub(bytes);
        return map(session, piece, start + bytes, more, rights).map(|()| to);
    }
    let mapped = map(session, piece.moved(start, to), to, new_bytes, rights);
    if mapped.is_err() {
        drop_range(to, new_bytes);
        return mapped.map(|()| to);
    }
    if bytes != 0 {
        drop_range(start, bytes);
    }
    Ok(to)
}

/// Other rights for a range, what lies between segments included.
pub fn protect(start: usize, bytes: usize, rights: c_int) -> c_int {
    let Some(session) = process::joined() else { return -1 };
    let end = start.saturating_add(bytes);
    let mut at = start;
    while at < end {
        let (mut here, mut next) = (None, end);
        pieces::each(|piece| {
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
            errno::set(errno);
            return -1;
        }
        at = until;
    }
    0
}
