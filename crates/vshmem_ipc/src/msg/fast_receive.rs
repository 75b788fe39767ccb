//! msgrcv(2) through the ring: a compare-and-swap, without the lock.

use rustix::io::Errno;
use vshmem_mem::{Map, signals_before_wait, signals_handled};
use vshmem_sync::{Fault, MessageRing, Polled, RingSlot, Tail, crash_point, leave_lines};
use vshmem_wire::{
    LONG_RING_SLOTS, Layout, MSG_HEADER_BYTES, Place, RING_PAYLOAD_BYTES, RING_SLOTS, RawCell,
};

use crate::context::Context;
use crate::msg::fast::{MOST_ATTEMPTS, Stamp, queue_is_current};
use crate::msg::message::{Header, Search};
use crate::msg::mode::{RingInUse, ring_base, ring_in_use};
use crate::msg::queue::{Queue, Receive, at};
use crate::msg::ring::{chunk_of, header_of};
use crate::msg::ring_chunk::{claim_spare, keep};
use crate::msg::waiters::Deliver;
use crate::pool::chunk::Chunk;
use crate::registry::permission::{Caller, Permission, READ};
use crate::wait::waker_cpus;

/// What msgrcv answers, in one word: bytes, or an errno below zero.
///
/// A `Result<usize, Errno>` is copied from its odd offsets on, together with what has just been
/// stored in parts: the processor waits for such a load until all the stores are done. A receiver
/// paid some 30 ns for that on the way of its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer(i64);

impl Answer {
    #[inline]
    fn of(result: Result<usize, Errno>) -> Self {
        match result {
            Ok(bytes) => Self(bytes as i64),
            Err(errno) => Self::error(errno),
        }
    }

    #[inline]
    fn error(errno: Errno) -> Self {
        Self(-i64::from(errno.raw_os_error()))
    }

    /// The number of bytes, or the errno.
    #[inline]
    pub fn result(self) -> Result<usize, Errno> {
        usize::try_from(self.0).map_err(|_| Errno::from_raw_os_error(-self.0 as i32))
    }
}

/// The chunk in a slot is that of the next message, if there is one.
#[inline]
pub(crate) fn will_read_chunk<const N: usize>(map: &Map, layout: &Layout, ring_slot: RingSlot<N>) {
    if let Some(Ok(at)) = ring_slot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_read(at);
    }
}

/// How an attempt to take a message ended.
pub(crate) enum Taken {
    Delivered(Answer),
    /// There was none for this receiver, after everything that the ring held had been looked at.
    Nothing,
    /// Another thread was faster.
    Again,
    /// This is not for the ring.
    Slow,
}

/// Payload that is copied by way of a buffer of this size on the stack; longer ones need a larger.
pub(crate) const SMALL_COPY: usize = 64;

/// Payload that is copied by way of the stack, and whose chunk stays with the slot for the next
/// message.
pub(crate) const MEDIUM_COPY: usize = 1112;

/// Receives a message through the ring. `None`: it has to go under the lock. `seen` is set when
/// the call has begun to wait.
#[inline(always)]
pub(crate) fn receive_from_ring(
    context: &Context,
    queue: &Queue,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    let Some(ring) = ring_in_use(context.pool().map(), queue)? else { return Ok(None) };
    match ring {
        RingInUse::Short => {
            receive_from::<RING_SLOTS>(context, queue, wanted, caller, deliver, seen)
        }
        RingInUse::Long => receive_from_long(context, queue, wanted, caller, deliver, seen),
    }
}

/// Apart from the other, whose frame on the stack stays small.
#[inline(never)]
fn receive_from_long(
    context: &Context,
    queue: &Queue,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    receive_from::<LONG_RING_SLOTS>(context, queue, wanted, caller, deliver, seen)
}

#[inline(always)]
fn receive_from<const N: usize>(
    context: &Context,
    queue: &Queue,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let mut ring = MessageRing::<N>::at(ring_base::<N>(map, layout, queue)?);
    for _ in 0..MOST_ATTEMPTS {
        match look_and_take(context, queue, &mut ring, wanted, caller, deliver)? {
            Taken::Delivered(answer) => return Ok(Some(answer)),
            Taken::Again => {}
            Taken::Nothing => {
                return await_message(context, queue, &mut ring, wanted, caller, deliver, seen);
            }
            Taken::Slow => break,
        }
    }
    Ok(None)
}

