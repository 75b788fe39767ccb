//! Rows of the lock table: read, copied and checked; written under the table's lock.

use arrayvec::ArrayVec;
use vshmem_mem::Ordering;
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{
    DomainSlot, LockAnswer, LockClass, LockMode, LockRow, LockRowHead, LockRowKind, ObjectState,
    Place, RawCell, Registry, field,
};

use crate::claims::pieces::{LockRange, MOST_PIECES, Piece, Pieces};
use crate::context::Context;
use crate::pool::id::Kind;
use crate::registry::table;

/// A place: the file of an object in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockPlace {
    pub domain: u32,
    /// As a row has it.
    pub epoch: u32,
    pub inode: u64,
}

/// The locks of one class on one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockedObject {
    pub index: u32,
    pub generation: u64,
    pub class: LockClass,
}

/// A row that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub index: u32,
    pub kind: LockRowKind,
    pub of: LockedObject,
    pub place: LockPlace,
    pub range: LockRange,
    pub mode: LockMode,
    pub client: u64,
    pub file: u64,
    pub answer: LockAnswer,
}

impl Row {
    pub fn is_claim(&self) -> bool {
        self.kind == LockRowKind::Claim
    }

    /// Whether it keeps another place from granting a lock.
    pub fn conflicts(&self, range: LockRange, mode: LockMode) -> bool {
        self.range.meets(range) && self.mode.max(mode) == LockMode::Exclusive
    }
}

/// The rows of one table, as `get` reads them: in a change, or without the lock.
pub(crate) struct Rows<'a> {
    context: &'a Context,
    high: u32,
}

/// Where a cell of a row lies.
macro_rules! at {
    ($row:expr, $field:ident) => {
        field!($row, LockRow, $field)
    };
}

impl<'a> Rows<'a> {
    pub fn new(
        context: &'a Context,
        get: &mut dyn FnMut(Place<RawCell>) -> Result<u64, Fault>,
    ) -> Result<Self, Fault> {
        let layout = context.pool().layout();
        let high = get(field!(layout.registry, Registry, lock_rows))? as u32;
        Ok(Self { context, high: high.min(layout.locks.count as u32) })
    }

    /// Calls `each` with every row in use.
    pub fn each(
        &self,
        get: &mut dyn FnMut(Place<RawCell>) -> Result<u64, Fault>,
        each: &mut dyn FnMut(Row),
    ) -> Result<(), Fault> {
        for index in 0..self.high {
            if let Some(row) = read(self.context, get, index)? {
                each(row);
            }
        }
        Ok(())
    }
}

/// A row; `None` for a free one, and for one that cannot be.
pub(crate) fn read(
    context: &Context,
    get: &mut dyn FnMut(Place<RawCell>) -> Result<u64, Fault>,
    index: u32,
) -> Result<Option<Row>, Fault> {
    let layout = context.pool().layout();
    let at = layout.locks.row(index)?;
    let Some(head) = LockRowHead::unpack(get(at!(at, head))?) else { return Ok(None) };
    let range = LockRange { start: get(at!(at, start))?, last: get(at!(at, last))? };
    let is_known = u64::from(head.domain) < layout.domains.count
        && u64::from(head.object) < layout.shm.count
        && range.is_valid();
    if !is_known {
        return Ok(None);
    }
    let generation = get(at!(at, generation))?;
    let inode = get(at!(at, inode))?;
    Ok(Some(Row {
        index,
        kind: head.kind,
        of: LockedObject { index: head.object, generation, class: head.class },
        place: LockPlace { domain: head.domain, epoch: head.epoch, inode },
        range,
        mode: head.mode,
        client: get(at!(at, client))?,
        file: get(at!(at, file))?,
        answer: LockAnswer::unpack(get(at!(at, answer))?),
    }))
}

/// Writes a row.
pub(crate) fn write(txn: &mut Txn<'_>, context: &Context, row: &Row) -> Result<(), Fault> {
    let layout = context.pool().layout();
    let at = layout.locks.row(row.index)?;
    let head = LockRowHead {
        kind: row.kind,
        class: row.of.class,
        mode: row.mode,
        object: row.of.index,
        domain: row.place.domain,
        epoch: row.place.epoch,
    };
    txn.update_word(at!(at, head), head.pack())?;
    txn.update_word(at!(at, generation), row.of.generation)?;
    txn.update_word(at!(at, inode), row.place.inode)?;
    txn.update_word(at!(at, start), row.range.start)?;
    txn.update_word(at!(at, last), row.range.last)?;
    txn.update_word(at!(at, client), row.client)?;
    txn.update_word(at!(at, file), row.file)?;
    txn.update_word(at!(at, answer), row.answer.pack())
}

/// Frees a row.
pub(crate) fn free(txn: &mut Txn<'_>, context: &Context, row: &Row) -> Result<(), Fault> {
    let layout = context.pool().layout();
    txn.update_word(at!(layout.locks.row(row.index)?, head), 0)?;
    if row.is_claim() {
        return Ok(());
    }
    let wants = field!(layout.registry, Registry, lock_wants);
    let before = txn.get(wants)?;
    txn.update(wants, before.saturating_sub(1))
}

