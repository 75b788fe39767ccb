//! A System V message at once, as most go: one attempt at a ring that nothing stands in the way of.
//!
//! See [`crate::msg::glimpse`] for what all such attempts have in common.

use vshmem_sync::{RingSlot, RingWords, leave_lines};
use vshmem_wire::RING_PAYLOAD_BYTES;

use crate::context::Context;
use crate::msg::fast_receive::{MEDIUM_COPY, SMALL_COPY, read_header, take_along, will_read_chunk};
use crate::msg::glimpse::{self, Glimpse, load, read, take};
use crate::msg::message::{Header, Search};
use crate::msg::mode::{RingInUse, uses_ring};
use crate::msg::queue::{Receive, at};
use crate::msg::ring_room::is_large_in;
use crate::registry::permission::{Caller, Permission, READ, WRITE};

/// Longest payload that a receiver takes.
const MOST: usize = RING_PAYLOAD_BYTES as usize;

/// Longest payload that a sender sends: where a slot keeps the chunk for the next message.
pub const SHORT_BYTES: usize = MEDIUM_COPY;

/// Sends a message. `None`: it was not sent.
#[inline(always)]
pub(crate) fn send(
    context: &Context,
    id: i32,
    mtype: i64,
    payload: &[u8],
    caller: &impl Caller,
) -> Option<()> {
    let is_short = payload.len() <= SHORT_BYTES.min(context.pool().geometry().msgmax as usize);
    if !is_short || mtype < 1 {
        return None;
    }
    let glimpse = Glimpse::of_system_v(context, id)?;
    send_at(context, glimpse, glimpse.ring(), mtype, payload, caller)
}

/// The same through a long ring. The caller has checked payload and type.
#[inline(never)]
pub(crate) fn send_in_long_ring(
    context: &Context,
    id: i32,
    mtype: i64,
    payload: &[u8],
    caller: &dyn Caller,
) -> Option<()> {
    if payload.len() > SHORT_BYTES {
        return None;
    }
    let glimpse = Glimpse::of_system_v(context, id)?;
    send_at(context, glimpse, glimpse.long_ring(context)?, mtype, payload, caller)
}

/// Sends a message through that ring.
#[inline(always)]
fn send_at<const WORDS: usize, const N: usize>(
    context: &Context,
    glimpse: Glimpse<'_>,
    ring: RingWords<'_, WORDS, N>,
    mtype: i64,
    payload: &[u8],
    caller: &(impl Caller + ?Sized),
) -> Option<()> {
    let queue = glimpse.queue;
    let (map, hints) = (context.pool().map(), &context.ring_hints);
    let tail = match ring.tail_at(hints.tail(queue.index)) {
        None => ring.tail_at(hints.known_head(queue.index)?),
        found => found,
    };
    let (tail, _) = tail?;
    // After the look, as in `fast_send.rs`. No receiver sleeps.
    if load!(glimpse, mode) != RingInUse::of_slots::<N>().mode() as u64 {
        return None;
    }
    // These lines are on the receiver's side, and come at once when they are asked for at once.
    map.will_write(tail.at);
    map.will_read(at!(queue, sender));
    // None in the ring is large, or this would not be known to be the tail.
    if is_large_in::<N>(load!(glimpse, limit) as u32 as u64, payload.len() as u64) {
        return None;
    }
    Permission::check(map, queue.slot.header(), caller, WRITE).ok()?.ok()?;
    let sent = glimpse::send(context, glimpse, tail, mtype, payload);
    if sent.is_none() {
        leave_if_lost(context, tail);
    }
    sent
}

/// Takes the oldest message, if the receiver wants that one. `is_ready` is asked, with the size,
/// whether there is a place for it; `deliver` gets type and payload. `None`: it was not taken.
#[inline(always)]
pub(crate) fn receive(
    context: &Context,
    id: i32,
    wanted: Receive,
    caller: &impl Caller,
    is_ready: impl FnOnce(usize) -> bool,
    deliver: impl FnOnce(i64, &[u8]),
) -> Option<usize> {
    if wanted.copy || isize::try_from(wanted.room).is_err() {
        return None;
    }
    let glimpse = Glimpse::of_system_v(context, id)?;
    let ring = glimpse.ring();
    receive_at(context, glimpse, ring, wanted, caller, is_ready, deliver)
}

