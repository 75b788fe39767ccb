//! SEM_UNDO: adjustments that are applied when a process ends.
//!
//! A record belongs to one client and one set, and is on the set's list; set and list are under
//! the set's lock, so a step on a semaphore and its adjustment are one change: a client that is
//! killed at any instruction has either done both or neither.

use std::mem::offset_of;

use rustix::io::Errno;
use vshmem_mem::{Map, Ordering, WordsRef};
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{
    ClientList, Fault, ListEntry, LockContext, Txn, claim_cell, claim_word, load_cell, load_value,
    load_word, structure,
};
use vshmem_wire::{
    CELL_BYTES, Cell, ClientId, ClientListHead, ClientSlot, Layout, Place, RawCell, SemSlot,
    UndoSlot, WORD_BYTES, field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks, heap};
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::pool::clients::slot_of;
use crate::pool::limits::limit_name;
use crate::pool::open::Pool;
use crate::pool::tag_floor;
use crate::sem::set::Set;

/// Where a record's adjustments begin.
pub(crate) fn adjustments(
    txn: &mut Txn<'_>,
    layout: &Layout,
    record: u32,
) -> Result<Place<RawCell>, Fault> {
    let unit = txn.get(field!(layout.undos.row(record)?, UndoSlot, adjustments))?;
    match unit.checked_sub(1) {
        Some(unit) => Chunk(unit).place(layout),
        None => Err(Fault::corrupt(layout.undos.row(record)?, "an undo record without room")),
    }
}

/// Closes the fast path to an adjustment, below `base` of a record, of a semaphore that is closed.
/// Returns where it lies, and the cell as this change sees it.
pub(crate) fn close(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    record: u32,
    base: Place<RawCell>,
    number: u16,
) -> Result<(Place<RawCell>, Cell), Fault> {
    let at = base.nth(u64::from(number));
    if txn.has_written(at) {
        return Ok((at, txn.cell(at)?));
    }
    let semaphore = set.semaphore(pool, number.into())?;
    Ok((at, semaphore.close_adjustment(record, at)?))
}

