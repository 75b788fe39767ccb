//! msgrcv(2).

use rustix::io::Errno;
use vshmem_mem::{Instant, seconds_now, signals_before_wait, signals_handled};
use vshmem_sync::Decision::{Commit, CommitThenFail};
use vshmem_sync::{Fault, LockContext, SlotGuard, Txn, load_value};
use vshmem_wire::{
    MOST_QUEUE_MESSAGE_BYTES, MSG_HEADER_BYTES, RING_PAYLOAD_BYTES, ThreadSlot, field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::chunks;
use crate::msg::fast_receive::ReceiveCall;
use crate::msg::glimpse::Glimpse;
use crate::msg::list::{Found, find, take, wake_senders};
use crate::msg::message::{Header, Search};
use crate::msg::queue::{self, Queue, Receive, at};
use crate::msg::ring::{self, enter_ring};
use crate::msg::serve::WaitsUntil;
use crate::msg::wait_with_ring::{self, Joined};
use crate::msg::waiters::{self, Deliver, ReceiveFilter};
use crate::msg::{fast_receive, serve};
use crate::pool::chunk::Chunk;
use crate::registry::permission::{Caller, Permission, READ};
use crate::wait::doorbell;
use crate::wait::sleep::Woken;
use crate::wait::wait_queue::{WakeList, errno_of};

/// Times that a receiver goes back to the ring because a message for it has come before it could go
/// to sleep.
pub(crate) const MOST_TURNS: i32 = 8;

/// msgrcv(2). `deliver` is given the type and the payload, and is called once at most; its answer
/// is the call's.
pub(crate) fn msgrcv(
    context: &Context,
    id: i32,
    wanted: Receive,
    caller: &dyn Caller,
    deliver: &mut Deliver<'_>,
) -> Result<usize, Failure> {
    if id < 0 || isize::try_from(wanted.room).is_err() {
        return Err(Errno::INVAL.into());
    }
    if wanted.copy && (wanted.except || !wanted.no_wait) {
        return Err(Errno::INVAL.into());
    }
    let queue = queue::find(context, id)?;
    let glimpse = Glimpse::of(context, queue, false)?;
    receive_from(&ReceiveCall { context, glimpse, wanted, caller }, None, deliver)
}

/// Receives from a queue that has been looked up. System V and POSIX calls have code of their own
/// each: the path through the short ring stays without a call.
#[inline(always)]
pub(crate) fn receive_from(
    call: &ReceiveCall<'_>,
    deadline: Option<Instant>,
    deliver: &mut Deliver<'_>,
) -> Result<usize, Failure> {
    let ReceiveCall { context, glimpse: Glimpse { ref queue, .. }, wanted, caller } = *call;
    let mut signals_seen = None;
    let mut turns = if wanted.copy { 0 } else { MOST_TURNS };
    loop {
        if turns > 0 {
            match fast_receive::receive_from_ring(call, deliver, &mut signals_seen) {
                Ok(Some(answer)) => return Ok(answer.result()?),
                Ok(None) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        turns -= i32::from(turns > 0);
        let waited = Waited { signals_seen, deadline, may_return: turns > 0 };
        if let Some(chunk) = receive_in_line(context, queue, wanted, waited, caller)? {
            let delivered = deliver_chunk(context, chunk, wanted, deliver);
            // The message is the caller's, whether its chunk can be given back now or not.
            if let Ok(slot_guard) = context.slot_guard() {
                let _ = chunks::release(context, &context.lock_context_of(&slot_guard), chunk);
            }
            return delivered;
        }
        // From here on it has begun to wait.
        signals_seen.get_or_insert_with(signals_before_wait);
    }
}

/// How a receiver comes under the lock.
#[derive(Debug, Clone, Copy)]
struct Waited {
    /// Signal handlers that had run when the call began to wait, if it has.
    signals_seen: Option<u32>,
    deadline: Option<Instant>,
    /// It may go back to the ring.
    may_return: bool,
}

/// Receives under the lock, and sleeps for it. `None`: it is to be tried again. There is a message
/// in the ring after all, as may only be where `may_return`; or there was no slot to sleep in.
fn receive_in_line(
    context: &Context,
    queue: &Queue,
    wanted: Receive,
    waited: Waited,
    caller: &dyn Caller,
) -> Result<Option<Chunk>, Failure> {
    // If the call has begun to wait, it has spun already.
    let has_spun = waited.signals_seen.is_some();
    let signals_seen = waited.signals_seen.unwrap_or_else(signals_before_wait);
    let until = WaitsUntil { deadline: waited.deadline, signals_seen };
    let slot_guard = match context.slot_guard() {
        Err(Failure::Errno(Errno::NOMEM)) if !wanted.no_wait => {
            return serve::pause_without_slot(until).map(|()| None);
        }
        taken => taken?,
    };
    let lock_context = context.lock_context_of(&slot_guard);
    let search = Search::of(wanted.mtype, wanted.except, wanted.copy);
    let copy = match wanted.copy {
        true => {
            let most = MSG_HEADER_BYTES + u64::from(context.pool().geometry().msgmax);
            Some(chunks::take(context, &lock_context, most)?)
        }
        false => None,
    };
    let receiver = Receiver {
        context,
        queue,
        wanted,
        search,
        copy,
        until,
        caller,
        lock_context: &lock_context,
        slot_guard: &slot_guard,
    };
    let received = receive_until(&receiver, waited.may_return, has_spun);
    if let (Err(_), Some(chunk)) = (&received, copy) {
        let _ = chunks::release(context, &lock_context, chunk);
    }
    match received {
        Err(failure) if serve::lacks_slot(failure, &slot_guard) => {
            drop(slot_guard);
            serve::pause_without_slot(until).map(|()| None)
        }
        received => received,
    }
}

/// Copies a message that this client owns out to the caller.
fn deliver_chunk(
    context: &Context,
    chunk: Chunk,
    wanted: Receive,
    deliver: &mut Deliver<'_>,
) -> Result<usize, Failure> {
    let pool = context.pool();
    let (map, layout) = (pool.map(), pool.layout());
    let header = Header::read(map, layout, chunk)?;
    let base = chunk.offset(layout)? + MSG_HEADER_BYTES;
    // A sender of this pool may have written any size; what is copied stays in the pool and
    // below the limit.
    let most = pool.geometry().msgmax.max(MOST_QUEUE_MESSAGE_BYTES);
    let size = header.size.min(most.into()) as usize;
    let size = size.min(wanted.room);
    Ok(deliver(header.mtype, size, &|into: &mut [u8]| {
        // Out of range only when a peer spoils the header: the caller gets what it had.
        let _ = map.read(base, into);
    })?)
}

/// A receiver under the lock: one call's worth of state.
struct Receiver<'a> {
    context: &'a Context,
    queue: &'a Queue,
    wanted: Receive,
    search: Search,
    /// For MSG_COPY the payload is copied under the lock, into a chunk taken before.
    copy: Option<Chunk>,
    until: WaitsUntil,
    caller: &'a dyn Caller,
    lock_context: &'a LockContext<'a>,
    slot_guard: &'a SlotGuard<'a>,
}

/// Waits for a message and makes it this client's own. `None`: see `receive_in_line`.
fn receive_until(
    receiver: &Receiver<'_>,
    may_return: bool,
    mut has_spun: bool,
) -> Result<Option<Chunk>, Failure> {
    let Receiver { context, queue, wanted, until, lock_context, slot_guard, .. } = *receiver;
    // A thread that has spun has waited already, for others to see.
    let mut gone = if has_spun { Errno::IDRM } else { Errno::INVAL };
    let waits_for = ReceiveFilter::of(wanted, receiver.search);
    loop {
        Permission::check(context.pool().map(), queue.slot.header(), receiver.caller, READ)??;
        // `gone` tells that this is not the first time: a peer may keep on waking for nothing.
        if signals_handled() != until.signals_seen && gone == Errno::IDRM {
            return Err(Errno::INTR.into());
        }
        // Without a slot to sleep in, a tail that was closed for nothing would stay closed.
        let may_lie_beside = may_return && !wanted.no_wait && slot_guard.may_sleep();
        let joined = match may_lie_beside {
            true => wait_with_ring::enqueue_with_ring(
                context,
                queue,
                &waits_for,
                lock_context,
                slot_guard,
            )?,
            false => Joined::List,
        };
        let taken = match joined {
            Joined::List => take_from_list(receiver, &waits_for, gone)?,
            Joined::Found => return Ok(None),
            Joined::Yes => None,
        };
        if taken.is_some() {
            return Ok(taken);
        }
        let turn = await_turn(context, queue, &mut has_spun, until, lock_context, slot_guard)?;
        if turn.is_some() {
            return Ok(turn);
        }
        gone = Errno::IDRM;
    }
}

/// Takes a message from the list, or joins the wait queue of receivers.
fn take_from_list(
    receiver: &Receiver<'_>,
    waits_for: &ReceiveFilter,
    gone: Errno,
) -> Result<Option<Chunk>, Failure> {
    let Receiver { context, queue, wanted, search, copy, lock_context, slot_guard, .. } = *receiver;
    let layout = context.pool().layout();
    let mut wakes = WakeList::default();
    let taken = ring::decide_list(context, lock_context, queue, "msgrcv", |txn| {
        wakes.clear();
        if !queue.alive(txn)? {
            return Ok(CommitThenFail(gone));
        }
        if let Some(found) = find(txn, layout, queue, search)? {
            if found.header.size > wanted.room as u64 && !wanted.cut {
                return Ok(CommitThenFail(Errno::TOOBIG));
            }
            if let Some(copy) = copy {
                // copy_msg of ipc/msgutil.c does not cut, whatever MSG_NOERROR says.
                if found.header.size > wanted.room as u64 {
                    return Ok(CommitThenFail(Errno::INVAL));
                }
                copy_payload(context, txn, &found, copy)?;
                return Ok(Commit(Some((copy, false))));
            }
            take(txn, layout, queue, &found, context.client_id())?;
            txn.update(at!(queue, receiver), context.process_ref().pack())?;
            txn.update(at!(queue, received), seconds_now())?;
            let more = wake_senders(txn, layout, queue, &mut wakes)?;
            if search.is_plain() && found.header.size <= RING_PAYLOAD_BYTES {
                enter_ring(txn, layout, queue)?;
            }
            return Ok(Commit(Some((found.chunk, more))));
        }
        if wanted.no_wait {
            return Ok(CommitThenFail(Errno::NOMSG));
        }
        waiters::join_receivers(context, txn, queue, waits_for, slot_guard)?;
        Ok(Commit(None))
    })?;
    doorbell::wake_listed(context, &wakes);
    let Some((chunk, more)) = taken else { return Ok(None) };
    if more {
        serve::serve_senders(context, lock_context, queue)?;
    }
    Ok(Some(chunk))
}

/// Sleeps in the wait queue of receivers. `None`: it is worth another try.
fn await_turn(
    context: &Context,
    queue: &Queue,
    has_spun: &mut bool,
    until: WaitsUntil,
    lock_context: &LockContext<'_>,
    slot_guard: &SlotGuard<'_>,
) -> Result<Option<Chunk>, Failure> {
    let wait_queue = queue.receivers();
    let has_spun = std::mem::replace(has_spun, false);
    match serve::sleep_at_queue(
        context,
        queue,
        wait_queue,
        has_spun,
        until,
        lock_context,
        slot_guard,
    )? {
        Woken::Done(0) => handed(context, slot_guard).map(Some),
        Woken::Done(errno) => Err(errno_of(errno).into()),
        Woken::Interrupted => Err(Errno::INTR.into()),
        Woken::TimedOut => Err(Errno::TIMEDOUT.into()),
        Woken::Retry => Ok(None),
    }
}

/// The message that a sender has handed to this waiter.
fn handed(context: &Context, slot_guard: &SlotGuard<'_>) -> Result<Chunk, Failure> {
    let at = context.pool().layout().threads.row(slot_guard.slot)?;
    let unit = load_value(context.pool().map(), field!(at, ThreadSlot, message))?;
    let chunk = unit.checked_sub(1).map(Chunk);
    Ok(chunk.ok_or(Fault::corrupt(at, "a waiter that was served with nothing"))?)
}

fn copy_payload(context: &Context, txn: &Txn<'_>, found: &Found, into: Chunk) -> Result<(), Fault> {
    let layout = context.pool().layout();
    let map = txn.lock_context().map;
    let size = found.header.size.min(u64::from(context.pool().geometry().msgmax));
    let (from, to) = (found.chunk.offset(layout)?, into.offset(layout)?);
    Header { size, ..found.header }.write(map, layout, into)?;
    let mut done = 0;
    let mut block = [0; 256];
    while done < size {
        let part = &mut block[..(size - done).min(256) as usize];
        map.read(from + MSG_HEADER_BYTES + done, part)?;
        map.write(to + MSG_HEADER_BYTES + done, part)?;
        done += part.len() as u64;
    }
    Ok(())
}
