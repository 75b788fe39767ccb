//! The way of a message out of a ring: a compare-and-swap, without the lock.
//!
//! # The short way
//! Usually two slots beside each other show the oldest message, and the receiver accepts that one
//! ([`find_head`], [`take`]). libc's symbols begin with one attempt at it, for the ring in the
//! queue's slot; whatever is unusual ends it, and nothing has happened then.
//!
//! # The whole ring
//! [`receive_from_ring`] is a loop over the short way, for either ring. Where the two slots show
//! something else it looks at all words, for the first message that the receiver accepts
//! ([`take_first`]). Where there is none it goes on for a while ([`await_message`]): it only reads
//! the ring between its attempts, and each of them is the one above. So it adds no step at which a
//! crash could leave anything behind. What is not for the ring goes under the lock (`receive.rs`).

use rustix::io::Errno;
use vshmem_mem::{Map, signals_before_wait, signals_handled};
use vshmem_sync::{
    Fault, MessageRing, Polled, RingSlot, RingWords, Tail, crash_point, leave_lines,
};
use vshmem_wire::{MSG_HEADER_BYTES, Place, RawCell};

use crate::context::Context;
use crate::msg::glimpse::{Glimpse, MOST_ATTEMPTS, load, stamp};
use crate::msg::message::{Header, Search};
use crate::msg::mode::RingInUse;
use crate::msg::queue::{Queue, Receive, at};
use crate::msg::ring::{chunk_of, header_of};
use crate::msg::ring_chunk::{take_along, will_read_chunk};
use crate::msg::waiters::{Answer, Deliver};
use crate::registry::permission::{Caller, Permission, READ, Superuser};
use crate::wait::waker_cpus;

/// Payload that is copied by way of a buffer of this size on the stack; longer ones need a larger.
pub(crate) const SMALL_COPY: usize = 64;

/// Payload that is copied by way of the stack, and whose chunk stays with the slot for the next
/// message.
pub(crate) const MEDIUM_COPY: usize = 1112;

/// msgrcv(2), if the short way is open. `is_ready` is asked, with the size, whether there is a
/// place for the message; `deliver` gets type and payload. `None`: it was not taken.
#[inline(always)]
pub(crate) fn msgrcv_at_once(
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
    receive_at_once(context, &glimpse, wanted, caller, is_ready, deliver)
}

/// mq_receive(3), the same for a receiver with `room` bytes.
#[inline(always)]
pub(crate) fn mq_receive_at_once(
    context: &Context,
    id: i32,
    room: usize,
    is_ready: impl FnOnce(usize) -> bool,
    deliver: impl FnOnce(i64, &[u8]),
) -> Option<usize> {
    let glimpse = Glimpse::of_posix(context, id)?;
    if room < load!(glimpse, most_bytes) as u32 as usize {
        return None;
    }
    receive_at_once(context, &glimpse, Receive::oldest(room), &Superuser, is_ready, deliver)
}

#[inline(always)]
fn receive_at_once(
    context: &Context,
    glimpse: &Glimpse<'_>,
    wanted: Receive,
    caller: &impl Caller,
    is_ready: impl FnOnce(usize) -> bool,
    deliver: impl FnOnce(i64, &[u8]),
) -> Option<usize> {
    let ring = glimpse.ring();
    if RingInUse::of(load!(glimpse, mode)) != Some(RingInUse::Short) {
        return None;
    }
    let head = find_head(context, &glimpse.queue, ring)?;
    if !head.is_full() {
        return None;
    }
    let search = Search::of(wanted.mtype, wanted.except, false);
    let header = read_header(context, &glimpse.queue, head, search).ok()?;
    let size = header.fitting(wanted)?;
    if !search.takes_first(header.mtype) || !is_ready(size) {
        return None;
    }
    will_read_next(context, head).ok()?;
    if !glimpse.is_posix {
        Permission::check(context.pool().map(), glimpse.queue.slot.header(), caller, READ)
            .ok()?
            .ok()?;
    }
    if !glimpse.is_current(context) {
        return None;
    }
    match take(context, glimpse, head, (header.mtype, size), deliver).ok()? {
        Take::Taken => Some(size),
        Take::Lost | Take::NoBuffer => None,
    }
}