/// Calls `each` with every record of a set.
pub(crate) fn walk(
    txn: &mut Txn<'_>,
    layout: &Layout,
    set: &Set,
    mut each: impl FnMut(&mut Txn<'_>, u32) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let head = field!(set.slot, SemSlot, undos);
    let mut next = txn.get(head)?;
    for _ in 0..=layout.undos.count {
        let Some(record) = next.checked_sub(1) else {
            return Ok(());
        };
        next = txn.get(field!(layout.undos.row(record)?, UndoSlot, next))?;
        if !each(txn, record)? {
            return Ok(());
        }
    }
    Err(Fault::corrupt(head, "a list of undo records without an end"))
}

/// The record that a client has of a set.
fn find_record(
    txn: &mut Txn<'_>,
    layout: &Layout,
    set: &Set,
    client: ClientId,
) -> Result<Option<u32>, Fault> {
    let mut found = None;
    walk(txn, layout, set, |txn, record| {
        if txn.get_word(field!(layout.undos.row(record)?, UndoSlot, client))? == client.word() {
            found = Some(record);
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// Whether a record of a set is a client's; under the set's lock.
pub(crate) fn belongs(
    txn: &mut Txn<'_>,
    layout: &Layout,
    set: &Set,
    record: u32,
    client: ClientId,
) -> Result<bool, Fault> {
    let Ok(at) = layout.undos.row(record) else { return Ok(false) };
    Ok(txn.get_word(field!(at, UndoSlot, client))? == client.word()
        && txn.get(field!(at, UndoSlot, set))? == set.index + 1)
}

/// Closes all adjustments of a record of a removed set, which is about to give them up.
pub(crate) fn close_all(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    record: u32,
) -> Result<(), Fault> {
    if txn.get(field!(pool.layout().undos.row(record)?, UndoSlot, adjustments))? == 0 {
        return Ok(());
    }
    let base = adjustments(txn, pool.layout(), record)?;
    txn.step(set.count)?;
    let mut highest = 0;
    for number in 0..set.count {
        let at = base.nth(u64::from(number));
        let closed = set.semaphore(pool, number)?.close_adjustment(record, at)?;
        highest = highest.max(closed.tag);
    }
    tag_floor::raise(pool.map(), pool.layout(), highest)
}

/// Takes a record, whose adjustments are closed, off its set's list; its client keeps it. Its room
/// passes to `new_owner`, which discards it.
pub(crate) fn unlink(
    txn: &mut Txn<'_>,
    layout: &Layout,
    set: &Set,
    record: u32,
    new_owner: ClientId,
) -> Result<Option<Chunk>, Fault> {
    let mut link = field!(set.slot, SemSlot, undos);
    for _ in 0..=layout.undos.count {
        let Some(other) = txn.get(link)?.checked_sub(1) else {
            break;
        };
        let at = layout.undos.row(other)?;
        if other != record {
            link = field!(at, UndoSlot, next);
            continue;
        }
        let next = txn.get(field!(at, UndoSlot, next))?;
        txn.set(link, next)?;
        let room = txn.get(field!(at, UndoSlot, adjustments))?.checked_sub(1).map(Chunk);
        if let Some(chunk) = room {
            heap::pass(txn, layout, chunk, IN_OBJECT, new_owner.word())?;
        }
        txn.set(field!(at, UndoSlot, adjustments), 0)?;
        txn.set(field!(at, UndoSlot, set), 0)?;
        return Ok(room);
    }
    Err(Fault::corrupt(link, "an undo record that is on no list"))
}

/// An undo record, and where its adjustments were when it was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub record: u32,
    /// The first adjustment.
    pub base: Place<RawCell>,
    fields: WordsRef<'a, { size_of::<UndoSlot>() / WORD_BYTES as usize }>,
    unit: u32,
}

impl Known<'_> {
    /// Whether it is a client's record of a set, and its adjustments still there.
    #[inline(always)]
    pub fn is_of(&self, client: ClientId, set: &Set) -> bool {
        let load = |at| self.fields.load(at, Ordering::Acquire);
        load(offset_of!(UndoSlot, client)) == client.word()
            && load(offset_of!(UndoSlot, set)) as u32 == set.index + 1
            && load(offset_of!(UndoSlot, adjustments)) as u32 == self.unit
    }
}

/// This process's record of a set, made if there is none.
pub(crate) fn undo_record(
    context: &Context,
    lock_context: &LockContext<'_>,
    set: &Set,
) -> Result<u32, Failure> {
    let layout = context.pool().layout();
    let me = context.client_id();
    let hint = context.undo_hints.of(set.index);
    if let Some(record) = hint.load(Ordering::Relaxed).checked_sub(1)
        && record_is(context, record, me, set).unwrap_or(false)
    {
        return Ok(record);
    }
    let found = change::run(context, lock_context, set.lock(), "undo-find", |txn| {
        if set.alive(txn)? { find_record(txn, layout, set, me) } else { Ok(None) }
    })?;
    let record = match found {
        Some(record) => record,
        None => make_record(context, lock_context, set, me)?,
    };
    hint.store(record + 1, Ordering::Relaxed);
    Ok(record)
}

/// What is likely this process's record of a set: to be asked with [`Known::is_of`] once its
/// adjustments have been read.
#[inline(always)]
pub(crate) fn known_undo_record<'a>(
    context: &'a Context,
    set: &Set,
) -> Result<Option<Known<'a>>, Fault> {
    let Some(record) = context.undo_hints.of(set.index).load(Ordering::Relaxed).checked_sub(1)
    else {
        return Ok(None);
    };
    let layout = context.pool().layout();
    let fields = structure!(context.pool().map(), layout.undos.row(record)?, UndoSlot)?;
    let unit = fields.load(offset_of!(UndoSlot, adjustments), Ordering::Acquire) as u32;
    let Some(chunk) = unit.checked_sub(1).map(Chunk) else { return Ok(None) };
    let base: Place<RawCell> = chunk.place(layout)?;
    let fits = base.nth(set.count.into()).offset() <= layout.heap.end();
    Ok(fits.then_some(Known { record, base, fields, unit }))
}

fn record_is(context: &Context, record: u32, client: ClientId, set: &Set) -> Result<bool, Fault> {
    let (map, at) = (context.pool().map(), context.pool().layout().undos.row(record)?);
    Ok(load_word(map, field!(at, UndoSlot, client))? == client.word()
        && load_value(map, field!(at, UndoSlot, set))? == set.index + 1)
}

fn make_record(
    context: &Context,
    lock_context: &LockContext<'_>,
    set: &Set,
    me: ClientId,
) -> Result<u32, Failure> {
    let layout = context.pool().layout();
    let map = context.pool().map();
    let bytes = u64::from(set.count) * CELL_BYTES;
    let chunk = chunks::take(context, lock_context, bytes)?;
    // The record, and whether the room has become part of it.
    let make = || -> Result<(u32, bool), Failure> {
        tag_floor::lay_cells(map, layout, chunk.place(layout)?, set.count, 0)?;
        let Some(record) = take_record(context, me)? else {
            return Err(context.pool().full(limit_name!(undos), Errno::NOSPC).into());
        };
        let at = layout.undos.row(record)?;
        let linked = change::decide(context, lock_context, set.lock(), "undo-make", |txn| {
            if !set.alive(txn)? {
                return Ok(Abandon(Errno::IDRM));
            }
            // Another thread of this process may have made one meanwhile.
            if let Some(other) = find_record(txn, layout, set, me)? {
                return Ok(Commit(other));
            }
            let head = field!(set.slot, SemSlot, undos);
            let next = txn.get(head)?;
            txn.set(field!(at, UndoSlot, next), next)?;
            txn.set(field!(at, UndoSlot, set), set.index + 1)?;
            txn.set(field!(at, UndoSlot, adjustments), chunk.0 + 1)?;
            heap::pass(txn, layout, chunk, me.word(), IN_OBJECT)?;
            txn.set(head, record + 1)?;
            Ok(Commit(record))
        });
        if !matches!(linked, Ok(mine) if mine == record) {
            claim_cell(map, field!(at, UndoSlot, set), UndoSlot::TAKEN, 0)?;
        }
        linked.map(|found| (found, found == record))
    };
    let made = make();
    if !matches!(made, Ok((_, true))) {
        let _ = chunks::release(context, lock_context, chunk);
    }
    made.map(|(record, _)| record)
}

/// Takes a record that serves no set: one of this client's own, or a free one, which the client
/// keeps from then on.
fn take_record(context: &Context, me: ClientId) -> Result<Option<u32>, Fault> {
    /// Own ones that are looked at before a free one is claimed: what was given up last is among
    /// them.
    const LATEST: u64 = 8;
    let all = context.pool().layout().undos.count;
    if let Some(record) = take_own_record(context, me, LATEST)? {
        return Ok(Some(record));
    }
    if let Some(record) = claim_record(context, me)? {
        return Ok(Some(record));
    }
    if let Some(record) = take_own_record(context, me, all)? {
        return Ok(Some(record));
    }
    if context.pool().free_dead_undos()? { claim_record(context, me) } else { Ok(None) }
}

fn take_own_record(context: &Context, me: ClientId, most: u64) -> Result<Option<u32>, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let list = field!(slot_of(layout, me)?, ClientSlot, undos);
    let mut client_list_head = ClientListHead::unpack(load_word(map, list)?);
    for _ in 0..most {
        let Some(record) = client_list_head.last_of(me) else {
            break;
        };
        let at = layout.undos.row(record)?;
        client_list_head = ClientListHead::unpack(load_word(map, field!(at, UndoSlot, sibling))?);
        if load_word(map, field!(at, UndoSlot, client))? != me.word() {
            break;
        }
        if take_set(map, layout, record, me)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

fn claim_record(context: &Context, me: ClientId) -> Result<Option<u32>, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let list = field!(slot_of(layout, me)?, ClientSlot, undos);
    let all = ClientList { map, list, client: me };
    let count = layout.undos.count as u32;
    let from = (me.word() as u32).wrapping_mul(31) % count;
    for step in 0..count {
        let held = undo_list_entry(layout, (from + step) % count)?;
        if !claim_word(map, held.owner, 0, me.word())? {
            continue;
        }
        // Before it is on the list, where other threads of this process look for records that serve
        // no set.
        take_set(map, layout, held.number, me)?;
        all.enlist(held)?;
        return Ok(Some(held.number));
    }
    Ok(None)
}

/// Notes that a client is about to use a record of its that serves no set; says whether it is one.
fn take_set(map: &Map, layout: &Layout, record: u32, client: ClientId) -> Result<bool, Fault> {
    let at = layout.undos.row(record)?;
    // The cell first: see `ListEntry`.
    let set = load_cell(map, field!(at, UndoSlot, set))?;
    let ours = load_word(map, field!(at, UndoSlot, client))? == client.word();
    Ok(ours
        && set.word == 0
        && map.replace_cell(field!(at, UndoSlot, set), set, UndoSlot::TAKEN.into())?)
}

/// An undo record as something that clients hold.
pub(crate) fn undo_list_entry(layout: &Layout, record: u32) -> Result<ListEntry, Fault> {
    let at = layout.undos.row(record)?;
    let (owner, sibling) = (field!(at, UndoSlot, client), field!(at, UndoSlot, sibling));
    Ok(ListEntry { number: record, owner, sibling })
}

/// [`take_set`] backwards, for a client that has ended. Says whether its record serves no set.
pub(crate) fn forget_set(
    map: &Map,
    layout: &Layout,
    record: u32,
    client: ClientId,
) -> Result<bool, Fault> {
    let at = layout.undos.row(record)?;
    let set = load_cell(map, field!(at, UndoSlot, set))?;
    let ours = load_word(map, field!(at, UndoSlot, client))? == client.word();
    if ours && set.value() == UndoSlot::TAKEN {
        map.replace_cell(field!(at, UndoSlot, set), set, 0)?;
    }
    Ok(ours && (set.value() == 0 || set.value() == UndoSlot::TAKEN))
}

impl Pool {
    /// Frees the undo records of dead clients that serve no set. Says whether there were any.
    pub(crate) fn free_dead_undos(&self) -> Result<bool, Fault> {
        let mut freed = false;
        for record in 0..self.layout().undos.count as u32 {
            freed |= self.free_dead_undo(record)?;
        }
        Ok(freed)
    }

    pub(crate) fn free_dead_undo(&self, record: u32) -> Result<bool, Fault> {
        let owner_at = undo_list_entry(self.layout(), record)?.owner;
        let owner = load_word(self.map(), owner_at)?;
        let Some(dead) = ClientId::of(owner) else { return Ok(false) };
        if !self.is_of_dead(owner)? {
            return Ok(false);
        }
        // On a set's list: only a peer can have brought that about.
        let free = forget_set(self.map(), self.layout(), record, dead)?;
        Ok(free && claim_word(self.map(), owner_at, owner, 0)?)
    }
}
