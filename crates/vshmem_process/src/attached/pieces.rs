//! What this process has attached: its attach table ([`crate::attached::attach_table`]), and the
//! pool that counts.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use vshmem_ipc::Client;
use vshmem_session::Session;

use crate::attached::attach_table::{self, Counts, Marks, Piece, Rights, Table, TooMany};
use crate::attached::bounds;
use crate::errno;

/// Pieces of one process at most.
const MOST: usize = 16384;

static PIECES: Table<MOST> = Table::new();

/// How often a piece has come to lie somewhere.
static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// Adds a piece.
pub fn add(piece: Piece) -> Result<(), TooMany> {
    bounds::include(piece.start, piece.bytes);
    let added = PIECES.add(piece);
    ARRIVALS.fetch_add(1, Ordering::Release);
    added
}

/// How often a piece has come to lie somewhere so far: as long as this is the same, an address that
/// was in none is in none.
#[inline]
pub fn arrivals() -> u64 {
    ARRIVALS.load(Ordering::Acquire)
}

/// Takes a piece out that satisfies `wanted`. It is the caller's then.
pub fn take(wanted: impl FnMut(Piece) -> bool) -> Option<Piece> {
    PIECES.take(wanted)
}

/// Calls `each` with every piece.
pub fn each(each: impl FnMut(Piece)) {
    PIECES.each(each);
}

/// A piece that satisfies `wanted`.
pub fn find(wanted: impl FnMut(Piece) -> bool) -> Option<Piece> {
    PIECES.find(wanted)
}

/// Whether there are none.
pub fn is_empty() -> bool {
    PIECES.is_empty()
}

/// Whether all of a range is attached, in however many pieces.
pub fn holds(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes);
    let mut at = start;
    while at < end {
        match find(|piece| piece.holds(at, 1)) {
            Some(piece) => at = piece.end(),
            None => return false,
        }
    }
    true
}

/// Rights of the piece at an address, if there is one.
pub fn rights_at(address: usize) -> Option<Rights> {
    find(|piece| piece.holds(address, 1)).map(|piece| piece.rights)
}

/// Of the units that a device has mapped for a range, those without a piece outside of the range
/// ([`attach_table::without_others`]).
pub fn units_alone(session: &Session, range: Range<usize>, units: Range<usize>) -> Range<usize> {
    let unit = usize::try_from(session.link().capabilities().page_bytes).unwrap_or(usize::MAX);
    attach_table::without_others(&PIECES, range, units, unit)
}

/// Whether a range touches a piece, or may: this very thread is changing pieces.
pub fn may_touch(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes.max(1));
    attach_table::read_consistent(|| find(|piece| piece.touches(start, end)).is_some())
        .unwrap_or(true)
}

/// Whether a range touches a piece. While this very thread changes pieces, nearly all are in their
/// places even so.
pub fn touches(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes);
    let look = || find(|piece| piece.touches(start, end)).is_some();
    attach_table::read_consistent(look).unwrap_or_else(look)
}

/// The pool's counts. An error cannot be returned: the mapping has changed whatever we say.
#[derive(Debug)]
struct Of<'a>(&'a Client);

impl Counts for Of<'_> {
    fn one_more(&self, id: i32) {
        let _ = self.0.attach_again(id);
    }

    fn one_less(&self, id: i32) {
        let _ = self.0.shmdt(id);
    }
}

/// Cuts pieces, see [`attach_table::recut`].
pub fn recut(
    this_client: &Client,
    start: usize,
    bytes: usize,
    touched: impl Fn(Piece) -> bool,
    mut each: impl FnMut(Piece) -> Option<Piece>,
) {
    let placed = |piece: Piece| {
        let placed = each(piece);
        if let Some(piece) = placed {
            bounds::include(piece.start, piece.bytes);
        }
        placed
    };
    errno::untouched(|| {
        attach_table::recut(&PIECES, &Of(this_client), start, bytes, touched, placed);
    });
    ARRIVALS.fetch_add(1, Ordering::Release);
}

/// Takes a range that is no longer mapped, or no longer a segment's, out of the attach table.
pub fn forget_range(this_client: &Client, start: usize, bytes: usize) {
    errno::untouched(|| attach_table::take_range(&PIECES, &Of(this_client), start, bytes));
}

/// A mapping was made longer in place.
pub fn advance(start: usize, bytes: usize, more: usize) {
    bounds::include(start, bytes.saturating_add(more));
    let _ = attach_table::advance(&PIECES, start, bytes, more);
    ARRIVALS.fetch_add(1, Ordering::Release);
}

/// The kernel's marks of a range have changed, where `done` says so.
pub fn mark(
    this_client: &Client,
    start: usize,
    bytes: usize,
    done: impl Fn(Piece) -> bool,
    change: impl Fn(Marks) -> Marks,
) {
    recut(
        this_client,
        start,
        bytes,
        |piece| change(piece.rights.marks) != piece.rights.marks && done(piece),
        |piece| {
            let marks = change(piece.rights.marks);
            Some(Piece { rights: Rights { marks, ..piece.rights }, ..piece })
        },
    );
}

/// A forked child's pieces: without those that it does not inherit, and with nothing locked.
pub fn begin_child(mut gone: impl FnMut(Piece)) {
    while let Some(piece) = take(|piece| !piece.rights.is_inherited()) {
        gone(piece);
    }
    let locked = Marks::LOCKED.and(Marks::LOCKED_ON_FAULT);
    let is_locked = |piece: Piece| piece.rights.marks.without(locked) != piece.rights.marks;
    while let Some(piece) = take(is_locked) {
        let marks = piece.rights.marks.without(locked);
        let _ = add(Piece { rights: Rights { marks, ..piece.rights }, ..piece });
    }
}
