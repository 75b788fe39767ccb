//! msgsnd(2).

use std::cell::Cell;

use rustix::io::Errno;
use vshmem_mem::{Ordering, seconds_now, signals_before_wait, signals_handled};
use vshmem_sync::Decision::{Commit, CommitThenFail};
use vshmem_sync::{Fault, LockContext, RingSpace, SlotGuard, WakerCpu, load_value};
use vshmem_wire::{MSG_HEADER_BYTES, RING_PAYLOAD_BYTES, SendWait, ThreadSlot, WaitKind, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{chunks, heap};
use crate::msg::count::{note_size, sent_past_ring};
use crate::msg::fast_send::{self, InRing, SendCall};
use crate::msg::glimpse::Glimpse;
use crate::msg::list::{End, fits, insert};
use crate::msg::long_ring;
use crate::msg::message::Header;
use crate::msg::posix::mq_notify;
use crate::msg::queue::{self, Queue, Wait, at};
use crate::msg::serve::WaitsUntil;
use crate::msg::wait_with_ring::{self, HandOff};
use crate::msg::waiters::{self, Handed};
use crate::msg::{ring, serve};
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::registry::permission::{Caller, Permission, WRITE};
use crate::wait::doorbell;
use crate::wait::sleep::Woken;
use crate::wait::wait_queue::{self, WakeList, errno_of};
use crate::wait::waker_cpus;

/// How an attempt to send under the lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    /// It is sent, and the call has slept before.
    AfterSleep,
    /// The call has slept, and then found the ring open, or had no slot to sleep in: the message is
    /// not sent yet.
    NotYet,
}

/// msgsnd(2).
pub(crate) fn msgsnd(
    context: &Context,
    id: i32,
    mtype: i64,
    payload: &[u8],
    no_wait: bool,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let pool = context.pool();
    if payload.len() > pool.geometry().msgmax as usize || id < 0 || mtype < 1 {
        return Err(Errno::INVAL.into());
    }
    let queue = queue::find(context, id)?;
    let glimpse = Glimpse::of(context, queue, false)?;
    let call = SendCall { context, glimpse, mtype, payload, no_wait, caller };
    let wait = if no_wait { Wait::Never } else { Wait::Forever };
    // No process is told of a message in a queue of System V.
    send_to(&call, wait, &Cell::new(None))
}

/// What a sender is given: where it puts the number of this process's registration that its message
/// has ended, if there is one.
pub(crate) type EndedRegistration = Cell<Option<u64>>;

/// Sends a message to a queue that has been looked up: through the ring, or by the list.
/// System V and POSIX calls have code of their own each, as in `receive_from`.
#[inline(always)]
pub(crate) fn send_to(
    call: &SendCall<'_>,
    wait: Wait,
    ended_registration: &EndedRegistration,
) -> Result<(), Failure> {
    let SendCall { context, glimpse: Glimpse { ref queue, .. }, no_wait, payload, .. } = *call;
    let may_use_ring = payload.len() as u64 <= RING_PAYLOAD_BYTES;
    let mut signals_seen = None;
    // A queue that goes while the call sleeps is EIDRM.
    let (mut gone, mut has_spun) = (Errno::INVAL, no_wait);
    let mut was_full = false;
    loop {
        if may_use_ring {
            match send_past_waiters(call, &mut signals_seen)? {
                InRing::Sent => return Ok(()),
                InRing::Full => was_full = true,
                InRing::Awaited | InRing::Slow => {}
            }
            if !has_spun {
                has_spun = true;
                if await_ring(context, queue, &mut signals_seen) {
                    continue;
                }
            }
        }
        let signals_seen = *signals_seen.get_or_insert_with(signals_before_wait);
        let until = WaitsUntil { deadline: wait.deadline(), signals_seen };
        let slow = Slow { may_use_ring, until, ended_registration };
        match send_to_list(call, slow, &mut gone)? {
            Sent::Yes | Sent::AfterSleep => break,
            Sent::NotYet => {}
        }
    }
    if was_full {
        long_ring::make_if_missing(context, queue);
    }
    Ok(())
}

