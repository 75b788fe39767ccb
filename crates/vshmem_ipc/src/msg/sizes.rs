//! Sizes of the messages of a queue that can be seen, for listings.

use vshmem_mem::Map;
use vshmem_sync::{Fault, MessageRing, load_value};
use vshmem_wire::{LONG_RING_SLOTS, Layout, Place, RING_PAYLOAD_BYTES, RING_SLOTS, RawCell};

use crate::msg::message::Header;
use crate::msg::mode::long_ring;
use crate::msg::queue::{Queue, at};
use crate::msg::ring::header_of;
use crate::msg::ring_chunk::SpareChunk;

/// Messages whose sizes can be seen, those in the queue and the last that its ring has passed on,
/// and their bytes.
pub(crate) fn sizes(map: &Map, layout: &Layout, queue: &Queue) -> Result<(u32, u64), Fault> {
    let mut messages = load_value(map, at!(queue, count))?;
    let mut bytes = u64::from(load_value(map, at!(queue, bytes))?);
    let mut see = |size: u64| {
        messages = messages.saturating_add(1);
        bytes += size.min(RING_PAYLOAD_BYTES);
    };
    see_ring::<RING_SLOTS>(map, layout, queue, queue.ring(), &mut see)?;
    if let Some(base) = long_ring(map, layout, queue)? {
        see_ring::<LONG_RING_SLOTS>(map, layout, queue, base, &mut see)?;
    }
    Ok((messages, bytes))
}

fn see_ring<const N: usize>(
    map: &Map,
    layout: &Layout,
    queue: &Queue,
    base: Place<[RawCell; N]>,
    see: &mut impl FnMut(u64),
) -> Result<(), Fault> {
    let ring = MessageRing::<N>::read(map, base)?;
    for ring_slot in ring.messages() {
        see(header_of(map, layout, ring_slot).map_or(0, |header| header.size));
    }
    for ring_slot in ring.vacant() {
        if let Some(spare) = SpareChunk::of(map, layout, queue.index, ring_slot)? {
            see(Header::read(map, layout, spare.chunk)?.size);
        }
    }
    Ok(())
}
