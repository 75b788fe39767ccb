//! The table of undo records.

use vshmem_mem::Map;
use vshmem_sync::{Fault, ListEntry, claim_word, field, load_cell, load_word};
use vshmem_wire::{ClientId, Layout, Place, UndoSlot};

use crate::pool::open::Pool;

/// An undo record as something that clients hold.
pub(crate) fn undo_list_entry(layout: &Layout, record: u32) -> Result<ListEntry, Fault> {
    let at = undo_at(layout, record)?;
    let (owner, sibling) = (field!(at, UndoSlot, client), field!(at, UndoSlot, sibling));
    Ok(ListEntry { number: record, owner, sibling })
}

/// Notes that a client is about to use a record of its that serves no set; says whether it is one.
pub(crate) fn take_set(
    map: &Map,
    layout: &Layout,
    record: u32,
    client: ClientId,
) -> Result<bool, Fault> {
    let at = undo_at(layout, record)?;
    // The cell first: see `ListEntry`.
    let set = load_cell(map, field!(at, UndoSlot, set))?;
    let ours = load_word(map, field!(at, UndoSlot, client))? == client.word();
    Ok(ours
        && set.word == 0
        && map.replace_cell(field!(at, UndoSlot, set), set, UndoSlot::TAKEN.into())?)
}

/// The same backwards, for a client that has ended. Says whether its record serves no set.
pub(crate) fn forget_set(
    map: &Map,
    layout: &Layout,
    record: u32,
    client: ClientId,
) -> Result<bool, Fault> {
    let at = undo_at(layout, record)?;
    let set = load_cell(map, field!(at, UndoSlot, set))?;
    let ours = load_word(map, field!(at, UndoSlot, client))? == client.word();
    if ours && set.value() == UndoSlot::TAKEN {
        map.replace_cell(field!(at, UndoSlot, set), set, 0)?;
    }
    Ok(ours && (set.value() == 0 || set.value() == UndoSlot::TAKEN))
}

#[inline]
pub(crate) fn undo_at(layout: &Layout, record: u32) -> Result<Place<UndoSlot>, Fault> {
    layout
        .undos
        .at(record)
        .ok_or_else(|| Fault::corrupt(layout.undos.first(), "no such undo record"))
}

impl Pool {
    /// The same of undo records.
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