/// The cell that a client sleeps at until its want is answered.
pub(crate) fn answer_cell(context: &Context, index: u32) -> Result<Place<RawCell>, Fault> {
    Ok(at!(context.pool().layout().locks.row(index)?, answer))
}

/// A free row; one of an object that has gone counts as free. `None` when there is none.
pub(crate) fn take(txn: &mut Txn<'_>, context: &Context) -> Result<Option<u32>, Fault> {
    let layout = context.pool().layout();
    let high_at = field!(layout.registry, Registry, lock_rows);
    let high = txn.get(high_at)?.min(layout.locks.count as u32);
    for index in 0..high {
        let head_at = at!(layout.locks.row(index)?, head);
        if txn.get_word(head_at)? == 0 && !txn.has_written(head_at) {
            return Ok(Some(index));
        }
    }
    if u64::from(high) < layout.locks.count {
        txn.set(high_at, high + 1)?;
        return Ok(Some(high));
    }
    for index in 0..high {
        let head_at = at!(layout.locks.row(index)?, head);
        let row = read(context, &mut |at| txn.get_word(at), index)?;
        let is_over = match row {
            Some(row) => row.is_claim() && !is_alive(context, row.of)?,
            None => true,
        };
        if is_over && !txn.has_written(head_at) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Whether an object is still the one that a row is about.
pub(crate) fn is_alive(context: &Context, of: LockedObject) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let slot = Kind::Segment.row(layout, of.index)?;
    let state = table::slot_state(map, slot)?;
    let is_there = state.is(ObjectState::Live) || state.is(ObjectState::Doomed);
    Ok(is_there && table::generation(map, slot)? == of.generation)
}

/// What a change about one object has found in the table.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Claims of the place itself.
    pub own: ArrayVec<Row, MOST_PIECES>,
    /// Claims of other places that keep the lock from being granted.
    pub against: ArrayVec<Row, MOST_PIECES>,
    /// Whether others have claims, or want some.
    pub is_contested: bool,
}

/// Looks for what concerns a lock of an object.
pub(crate) fn find(
    txn: &mut Txn<'_>,
    context: &Context,
    of: LockedObject,
    place: LockPlace,
    (range, mode): (LockRange, LockMode),
) -> Result<Found, Fault> {
    let mut found = Found::default();
    let mut get = |at| txn.get_word(at);
    let rows = Rows::new(context, &mut get)?;
    rows.each(&mut get, &mut |row| {
        if row.of != of {
            return;
        }
        if row.place == place {
            if row.is_claim() {
                let _ = found.own.try_push(row);
            }
            return;
        }
        found.is_contested = true;
        if row.is_claim() && row.conflicts(range, mode) {
            // More than these are found when the first ones have gone.
            let _ = found.against.try_push(row);
        }
    })?;
    Ok(found)
}

/// The claims of rows.
pub(crate) fn pieces_of(rows: &[Row]) -> Pieces {
    Pieces::of(rows.iter().map(|row| Piece { range: row.range, mode: row.mode }))
}

/// There is no row left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Makes the rows of a place say what `pieces` do.
pub(crate) fn replace(
    txn: &mut Txn<'_>,
    context: &Context,
    before: &[Row],
    (of, place, file): (LockedObject, LockPlace, u64),
    pieces: &Pieces,
) -> Result<Result<(), Full>, Fault> {
    let says = |row: &Row, piece: &Piece| row.range == piece.range && row.mode == piece.mode;
    let mut unused: ArrayVec<&Row, MOST_PIECES> =
        before.iter().filter(|row| !pieces.iter().any(|piece| says(row, piece))).collect();
    for piece in pieces.iter() {
        if before.iter().any(|row| says(row, piece)) {
            continue;
        }
        let index = match unused.pop() {
            Some(row) => row.index,
            None => match take(txn, context)? {
                Some(index) => index,
                None => return Ok(Err(Full)),
            },
        };
        let (range, mode) = (piece.range, piece.mode);
        let (kind, answer) = (LockRowKind::Claim, LockAnswer::Asked);
        write(txn, context, &Row { index, kind, of, place, range, mode, client: 0, file, answer })?;
    }
    for row in unused {
        free(txn, context, row)?;
    }
    Ok(Ok(()))
}

/// Gives the agent of a domain a reason to look at the table.
pub(crate) fn ring(txn: &mut Txn<'_>, context: &Context, domain: u32) -> Result<(), Fault> {
    let Some(slot) = context.pool().layout().domains.at(domain) else { return Ok(()) };
    let bell = field!(slot, DomainSlot, lock_bell);
    if txn.has_written(bell) {
        return Ok(());
    }
    let before = txn.get(bell)?;
    txn.set(bell, before.wrapping_add(1))
}

/// Whether there are wants: without the lock.
pub(crate) fn are_wanted(context: &Context) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let wants = field!(layout.registry, Registry, lock_wants);
    Ok(map.load(wants.word(), Ordering::SeqCst)? as u32 != 0)
}
