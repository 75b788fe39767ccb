//! The intent record as it lies in a thread slot: written by its owner, carried out by the thread
//! that takes the lock over.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::{
    CELL_BYTES, Cell, INTENT_ENTRIES, IntentEntry, IntentHead, MORE_LOG_ENTRIES, Place, RawCell,
    ThreadSlot, field,
};

use super::context::LockContext;
use crate::fault::Fault;

/// What the cell of an entry holds before the change.
#[inline]
pub(super) fn before(entry: &IntentEntry) -> Cell {
    Cell { word: entry.old, tag: entry.tag }
}

/// Makes the record of a thread slot invalid, before any of its words is overwritten: a thread that
/// still carries it out must see that. Barrier REWRITE: pairs with the fence in [`carry_out`].
pub(super) fn close_record(map: &Map, slot: Place<ThreadSlot>) -> Result<(), Fault> {
    map.store(field!(slot, ThreadSlot, intent_head), 0, Ordering::Relaxed)?;
    vshmem_mem::fence(Ordering::Release);
    Ok(())
}

/// `None` when it does not lie in the pool.
fn read_entry(map: &Map, at: Place<IntentEntry>) -> Option<IntentEntry> {
    let word = |place: Place<u64>| map.load(place, Ordering::Relaxed).ok();
    Some(IntentEntry {
        offset: word(field!(at, IntentEntry, offset))?,
        old: word(field!(at, IntentEntry, old))?,
        tag: word(field!(at, IntentEntry, tag))?,
        new: word(field!(at, IntentEntry, new))?,
    })
}

/// Writes a record into a thread slot: the entries `near` there, and those that are `far` at an
/// offset of their own.
#[inline]
pub(super) fn write_record(
    lock_context: &LockContext<'_>,
    lock: Place<RawCell>,
    committed: u64,
    near: &[IntentEntry],
    far: Option<(Place<IntentEntry>, &[IntentEntry])>,
) -> Result<(), Fault> {
    let map = lock_context.map;
    let slot = lock_context.slot_at(lock_context.slot)?;
    close_record(map, slot)?;
    write_entries(map, field!(slot, ThreadSlot, intents).first(), near)?;
    let mut entries = near.len();
    if let Some((first, far)) = far {
        write_entries(map, first, far)?;
        map.store(field!(slot, ThreadSlot, more_intents), first.offset(), Ordering::Relaxed)?;
        entries += far.len();
    }
    map.store(field!(slot, ThreadSlot, intent_lock), lock.offset(), Ordering::Relaxed)?;
    let head = IntentHead { tag: committed, entries: entries as u64 }.pack();
    // Part of COMMIT: pairs with the acquire of the head in `carry_out`.
    map.store(field!(slot, ThreadSlot, intent_head), head, Ordering::Release)?;
    Ok(())
}

#[inline]
fn write_entries(
    map: &Map,
    first: Place<IntentEntry>,
    entries: &[IntentEntry],
) -> Result<(), Fault> {
    for (nth, entry) in entries.iter().enumerate() {
        write_entry(map, first.nth(nth as u64), entry)?;
    }
    Ok(())
}

#[inline]
fn write_entry(map: &Map, at: Place<IntentEntry>, entry: &IntentEntry) -> Result<(), Fault> {
    map.store(field!(at, IntentEntry, offset), entry.offset, Ordering::Relaxed)?;
    map.store(field!(at, IntentEntry, old), entry.old, Ordering::Relaxed)?;
    map.store(field!(at, IntentEntry, tag), entry.tag, Ordering::Relaxed)?;
    map.store(field!(at, IntentEntry, new), entry.new, Ordering::Relaxed)?;
    Ok(())
}

/// Carries out the committed record of another thread slot, for the given lock, which has been
/// committed with `tag`.
///
/// A record that has been overwritten meanwhile is left alone: its owner only starts a new one
/// after it has carried out the old one itself. A record that no honest client writes is not
/// refused: those of its entries that can be read are applied, inside the pool, and the lock is
/// released.
pub(super) fn carry_out(
    lock_context: &LockContext<'_>,
    owner: u32,
    lock: Place<RawCell>,
    tag: u64,
) -> Result<(), Fault> {
    let map = lock_context.map;
    let Ok(slot) = lock_context.slot_at(owner) else { return Ok(()) };
    let head_at = field!(slot, ThreadSlot, intent_head);
    let lock_at = field!(slot, ThreadSlot, intent_lock);
    let head = map.load(head_at, Ordering::Acquire)?;
    let Some(count) = IntentHead::entries_for(head, tag) else { return Ok(()) };
    if map.load(lock_at, Ordering::Relaxed)? != lock.offset() {
        return Ok(());
    }
    let more = Place::at(map.load(field!(slot, ThreadSlot, more_intents), Ordering::Relaxed)?);
    let near = INTENT_ENTRIES as u64;
    for index in 0..count.min(near + MORE_LOG_ENTRIES as u64) {
        let at = if index < near {
            field!(slot, ThreadSlot, intents).element(index)
        } else {
            more.nth(index - near)
        };
        let Some(entry) = read_entry(map, at) else { return Ok(()) };
        // Pairs with REWRITE in `close_record`: if a word of a newer record was read
        // above, then the head read now is no longer the one that was checked. It may be as long
        // and of the same tag, but then it is of another lock, whose offset was written
        // before it. (A third record, of this lock again, has another tag.)
        vshmem_mem::fence(Ordering::Acquire);
        let same = map.load(head_at, Ordering::Acquire)? == head
            && map.load(lock_at, Ordering::Relaxed)? == lock.offset();
        if !same {
            return Ok(());
        }
        let allowed =
            entry.offset >= vshmem_wire::PAGE_BYTES && entry.offset < lock_context.words_end;
        if allowed && entry.offset.is_multiple_of(CELL_BYTES) {
            map.replace_cell(entry.offset, before(&entry), entry.new)?;
        }
    }
    Ok(())
}
