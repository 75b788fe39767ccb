//! Which segment a thread sleeps in that sleeps by address.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, load_value};
use vshmem_wire::{AddressWait, ObjectState, PAGE_BYTES, Place, ShmSlot, ThreadSlot, field};

use crate::pool::id::Kind;
use crate::pool::open::Pool;
use crate::registry::table::{self, per_kind};

/// A segment, and where in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address {
    pub segment: u32,
    pub offset: u64,
}

/// Where the thread in the slot at `at` sleeps; `None` when the segment has gone.
pub(super) fn address_of(pool: &Pool, at: Place<ThreadSlot>) -> Result<Option<Address>, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let offset = map.load(field!(at.address_wait(), AddressWait, offset), Ordering::Relaxed)?;
    let Some(inside) = offset.checked_sub(layout.data.offset()) else { return Ok(None) };
    let high = load_value(map, per_kind!(layout, high_water, Kind::Segment))?;
    for segment in 0..high.min(layout.shm.count as u32) {
        let slot = layout.shm.row(segment)?;
        let slot_state = table::slot_state(map, slot.header())?;
        if !slot_state.is(ObjectState::Live) && !slot_state.is(ObjectState::Doomed) {
            continue;
        }
        let start = u64::from(load_value(map, field!(slot, ShmSlot, first_page))?) * PAGE_BYTES;
        let bytes = u64::from(load_value(map, field!(slot, ShmSlot, pages))?) * PAGE_BYTES;
        if (start..start + bytes).contains(&inside) {
            return Ok(Some(Address { segment, offset: inside - start }));
        }
    }
    Ok(None)
}
