//! A short message on the way that most take: through a ring that nothing stands in the way of.
//!
//! What can be known beforehand of a POSIX queue is not asked for; the rest is in
//! [`crate::msg::glimpse`].

use vshmem_wire::{MSG_HEADER_BYTES, QueueMode, RING_SLOTS, UNIT_BYTES};

use crate::context::Context;
use crate::msg::glimpse::{self, Glimpse, load, read, take};
use crate::msg::mode::uses_ring;
use crate::msg::queue::at;
use crate::msg::ring::{self, header_of};

/// Longest payload: what the smallest chunk has room for.
const MOST: usize = (UNIT_BYTES - MSG_HEADER_BYTES) as usize;

/// Sends a message of a type. `None`: it was not sent.
#[inline(always)]
pub(crate) fn send(context: &Context, id: i32, mtype: i64, message: &[u8]) -> Option<()> {
    if message.len() > MOST {
        return None;
    }
    let glimpse = Glimpse { has_times: false, ..Glimpse::of(context, id)? };
    let is_posix = load!(glimpse, most_messages) as u32 != 0;
    if !is_posix || message.len() > load!(glimpse, most_bytes) as u32 as usize {
        return None;
    }
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let (tail, last) = glimpse.ring().tail_at(context.ring_hints.tail(glimpse.queue.index))?;
    // After the look, as in `fast_send.rs`. No receiver sleeps.
    if load!(glimpse, mode) != QueueMode::Ring as u64 {
        return None;
    }
    if mtype > 1 && !ring::follows_last(map, layout, last, mtype).ok()? {
        return None;
    }
    // These lines are on the receiver's side, and come at once when they are asked for at once.
    map.will_write(tail.at);
    map.will_read(at!(glimpse.queue, sender));
    glimpse::send(context, glimpse, tail, mtype, message)
}

/// Takes the oldest message, for a receiver with `room` bytes. `is_ready` is asked, with the size,
/// whether there is a place for it; `deliver` gets type and payload. `None`: it was not taken.
#[inline(always)]
pub(crate) fn receive(
    context: &Context,
    id: i32,
    room: usize,
    is_ready: impl FnOnce(usize) -> bool,
    deliver: impl FnOnce(i64, &[u8]),
) -> Option<usize> {
    let glimpse = Glimpse { has_times: false, ..Glimpse::of(context, id)? };
    let is_posix = load!(glimpse, most_messages) as u32 != 0;
    if !is_posix || room < load!(glimpse, most_bytes) as u32 as usize {
        return None;
    }
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let head = glimpse.ring().head_at(context.ring_hints.head(glimpse.queue.index))?;
    if !head.is_full() || !uses_ring::<RING_SLOTS>(load!(glimpse, mode)) {
        return None;
    }
    map.will_write(head.at);
    map.will_read(at!(glimpse.queue, receiver));
    let header = header_of(map, layout, head).ok()?;
    let size = usize::try_from(header.size).ok().filter(|size| *size <= MOST.min(room))?;
    if !is_ready(size) {
        return None;
    }
    let mut copy = [0; MOST];
    read(map, layout, head, &mut copy[..size])?;
    take(context, glimpse, head)?;
    deliver(header.mtype, &copy[..size]);
    Some(size)
}
