//! Attaches of segments: who has attached what, how often, and who has it open.

use vshmem_mem::seconds_now;
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{AttachCount, ClientId, Layout, ObjectState, Place, ShmSlot, field};

use crate::memory::extents::{self, Extent};
use crate::pool::id::Kind;
use crate::registry::attach_records::{self, count_at};
use crate::registry::table::{self, SlotState};
use crate::shm::segment::at;

/// Adds attaches and descriptors of a client; false when there is no record left.
pub(crate) fn attach(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    segment: u32,
    count: AttachCount,
) -> Result<bool, Fault> {
    let slot = layout.shm.row(segment)?;
    if !attach_records::add(txn, layout, client, segment + 1, count)? {
        return Ok(false);
    }
    let used = count_at(txn, at!(slot, attached))?;
    txn.set_word(at!(slot, attached), used.plus(count).pack())?;
    Ok(true)
}

/// Takes as many attaches and descriptors of a client away as it has of `count`, and the segment
/// with the last one if it was removed before. Says whether there was any.
pub(super) fn detach(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    segment: u32,
    count: AttachCount,
) -> Result<bool, Fault> {
    let gone = attach_records::subtract(txn, layout, client, segment + 1, count)?;
    if gone.is_none() {
        return Ok(false);
    }
    let slot = layout.shm.row(segment)?;
    let used = count_at(txn, at!(slot, attached))?.minus(gone);
    txn.set_word(at!(slot, attached), used.pack())?;
    if gone.attached > 0 {
        txn.update(at!(slot, detach_time), seconds_now())?;
    }
    let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
    if used.is_none() && slot_state.is(ObjectState::Doomed) {
        destroy(txn, layout, segment)?;
    }
    Ok(true)
}

/// Frees the pages and the slot of a segment whose key has gone.
pub(super) fn destroy(txn: &mut Txn<'_>, layout: &Layout, segment: u32) -> Result<(), Fault> {
    let slot = layout.shm.row(segment)?;
    if let Some(extent) = extent_of(txn, layout, slot)? {
        extents::release(txn, layout, extent)?;
    }
    table::free_slot(txn, layout, Kind::Segment, segment)
}

/// The pages of a segment; none: it is a POSIX object without a size.
pub(super) fn extent_of(
    txn: &mut Txn<'_>,
    layout: &Layout,
    slot: Place<ShmSlot>,
) -> Result<Option<Extent>, Fault> {
    let first = txn.get(at!(slot, first_page))?;
    let pages = txn.get(at!(slot, pages))?;
    let extent = txn.get(at!(slot, extent))?;
    if u64::from(first) + u64::from(pages) > layout.data.count {
        return Err(Fault::corrupt(slot, "a segment outside the pool"));
    }
    Ok((pages > 0).then_some(Extent { slot: extent, first, pages }))
}
