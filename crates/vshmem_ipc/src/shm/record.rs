//! Attach records: who has attached what, how often.

use vshmem_mem::seconds_now;
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{AttachSlot, ClientId, ClientSlot, Layout, ObjectHeader, ObjectState, Registry};

use crate::memory::extents::{self, Extent};
use crate::pool::clients::slot_of;
use crate::pool::id::Kind;
use crate::registry::table::{self, SlotState};
use crate::shm::segment::at;

pub(crate) fn attach_at(layout: &Layout, record: u32) -> Result<u64, Fault> {
    layout.attaches.at(record).ok_or(Fault::corrupt(layout.attaches.offset, "no attach record"))
}

/// Finds a client's attach record of a segment, with the cell that points to it.
fn find_record(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    segment: u32,
) -> Result<Option<(u64, u64)>, Fault> {
    let mut link = field!(slot_of(layout, client)?, ClientSlot, attaches);
    for _ in 0..=layout.attaches.count {
        let Some(record) = txn.get(link)?.checked_sub(1) else {
            return Ok(None);
        };
        let at = attach_at(layout, record)?;
        if txn.get(field!(at, AttachSlot, segment))? == segment + 1 {
            return Ok(Some((at, link)));
        }
        link = field!(at, AttachSlot, next);
    }
    Err(Fault::corrupt(link, "an attach list without an end"))
}

/// Adds `count` attaches of a client; false when there is no record left.
pub(crate) fn attach(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    segment: u32,
    count: u32,
) -> Result<bool, Fault> {
    let slot = table::slot_at(layout, Kind::Segment, segment)?;
    if let Some((at, _)) = find_record(txn, layout, client, segment)? {
        let before = txn.get(field!(at, AttachSlot, count))?;
        txn.set(field!(at, AttachSlot, count), before.saturating_add(count))?;
    } else {
        let hint_at = field!(layout.registry, Registry, attach_hint);
        let records = layout.attaches.count as u32;
        let hint = txn.get(hint_at)? % records;
        let mut free = None;
        for step in 0..records {
            let record = (hint + step) % records;
            let at = attach_at(layout, record)?;
            if txn.get(field!(at, AttachSlot, segment))? == 0 {
                free = Some((record, at));
                break;
            }
        }
        let Some((record, at)) = free else {
            return Ok(false);
        };
        let head_at = field!(slot_of(layout, client)?, ClientSlot, attaches);
        let head = txn.get(head_at)?;
        txn.set(hint_at, record + 1)?;
        txn.set(field!(at, AttachSlot, segment), segment + 1)?;
        txn.set(field!(at, AttachSlot, count), count)?;
        txn.set(field!(at, AttachSlot, next), head)?;
        txn.set_word(field!(at, AttachSlot, client), client.word())?;
        txn.set(head_at, record + 1)?;
    }
    let attached = txn.get(at!(slot, attached))?;
    txn.set(at!(slot, attached), attached.saturating_add(count))?;
    Ok(true)
}

/// Takes `count` attaches (all: `u32::MAX`) of a client away, and the segment with the last one if
/// it was removed before. Says whether there was such an attach.
pub(super) fn detach(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    segment: u32,
    count: u32,
) -> Result<bool, Fault> {
    let Some((at, link)) = find_record(txn, layout, client, segment)? else {
        return Ok(false);
    };
    let slot = table::slot_at(layout, Kind::Segment, segment)?;
    let held = txn.get(field!(at, AttachSlot, count))?;
    let gone = held.min(count);
    if gone < held {
        txn.set(field!(at, AttachSlot, count), held - gone)?;
    } else {
        let next = txn.get(field!(at, AttachSlot, next))?;
        txn.set(link, next)?;
        txn.set(field!(at, AttachSlot, segment), 0)?;
        txn.set(field!(at, AttachSlot, client), 0)?;
    }
    let attached = txn.get(at!(slot, attached))?.saturating_sub(gone);
    txn.set(at!(slot, attached), attached)?;
    txn.update(at!(slot, detach_time), seconds_now())?;
    let slot_state = SlotState::unpack(txn.get(field!(slot, ObjectHeader, state))?);
    if attached == 0 && slot_state.is(ObjectState::Doomed) {
        destroy(txn, layout, segment)?;
    }
    Ok(true)
}

/// Frees the pages and the slot of a segment whose key has gone.
pub(super) fn destroy(txn: &mut Txn<'_>, layout: &Layout, segment: u32) -> Result<(), Fault> {
    let slot = table::slot_at(layout, Kind::Segment, segment)?;
    let first = txn.get(at!(slot, first_page))?;
    let pages = txn.get(at!(slot, pages))?;
    let extent = txn.get(at!(slot, extent))?;
    extents::release(txn, layout, Extent { slot: extent, first, pages })?;
    table::free_slot(txn, layout, Kind::Segment, segment)
}