/// Sends through the ring, or to a waiter beside it; or else says why it has to go to the list.
#[inline(always)]
fn send_past_waiters(
    call: &SendCall<'_>,
    signals_seen: &mut Option<u32>,
) -> Result<InRing, Failure> {
    /// Turns in which another thread has gone to sleep for that type just then.
    const MOST_TURNS: u32 = 8;
    let mut refused = None;
    for _ in 0..MOST_TURNS {
        match fast_send::send_in_ring(call, refused, signals_seen)? {
            InRing::Awaited => match wait_with_ring::hand_to_waiter(call)? {
                HandOff::Taken => return Ok(InRing::Sent),
                HandOff::Refused(mode) => refused = Some(mode),
                HandOff::List => break,
            },
            done => return Ok(done),
        }
    }
    Ok(InRing::Slow)
}

/// Looks for a while whether a queue that uses its list comes to use its ring again, as receivers
/// take what is in it.
fn await_ring(context: &Context, queue: &Queue, signals_seen: &mut Option<u32>) -> bool {
    let map = context.pool().map();
    let left = || load_value(map, at!(queue, count)).unwrap_or(0);
    // A thread that sleeps is woken by the message that is to be sent.
    let is_idle = load_value(map, at!(queue, receive_head)).is_ok_and(|first| first != 0);
    let mut least = left();
    let may_look = || waker_cpus::waker_cpu(context) == WakerCpu::OnAnotherCpu;
    if least == 0 || is_idle || !context.send_backoff.may_look(may_look) {
        return false;
    }
    signals_seen.get_or_insert_with(signals_before_wait);
    let mut found = RingSpace::None;
    context.send_backoff.look_for_ring(|| {
        if !ring::is_in_list(context, queue).unwrap_or(true) {
            return RingSpace::Plenty;
        }
        let now = left();
        if now < least {
            found = RingSpace::Some;
        }
        least = now;
        found
    })
}

/// How a call goes on under the lock.
#[derive(Debug, Clone, Copy)]
struct Slow<'a> {
    may_use_ring: bool,
    until: WaitsUntil,
    ended_registration: &'a EndedRegistration,
}

#[inline(never)]
fn send_to_list(call: &SendCall<'_>, slow: Slow<'_>, gone: &mut Errno) -> Result<Sent, Failure> {
    let SendCall { context, mtype, payload, no_wait, .. } = *call;
    let began = context.send_backoff.begin_call();
    let pool = context.pool();
    let layout = pool.layout();
    let slot_guard = match context.slot_guard() {
        Err(Failure::Errno(Errno::NOMEM)) if !no_wait => {
            *gone = Errno::IDRM;
            return serve::pause_without_slot(slow.until).map(|()| Sent::NotYet);
        }
        taken => taken?,
    };
    let lock_context = context.lock_context_of(&slot_guard);
    let chunk = chunks::take(context, &lock_context, MSG_HEADER_BYTES + payload.len() as u64)?;
    let filled = Header::write_payload(pool.map(), layout, chunk, mtype, payload);
    let sent = filled
        .map_err(Failure::from)
        .and_then(|()| send_until(&Sender { call, chunk, slow, slot_guard: &slot_guard }, gone));
    match sent {
        Ok(Sent::Yes) => {
            if let Some(began) = began {
                context.send_backoff.end_call(began);
            }
        }
        Ok(Sent::AfterSleep) => {}
        Ok(Sent::NotYet) | Err(_) => {
            let _ = chunks::release(context, &lock_context, chunk);
        }
    }
    match sent {
        Err(failure) if serve::lacks_slot(failure, &slot_guard) => {
            drop(slot_guard);
            *gone = Errno::IDRM;
            serve::pause_without_slot(slow.until).map(|()| Sent::NotYet)
        }
        sent => sent,
    }
}

/// A sender under the lock: one call's worth of state.
struct Sender<'a> {
    call: &'a SendCall<'a>,
    /// Where the message is.
    chunk: Chunk,
    slow: Slow<'a>,
    slot_guard: &'a SlotGuard<'a>,
}

