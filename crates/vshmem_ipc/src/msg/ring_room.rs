//! Room in a ring: of slots and of bytes, and the wait of a sender for it.

use vshmem_mem::signals_before_wait;
use vshmem_sync::{Fault, MessageRing, RingSpace, Tail, WakerCpu, load_value};

use crate::context::Context;
use crate::msg::mode::is_large_in;
use crate::msg::queue::{Queue, at};
use crate::msg::ring::header_of;
use crate::wait::waker_cpus;

/// A sender that waits for room looks at the tail itself once in so many times.
const LOOKS_AT_TAIL: u32 = 8;

/// Looks for a while for room in a ring that is full.
#[cold]
pub(super) fn await_room<const N: usize>(
    context: &Context,
    ring: &MessageRing<N>,
    signals_seen: &mut Option<u32>,
) -> bool {
    if waker_cpus::waker_cpu(context) == WakerCpu::OnThisCpu {
        return false;
    }
    // A handler that runs from now on interrupts the sleep that this call may come to.
    signals_seen.get_or_insert_with(signals_before_wait);
    let mut looks = 0_u32;
    context.send_backoff.look_for_room(|| {
        looks += 1;
        ring.room(context.pool().map(), looks.is_multiple_of(LOOKS_AT_TAIL))
    })
}

/// What a ring holds.
///
/// The sizes that are read are those of its messages, or else of chunks whose messages have been
/// taken since: no thread writes into the chunk of a message in the ring. So if the slot of the
/// tail is filled then, there was room; also for what others allow: a change of the limit closes
/// the ring.
pub(super) struct Held {
    pub bytes: u64,
    /// One of its messages is large, if this is the limit.
    pub is_large: bool,
}

impl Held {
    /// Adds up the messages of a ring.
    #[cold]
    pub fn in_ring<const N: usize>(
        context: &Context,
        ring: &MessageRing<N>,
        limit: u64,
    ) -> Result<Self, Fault> {
        let (map, layout) = (context.pool().map(), context.pool().layout());
        let mut held = Self { bytes: 0, is_large: false };
        for ring_slot in ring.messages() {
            let size = header_of(map, layout, ring_slot)?.size;
            held.bytes = held.bytes.saturating_add(size);
            held.is_large |= is_large_in::<N>(limit, size);
        }
        Ok(held)
    }
}

/// Whether a queue allows a message of so many bytes beside those that `ring` holds.
#[cold]
pub(crate) fn has_room<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing<N>,
    bytes: usize,
) -> Result<bool, Fault> {
    let limit = load_value(context.pool().map(), at!(queue, limit))?.into();
    Ok(Held::in_ring(context, ring, limit)?.bytes.saturating_add(bytes as u64) <= limit)
}

/// Looks for a while for room for so many bytes.
#[cold]
pub(super) fn await_bytes<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing<N>,
    bytes: usize,
    signals_seen: &mut Option<u32>,
) -> bool {
    if waker_cpus::waker_cpu(context) == WakerCpu::OnThisCpu {
        return false;
    }
    signals_seen.get_or_insert_with(signals_before_wait);
    let mut ring = MessageRing::<N>::at(ring.base());
    context.send_backoff.look_for_room(|| {
        let read = ring.refresh(context.pool().map());
        let has_room = read.and_then(|()| has_room(context, queue, &ring, bytes));
        // The caller's next attempt reports what is invalid; so is a ring that was closed.
        let is_over = ring.tail() == Tail::Closed || has_room.unwrap_or(true);
        if is_over { RingSpace::Plenty } else { RingSpace::None }
    })
}