/// Takes the first message that the receiver accepts: the oldest, if that is the one behind the
/// message that this process took last; else it looks at all.
#[inline(always)]
fn look_and_take<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &mut MessageRing<N>,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
) -> Result<Taken, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let base = ring.base();
    if let Some(head) = find_head::<N>(context, queue, base)? {
        if !head.is_full() {
            ring.note_empty(head);
            return Ok(if head.has_moved(map) { Taken::Again } else { Taken::Nothing });
        }
        let search = Search::of(wanted.mtype, wanted.except, false);
        let header = read_header(context, queue, head, search)?;
        if search.takes_first(header.mtype) {
            if !head.is_inline()
                && let Some(next) = head.next_on_line(map, base)?
            {
                will_read_chunk(map, layout, next);
            }
            return take_message(context, queue, head, header, wanted, caller, deliver);
        }
        // Usually one that this process has sent itself, and whose answer it waits for.
        if !search.accepts(header.mtype)
            && let Some(tail) = head.tail_if_alone(map, base)?
        {
            ring.note_empty(tail);
            return Ok(if tail.has_moved(map) { Taken::Again } else { Taken::Nothing });
        }
    }
    ring.refresh(map)?;
    take_first(context, queue, ring, wanted, caller, deliver)
}

/// The oldest message, or the tail if there is none, where this process expects it: behind the
/// message that it took last, or behind the one that it sent last, if it has sent any.
#[inline(always)]
fn find_head<const N: usize>(
    context: &Context,
    queue: &Queue,
    base: Place<[RawCell; N]>,
) -> Result<Option<RingSlot<N>>, Fault> {
    let (map, hints) = (context.pool().map(), &context.ring_hints);
    match RingSlot::head_at(map, base, hints.head(queue.index))? {
        None => match hints.known_tail(queue.index) {
            Some(guess) => RingSlot::head_at(map, base, guess),
            None => Ok(None),
        },
        found => Ok(found),
    }
}

/// Type and size of a message, and the lines that who takes it is about to write.
///
/// Not before it is known that the message is for this receiver: they are on the side of the thread
/// that it is for, which would have to fetch them back.
#[inline(always)]
pub(crate) fn read_header<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
    search: Search,
) -> Result<Header, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let fetch = || {
        map.will_write(ring_slot.at);
        map.will_read(at!(queue, receiver));
    };
    let takes_any = search == Search::Any;
    if takes_any {
        fetch();
    }
    let header = header_of(map, layout, ring_slot)?;
    if !takes_any && search.takes_first(header.mtype) {
        fetch();
    }
    Ok(header)
}

/// Takes the first message that the receiver accepts: see `vshmem_sync::MessageRing` for why it is
/// the first.
#[inline]
fn take_first<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &MessageRing<N>,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
) -> Result<Taken, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let search = Search::of(wanted.mtype, wanted.except, false);
    let mut may_be_lowest = false;
    for ring_slot in ring.messages() {
        if ring_slot.is_closed() {
            return Ok(Taken::Slow);
        }
        let header = read_header(context, queue, ring_slot, search)?;
        if search.takes_first(header.mtype) {
            will_read_chunk(map, layout, ring.behind(ring_slot));
            return take_message(context, queue, ring_slot, header, wanted, caller, deliver);
        }
        may_be_lowest |= search.accepts(header.mtype);
    }
    // Which of several types is the lowest is decided under the lock.
    if may_be_lowest || ring.tail() == Tail::Closed {
        return Ok(Taken::Slow);
    }
    Ok(if ring.has_moved(map) { Taken::Again } else { Taken::Nothing })
}