fn send_until(sender: &Sender<'_>, gone: &mut Errno) -> Result<Sent, Failure> {
    let Sender { call, slow, slot_guard, .. } = *sender;
    let SendCall { context, glimpse: Glimpse { queue, .. }, caller, .. } = *call;
    let signals_seen = slow.until.signals_seen;
    let threads = context.pool().layout().threads.count;
    let lock_context = context.lock_context_of(slot_guard);
    let mut undecided = 0;
    let mut sent_now = Sent::Yes;
    loop {
        if signals_handled() != signals_seen && *gone == Errno::IDRM {
            return Err(Errno::INTR.into());
        }
        Permission::check(context.pool().map(), queue.slot.header(), caller, WRITE)??;
        match put_in_list(sender, &lock_context, *gone)? {
            // Each time another thread has left the wait queue.
            Some(Handed::Undecided) if undecided <= threads => {
                undecided += 1;
                continue;
            }
            Some(Handed::Undecided) => {
                return Err(
                    Fault::corrupt(queue.slot, "a wait queue of receivers without an end").into()
                );
            }
            Some(_) => return Ok(sent_now),
            None => sent_now = Sent::AfterSleep,
        }
        let wait_queue = queue.senders();
        match serve::sleep_at_queue(
            context,
            &queue,
            wait_queue,
            false,
            slow.until,
            &lock_context,
            slot_guard,
        )? {
            Woken::Done(errno) if errno != 0 => return Err(errno_of(errno).into()),
            Woken::Interrupted => return Err(Errno::INTR.into()),
            Woken::TimedOut => return Err(Errno::TIMEDOUT.into()),
            _ => *gone = Errno::IDRM,
        }
        if slow.may_use_ring && await_ring(context, &queue, &mut Some(signals_seen)) {
            return Ok(Sent::NotYet);
        }
    }
}

/// Hands the message over, appends it to the list, or joins the wait queue of senders (`None`).
fn put_in_list(
    sender: &Sender<'_>,
    lock_context: &LockContext<'_>,
    gone: Errno,
) -> Result<Option<Handed>, Failure> {
    let Sender { call, chunk, slot_guard, .. } = *sender;
    let SendCall { context, glimpse: Glimpse { ref queue, .. }, no_wait, .. } = *call;
    let header = Header { mtype: call.mtype, size: call.payload.len() as u64 };
    let layout = context.pool().layout();
    let mut wakes = WakeList::default();
    let sent = ring::decide_list(context, lock_context, queue, "msgsnd", |txn| {
        wakes.clear();
        sender.slow.ended_registration.set(None);
        if !queue.alive(txn)? {
            return Ok(CommitThenFail(gone));
        }
        if fits(txn, queue, header.size)? {
            txn.update(at!(queue, sender), context.process_ref().pack())?;
            txn.update(at!(queue, sent), seconds_now())?;
            let handed = waiters::hand_over(context, txn, queue, header, chunk, &mut wakes)?;
            if handed == Handed::No {
                let is_first = txn.get(at!(queue, head))? == 0;
                heap::pass(txn, layout, chunk, context.client_id().word(), IN_OBJECT)?;
                insert(txn, layout, queue, chunk, header, End::Newest)?;
                note_size(txn, queue, header.size)?;
                sent_past_ring(txn, queue)?;
                if is_first {
                    sender
                        .slow
                        .ended_registration
                        .set(mq_notify::fire(context, txn, queue, &mut wakes)?);
                }
            }
            return Ok(Commit(Some(handed)));
        }
        if no_wait {
            return Ok(CommitThenFail(Errno::AGAIN));
        }
        let at = layout.threads.row(slot_guard.slot)?;
        let map = txn.lock_context().map;
        map.store(field!(at.send_wait(), SendWait, size), header.size, Ordering::Relaxed)?;
        txn.update(field!(at, ThreadSlot, process_ref), context.process_ref().pack())?;
        let wait_queue = queue.senders();
        wait_queue::enqueue(txn, layout, wait_queue, slot_guard, WaitKind::Send, queue.index)?;
        Ok(Commit(None))
    })?;
    doorbell::wake_listed(context, &wakes);
    Ok(sent)
}
