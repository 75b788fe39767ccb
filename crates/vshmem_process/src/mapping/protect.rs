//! mprotect(2) and pkey_mprotect(2): other rights for a part are another mapping.

use libc::c_int;
use vshmem_ipc::Errno;

use crate::attached::addresses::PAGE;
use crate::attached::attach_table::{Piece, Rights};
use crate::attached::fixed::touches as is_fixed;
use crate::attached::{mapping_cache, pieces};
use crate::errno;
use crate::mapping::change::change;
use crate::mapping::{fixed, reconcile, user, whole_units};
use crate::next::system_call;

/// The rights that a mapping has.
const RIGHTS: c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

/// mprotect(2) and pkey_mprotect(2), by whatever call.
pub fn protect(
    from: usize,
    bytes: usize,
    rights: c_int,
    key: Option<c_int>,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let length = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    errno::untouched(|| mapping_cache::drop_range(from, length));
    let Some(change) = change(from, length) else {
        let result = call();
        if result == 0 {
            user::forget();
        }
        return result;
    };
    let end = from.saturating_add(length);
    let refused = |piece: Piece| piece.touches(from, end) && !piece.rights.writable;
    if rights & libc::PROT_WRITE != 0 && pieces::find(refused).is_some() {
        errno::set(Errno::ACCESS);
        return -1;
    }
    let result = if is_fixed(from, length) {
        let result = fixed::protect(from, length, rights);
        if result != 0 {
            reconcile::unmapped(change.session().client(), from, length);
        }
        result
    } else {
        whole_units::again(call(), from, length, |start, bytes| {
            protect_units(start, bytes, rights, key)
        })
    };
    if result != 0 {
        return result;
    }
    user::forget();
    close_behind_segments(from, end);
    // Without a key, or with -1, a mapping keeps the one that it has.
    let key = key.and_then(|key| u8::try_from(key).ok());
    if key.is_some_and(|key| key != 0) {
        // It would stay with a mapping that is kept.
        errno::untouched(mapping_cache::close);
    }
    let changed = |before: Rights| Rights {
        now: (rights & RIGHTS) as u32,
        marks: key.map_or(before.marks, |key| before.marks.with_key(key)),
        ..before
    };
    pieces::recut(
        change.session().client(),
        from,
        length,
        |piece| changed(piece.rights) != piece.rights,
        |piece| Some(Piece { rights: changed(piece.rights), ..piece }),
    );
    result
}

/// The call, for whole units.
fn protect_units(start: usize, bytes: usize, rights: c_int, key: Option<c_int>) -> c_int {
    let rights = rights as usize;
    // SAFETY: the program changes the rights of what it has mapped there, and nothing else is in
    // the units.
    let result = unsafe {
        match key {
            None => system_call(libc::SYS_mprotect, [start, bytes, rights]),
            Some(key) => system_call(libc::SYS_pkey_mprotect, [start, bytes, rights, key as usize]),
        }
    };
    result as c_int
}

/// What lies behind a segment's end can never be used, whatever rights the piece is given.
fn close_behind_segments(from: usize, end: usize) {
    pieces::each(|piece| {
        let behind = (piece.start + piece.rest(piece.start)).max(from);
        let until = piece.end().min(end);
        if behind < until && piece.touches(from, end) {
            let words = [behind, until - behind, libc::PROT_NONE as usize];
            // SAFETY: the addresses are reserved, and hold nothing.
            unsafe { system_call(libc::SYS_mprotect, words) };
        }
    });
}