/// How an attempt to take a message ended.
enum Taken {
    Delivered(Answer),
    /// There was none for this receiver, after everything that the ring held had been looked at:
    /// and so it is as long as the tail has not moved.
    Nothing,
    /// Another thread was faster.
    Again,
    /// This is not for the ring.
    Slow,
}

/// One call of msgrcv(2) or mq_receive(3), after its queue has been looked up.
pub(crate) struct ReceiveCall<'a> {
    pub context: &'a Context,
    pub glimpse: Glimpse<'a>,
    pub wanted: Receive,
    pub caller: &'a dyn Caller,
}

/// Receives a message through the ring that the queue uses. `None`: it has to go under the lock.
/// `seen` is set when the call has begun to wait.
#[inline(always)]
pub(crate) fn receive_from_ring(
    call: &ReceiveCall<'_>,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    match RingInUse::of(load!(call.glimpse, mode)) {
        None => Ok(None),
        Some(RingInUse::Short) => receive_through(call, call.glimpse.ring(), deliver, seen),
        Some(RingInUse::Long) => receive_through_long(call, deliver, seen),
    }
}

/// Apart from the other, whose frame on the stack stays small.
#[inline(never)]
fn receive_through_long(
    call: &ReceiveCall<'_>,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    receive_through(call, call.glimpse.long_ring(call.context)?, deliver, seen)
}

#[inline(always)]
fn receive_through<const WORDS: usize, const N: usize>(
    call: &ReceiveCall<'_>,
    ring: RingWords<'_, WORDS, N>,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    let mut tail = None;
    for _ in 0..MOST_ATTEMPTS {
        match look_and_take(call, ring, &mut tail, deliver)? {
            Taken::Delivered(answer) => return Ok(Some(answer)),
            Taken::Again => {}
            Taken::Nothing => return await_message(call, ring, &mut tail, deliver, seen),
            Taken::Slow => break,
        }
    }
    Ok(None)
}

/// Takes the first message that the receiver accepts: the oldest, if that is the one behind the
/// message that this process took last; else it looks at all. `tail`: that of the ring, when there
/// was none to be taken. Not in the answer, which is small so: see [`Answer`].
#[inline(always)]
fn look_and_take<const WORDS: usize, const N: usize>(
    call: &ReceiveCall<'_>,
    ring: RingWords<'_, WORDS, N>,
    tail: &mut Option<RingSlot<N>>,
    deliver: &mut Deliver<'_>,
) -> Result<Taken, Fault> {
    let ReceiveCall { context, ref glimpse, wanted, .. } = *call;
    let map = context.pool().map();
    let Some(head) = find_head(context, &glimpse.queue, ring) else {
        return take_first(call, ring.base(), tail, deliver);
    };
    if !head.is_full() {
        return Ok(nothing_before(map, head, tail));
    }
    let search = Search::of(wanted.mtype, wanted.except, false);
    let header = read_header(context, &glimpse.queue, head, search)?;
    if search.takes_first(header.mtype) {
        will_read_next(context, head)?;
        return take_if_allowed(call, head, header, deliver);
    }
    // Usually one that this process has sent itself, and whose answer it waits for.
    if !search.accepts(header.mtype)
        && let Some(free) = head.tail_if_alone(map)?
    {
        return Ok(nothing_before(map, free, tail));
    }
    take_first(call, ring.base(), tail, deliver)
}

/// There was nothing for the receiver before the tail, which is that slot.
#[inline(always)]
fn nothing_before<const N: usize>(
    map: &Map,
    slot: RingSlot<N>,
    tail: &mut Option<RingSlot<N>>,
) -> Taken {
    *tail = Some(slot);
    if slot.has_moved(map) { Taken::Again } else { Taken::Nothing }
}

/// The oldest message, or the tail if there is none, where this process expects it: behind the
/// message that it took last, or behind the one that it sent last, if it has sent any.
#[inline(always)]
fn find_head<const WORDS: usize, const N: usize>(
    context: &Context,
    queue: &Queue,
    ring: RingWords<'_, WORDS, N>,
) -> Option<RingSlot<N>> {
    let hints = &context.ring_hints;
    match ring.head_at(hints.head(queue.index)) {
        None => ring.head_at(hints.known_tail(queue.index)?),
        found => found,
    }
}

