//! Sizes of the messages of a queue that can be seen, for listings.

use vshmem_mem::Map;
use vshmem_sync::{Fault, MessageRing, load_value};
use vshmem_wire::{Layout, RING_PAYLOAD_BYTES};

use crate::msg::message::Header;
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{SpareChunk, header_of};

/// Messages whose sizes can be seen, those in the queue and the last that its ring has passed on,
/// and their bytes.
pub(crate) fn sizes(map: &Map, layout: &Layout, queue: &Queue) -> Result<(u32, u64), Fault> {
    let mut messages = load_value(map, at!(queue, count))?;
    let mut bytes = u64::from(load_value(map, at!(queue, bytes))?);
    let mut see = |size: u64| {
        messages = messages.saturating_add(1);
        bytes += size.min(RING_PAYLOAD_BYTES);
    };
    let ring = MessageRing::read(map, queue.ring())?;
    for ring_slot in ring.messages() {
        see(header_of(map, layout, ring_slot).map_or(0, |header| header.size));
    }
    for ring_slot in ring.vacant() {
        if let Some(spare) = SpareChunk::of(map, layout, queue.index, ring_slot)? {
            see(Header::read(map, layout, spare.chunk)?.size);
        }
    }
    Ok((messages, bytes))
}