/// The same through a long ring.
#[inline(never)]
pub(crate) fn receive_from_long_ring(
    context: &Context,
    id: i32,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut dyn FnMut(i64, &[u8]),
) -> Option<usize> {
    if wanted.copy {
        return None;
    }
    let glimpse = Glimpse::of_system_v(context, id)?;
    let ring = glimpse.long_ring(context)?;
    receive_at(context, glimpse, ring, wanted, caller, |_| true, deliver)
}

/// Takes the oldest message of that ring, if the receiver wants that one.
#[inline(always)]
fn receive_at<const WORDS: usize, const N: usize>(
    context: &Context,
    glimpse: Glimpse<'_>,
    ring: RingWords<'_, WORDS, N>,
    wanted: Receive,
    caller: &(impl Caller + ?Sized),
    is_ready: impl FnOnce(usize) -> bool,
    deliver: impl FnOnce(i64, &[u8]),
) -> Option<usize> {
    let (queue, hints) = (glimpse.queue, &context.ring_hints);
    if !uses_ring::<N>(load!(glimpse, mode)) {
        return None;
    }
    let head = match ring.head_at(hints.head(queue.index)) {
        None => ring.head_at(hints.known_tail(queue.index)?),
        found => found,
    };
    let head = head.filter(|head| head.is_full())?;
    let search = Search::of(wanted.mtype, wanted.except, false);
    let header = read_header(context, &queue, head, search).ok()?;
    let fits = header.size <= wanted.room as u64 || wanted.cut;
    let size = usize::try_from(header.size).ok().filter(|size| *size <= MOST && fits)?;
    let size = size.min(wanted.room);
    if !search.takes_first(header.mtype) || !is_ready(size) {
        return None;
    }
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if !head.is_inline()
        && let Some(next) = head.next_on_line(map, head.base()).ok()?
    {
        will_read_chunk(map, layout, next);
    }
    Permission::check(map, queue.slot.header(), caller, READ).ok()?.ok()?;
    let message = Message { glimpse, head, header };
    if size <= SMALL_COPY {
        message.take(context, &mut [0; SMALL_COPY][..size], deliver)
    } else if size <= MEDIUM_COPY {
        message.take(context, &mut [0; MEDIUM_COPY][..size], deliver)
    } else {
        message.take_large(context, size, deliver)
    }
}

/// The oldest message, which the receiver wants.
struct Message<'a, const N: usize> {
    glimpse: Glimpse<'a>,
    head: RingSlot<N>,
    header: Header,
}

impl<const N: usize> Message<'_, N> {
    /// By way of `copy`: the receiver's own room is not written to before it has the message.
    #[inline(always)]
    fn take(
        self,
        context: &Context,
        copy: &mut [u8],
        deliver: impl FnOnce(i64, &[u8]),
    ) -> Option<usize> {
        read(context.pool().map(), context.pool().layout(), self.head, copy)?;
        let taken = take(context, self.glimpse, self.head);
        if taken.is_none() {
            leave_if_lost(context, self.head);
        }
        taken?;
        deliver(self.header.mtype, copy);
        Some(copy.len())
    }

    /// No stack need be so deep, and an idle queue does not keep the chunk.
    #[inline(never)]
    fn take_large(
        self,
        context: &Context,
        size: usize,
        deliver: impl FnOnce(i64, &[u8]),
    ) -> Option<usize> {
        let (queue, head) = (self.glimpse.queue, self.head);
        let mut copy = context.payload_buffer.try_lock().ok()?;
        let taken = self.take(context, &mut copy[..size], deliver)?;
        // The message is the receiver's, whatever is wrong with its chunk.
        let _ = take_along(context, &queue, head);
        Some(taken)
    }
}

/// After an attempt that has failed: if another thread was faster, it has the ring's lines now.
#[cold]
fn leave_if_lost<const N: usize>(context: &Context, ring_slot: RingSlot<N>) {
    if ring_slot.has_moved(context.pool().map()) {
        leave_lines(0);
    }
}