/// Type and size of a message, and the lines that who takes it is about to write.
///
/// Not before it is known that the message is for this receiver: they are on the side of the thread
/// that it is for, which would have to fetch them back.
#[inline(always)]
fn read_header<const N: usize>(
    context: &Context,
    queue: &Queue,
    ring_slot: RingSlot<N>,
    search: Search,
) -> Result<Header, Fault> {
    let takes_any = search == Search::Any;
    if takes_any {
        will_take(context, queue, ring_slot);
    }
    let header = header_of(context.pool().map(), context.pool().layout(), ring_slot)?;
    if !takes_any && search.takes_first(header.mtype) {
        will_take(context, queue, ring_slot);
    }
    Ok(header)
}

#[inline(always)]
fn will_take<const N: usize>(context: &Context, queue: &Queue, ring_slot: RingSlot<N>) {
    context.pool().map().will_write(ring_slot.at);
    context.pool().map().will_read(at!(queue, receiver));
}

/// The chunk in the slot behind that of a message in a chunk is about to be read, if it is on the
/// same line.
#[inline(always)]
fn will_read_next<const N: usize>(context: &Context, head: RingSlot<N>) -> Result<(), Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if !head.is_inline()
        && let Some(next) = head.next_on_line(map)?
    {
        will_read_chunk(map, layout, next);
    }
    Ok(())
}

/// Looks at all words, and takes the first message that the receiver accepts: see
/// `vshmem_sync::MessageRing` for why it is the first.
#[inline(never)]
fn take_first<const N: usize>(
    call: &ReceiveCall<'_>,
    base: Place<[RawCell; N]>,
    tail: &mut Option<RingSlot<N>>,
    deliver: &mut Deliver<'_>,
) -> Result<Taken, Fault> {
    let ReceiveCall { context, ref glimpse, wanted, .. } = *call;
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let search = Search::of(wanted.mtype, wanted.except, false);
    let mut ring = MessageRing::<N>::at(base);
    ring.refresh(map)?;
    let mut may_be_lowest = false;
    for ring_slot in ring.messages() {
        if ring_slot.is_closed() {
            return Ok(Taken::Slow);
        }
        let header = read_header(context, &glimpse.queue, ring_slot, search)?;
        if search.takes_first(header.mtype) {
            will_read_chunk(map, layout, ring.behind(ring_slot));
            return take_if_allowed(call, ring_slot, header, deliver);
        }
        may_be_lowest |= search.accepts(header.mtype);
    }
    // Which of several types is the lowest is decided under the lock.
    if may_be_lowest || ring.tail() == Tail::Closed {
        return Ok(Taken::Slow);
    }
    Ok(nothing_before(map, ring.tail_slot(), tail))
}

/// Takes a message, if it is short enough for the ring and for the receiver.
#[inline]
fn take_if_allowed<const N: usize>(
    call: &ReceiveCall<'_>,
    ring_slot: RingSlot<N>,
    header: Header,
    deliver: &mut Deliver<'_>,
) -> Result<Taken, Fault> {
    let ReceiveCall { context, ref glimpse, wanted, caller } = *call;
    let Some(size) = header.fitting(wanted) else { return Ok(Taken::Slow) };
    if !glimpse.is_current(context) {
        return Ok(Taken::Slow);
    }
    if let Err(errno) =
        Permission::check(context.pool().map(), glimpse.queue.slot.header(), caller, READ)?
    {
        return Ok(Taken::Delivered(Answer::error(errno)));
    }
    // Beside what `take` answers: see [`Answer`].
    let mut answer = Answer::error(Errno::IO);
    let deliver = |mtype: i64, payload: &[u8]| {
        answer = Answer::of(deliver(mtype, payload.len(), &|into: &mut [u8]| {
            let size = into.len().min(payload.len());
            into[..size].copy_from_slice(&payload[..size]);
        }));
    };
    Ok(match take(context, glimpse, ring_slot, (header.mtype, size), deliver)? {
        Take::Taken => Taken::Delivered(answer),
        Take::Lost => Taken::Again,
        Take::NoBuffer => Taken::Slow,
    })
}

/// What became of a message that was to be taken.
enum Take {
    /// It was delivered.
    Taken,
    /// Another thread was faster.
    Lost,
    /// Another thread uses the buffer that there is for long ones.
    NoBuffer,
}