/// Takes a message, if it is short enough for the ring and for the receiver.
#[inline]
fn take_message<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
    header: Header,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
) -> Result<Taken, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let fits = header.size <= wanted.room as u64 || wanted.cut;
    if header.size > RING_PAYLOAD_BYTES || !fits {
        return Ok(Taken::Slow);
    }
    let size = (header.size as usize).min(wanted.room);
    if ring_slot.is_inline() {
        let payload = ring_slot.inline_payload(map)?;
        return finish(context, queue, ring_slot, header.mtype, &payload[..size], caller, deliver);
    }
    let payload = chunk_of(ring_slot)?.offset(layout)? + MSG_HEADER_BYTES;
    let mut finish = |copy: &mut [u8]| {
        map.read(payload, copy)?;
        finish(context, queue, ring_slot, header.mtype, copy, caller, deliver)
    };
    if size <= SMALL_COPY {
        finish(&mut [0; SMALL_COPY][..size])
    } else if size <= MEDIUM_COPY {
        finish(&mut [0; MEDIUM_COPY][..size])
    } else {
        // The process has one buffer for payloads that are too large for a stack. While another
        // thread uses it, this call goes under the lock.
        let Ok(mut copy) = context.payload_buffer.try_lock() else { return Ok(Taken::Slow) };
        finish(&mut copy[..size])
    }
}

/// Takes the message whose payload has been copied.
#[inline]
fn finish<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
    mtype: i64,
    payload: &[u8],
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
) -> Result<Taken, Fault> {
    let map = context.pool().map();
    if !queue_is_current(context, queue)? {
        return Ok(Taken::Slow);
    }
    if let Err(errno) = Permission::check(map, queue.slot.header(), caller, READ)? {
        return Ok(Taken::Delivered(Answer::error(errno)));
    }
    let stamp = Stamp::before(map, at!(queue, receiver), at!(queue, received))?;
    crash_point("msg-fast-receive", "copied");
    if !ring_slot.take(map)? {
        leave_lines(0);
        return Ok(Taken::Again);
    }
    context.ring_hints.note_head(queue.index, ring_slot.index() + 1);
    crash_point("msg-fast-receive", "taken");
    stamp.renew(map, context.process_ref().pack())?;
    crash_point("msg-fast-receive", "stamped");
    if payload.len() > MEDIUM_COPY {
        take_along(context, queue, ring_slot)?;
    }
    let delivered = deliver(mtype, payload.len(), &|into: &mut [u8]| {
        let size = into.len().min(payload.len());
        into[..size].copy_from_slice(&payload[..size]);
    });
    Ok(Taken::Delivered(Answer::of(delivered)))
}

/// Takes the chunk of a message that was taken: an idle queue does not keep large ones.
#[cold]
pub(crate) fn take_along<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
) -> Result<(), Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if let Some(held) =
        claim_spare(map, layout, queue.index, ring_slot.taken(), context.client_id())?
    {
        crash_point("msg-fast-receive", "claimed");
        keep(context, held);
    }
    Ok(())
}

/// Looks for a while for a message in a ring that has none for this receiver.
#[cold]
fn await_message<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: &mut MessageRing<N>,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    let map = context.pool().map();
    if !queue_is_current(context, queue)? {
        return Ok(None);
    }
    if let Err(errno) = Permission::check(map, queue.slot.header(), caller, READ)? {
        return Ok(Some(Answer::error(errno)));
    }
    if wanted.no_wait {
        // All of them had been taken by then, or were for others, and another was not there.
        return Ok((!ring.has_moved(map)).then_some(Answer::error(Errno::NOMSG)));
    }
    let signals_seen = *seen.get_or_insert_with(signals_before_wait);
    let mut look = context.spin.begin(waker_cpus::waker_cpu(context), Polled::Ring);
    while !look.pause_or_end() && signals_handled() == signals_seen {
        if !ring.has_moved(map) {
            continue;
        }
        match look_and_take(context, queue, ring, wanted, caller, deliver)? {
            Taken::Delivered(answer) => {
                look.succeed();
                return Ok(Some(answer));
            }
            // It may have been late: the next turn looks again.
            Taken::Again | Taken::Nothing => {}
            Taken::Slow => break,
        }
    }
    Ok(None)
}