/// Takes a message, of which `size` bytes are wanted, by way of a copy: the receiver's own room is
/// not written to before it has the message. The queue was found to be current after the look.
#[inline(always)]
fn take<const N: usize>(
    context: &Context,
    glimpse: &Glimpse<'_>,
    ring_slot: RingSlot<N>,
    (mtype, size): (i64, usize),
    deliver: impl FnOnce(i64, &[u8]),
) -> Result<Take, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    if ring_slot.is_inline() {
        let payload = ring_slot.inline_payload(map)?;
        return finish(context, glimpse, ring_slot, || deliver(mtype, &payload[..size]));
    }
    let payload = chunk_of(ring_slot)?.offset(layout)? + MSG_HEADER_BYTES;
    if size <= SMALL_COPY {
        let copy = &mut [0; SMALL_COPY][..size];
        map.read(payload, copy)?;
        finish(context, glimpse, ring_slot, || deliver(mtype, copy))
    } else if size <= MEDIUM_COPY {
        let copy = &mut [0; MEDIUM_COPY][..size];
        map.read(payload, copy)?;
        finish(context, glimpse, ring_slot, || deliver(mtype, copy))
    } else {
        take_large(context, glimpse, ring_slot, (payload, size), |copy| deliver(mtype, copy))
    }
}

/// Takes a message that is too large for a stack: the process has one buffer for such.
#[inline(never)]
fn take_large<const N: usize>(
    context: &Context,
    glimpse: &Glimpse<'_>,
    ring_slot: RingSlot<N>,
    (payload, size): (u64, usize),
    deliver: impl FnOnce(&[u8]),
) -> Result<Take, Fault> {
    let Ok(mut buffer) = context.payload_buffer.try_lock() else { return Ok(Take::NoBuffer) };
    let copy = &mut buffer[..size];
    context.pool().map().read(payload, copy)?;
    finish(context, glimpse, ring_slot, || {
        // The message is the receiver's, whatever is wrong with its chunk.
        let _ = take_along(context, &glimpse.queue, ring_slot);
        deliver(copy)
    })
}

/// Takes a message whose payload has been copied, and delivers it.
#[inline(always)]
fn finish<const N: usize>(
    context: &Context,
    glimpse: &Glimpse<'_>,
    ring_slot: RingSlot<N>,
    deliver: impl FnOnce(),
) -> Result<Take, Fault> {
    let stamp = stamp!(context, glimpse, receiver, received);
    crash_point("msg-fast-receive", "copied");
    if !ring_slot.take(context.pool().map())? {
        leave_lines(0);
        return Ok(Take::Lost);
    }
    context.ring_hints.note_head(glimpse.queue.index, ring_slot.index() + 1);
    crash_point("msg-fast-receive", "taken");
    if let Some(stamp) = stamp {
        stamp.renew(context);
    }
    crash_point("msg-fast-receive", "stamped");
    deliver();
    Ok(Take::Taken)
}

/// Looks for a while for a message in a ring that had none for this receiver when its tail was
/// `tail`.
#[cold]
fn await_message<const WORDS: usize, const N: usize>(
    call: &ReceiveCall<'_>,
    ring: RingWords<'_, WORDS, N>,
    tail: &mut Option<RingSlot<N>>,
    deliver: &mut Deliver<'_>,
    seen: &mut Option<u32>,
) -> Result<Option<Answer>, Fault> {
    let ReceiveCall { context, ref glimpse, wanted, caller } = *call;
    let map = context.pool().map();
    if !glimpse.is_current(context) {
        return Ok(None);
    }
    if let Err(errno) = Permission::check(map, glimpse.queue.slot.header(), caller, READ)? {
        return Ok(Some(Answer::error(errno)));
    }
    let has_moved =
        |tail: &Option<RingSlot<N>>| tail.as_ref().is_none_or(|slot| slot.has_moved(map));
    if wanted.no_wait {
        // All of them had been taken by then, or were for others, and another was not there.
        return Ok((!has_moved(tail)).then_some(Answer::error(Errno::NOMSG)));
    }
    let signals_seen = *seen.get_or_insert_with(signals_before_wait);
    let mut look = context.spin.begin(waker_cpus::waker_cpu(context), Polled::Ring);
    while !look.pause_or_end() && signals_handled() == signals_seen {
        if !has_moved(tail) {
            continue;
        }
        match look_and_take(call, ring, tail, deliver)? {
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
