//! mq_notify(3): a thread of the registered process waits in a wait queue of its own, which has
//! room for one. The sender whose message is the first takes it out: that ends the registration.

use rustix::io::Errno;
use vshmem_mem::{Ordering, signals_handled};
use vshmem_sync::Decision::{Commit, CommitThenFail};
use vshmem_sync::{Fault, Txn, load_value};
use vshmem_wire::{Layout, NotifyWait, ThreadSlot, WaitKind, WaitState, field};

use crate::context::Context;
use crate::error::Failure;
use crate::msg::queue::{Queue, at, find_posix};
use crate::msg::ring;
use crate::msg::serve::{self, WaitsUntil};
use crate::wait::doorbell;
use crate::wait::sleep::Woken;
use crate::wait::wait_queue::{self, WakeList, result_of};

/// How a registration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationEnd {
    /// By a message of the process with this pid; 0 if that is of another domain.
    Message {
        /// The pid.
        sender: u32,
    },
    /// By a message of this process, whose sender has been given the number of the registration:
    /// it tells the process itself.
    OwnMessage,
    /// It was taken back, or the queue has gone.
    TakenBack,
}

/// The number of a registration whose thread always tells its process, also of the process's own
/// message.
const NO_NUMBER: u64 = 0;
/// What a registered thread is woken with: 0, this, or an errno.
const OWN_MESSAGE: u32 = u32::MAX;

/// Stages that the registered thread is told of the first message: the number that its process has
/// given the registration, if that is the caller's own.
pub(crate) fn fire(
    context: &Context,
    txn: &mut Txn<'_>,
    queue: &Queue,
    wakes: &mut WakeList,
) -> Result<Option<u64>, Fault> {
    let Some(slot) = txn.get(at!(queue, notify_head))?.checked_sub(1) else { return Ok(None) };
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let at = layout.threads.row(slot)?;
    let is_own = txn.get_word(field!(at, ThreadSlot, owner))? == context.client_id().word();
    // It stays as long as the thread is in the wait queue.
    let number = map.load(field!(at.notify_wait(), NotifyWait, number), Ordering::Relaxed)?;
    let told = Some(number).filter(|&number| is_own && number != NO_NUMBER);
    end(txn, layout, queue, slot, if told.is_some() { OWN_MESSAGE } else { 0 }, wakes)?;
    Ok(told)
}

fn end(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    slot: u32,
    result: u32,
    wakes: &mut WakeList,
) -> Result<(), Fault> {
    wait_queue::dequeue(txn, layout, queue.notified(), slot, WaitState::Done, result)?;
    wakes.add(slot);
    Ok(())
}

/// Registers the calling thread, says so to `registered`, and waits until a message comes to the
/// empty queue, or until the registration is taken back. A sender of this process is given `number`
/// unless that is [`NO_NUMBER`].
pub(crate) fn await_first_message(
    context: &Context,
    id: i32,
    number: u64,
    registered: &mut dyn FnMut(),
) -> Result<RegistrationEnd, Failure> {
    let queue = find_posix(context, id)?;
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let until = WaitsUntil { deadline: None, signals_seen: signals_handled() };
    ring::decide_list(context, &lock_context, &queue, "mq-notify", |txn| {
        if !queue.alive(txn)? {
            return Ok(CommitThenFail(Errno::BADF));
        }
        if txn.get(at!(queue, notify_head))? != 0 {
            return Ok(CommitThenFail(Errno::BUSY));
        }
        let at = layout.threads.row(slot_guard.slot)?;
        // A plain word: no thread reads it before the slot is in a wait queue.
        let map = txn.lock_context().map;
        map.store(field!(at.notify_wait(), NotifyWait, number), number, Ordering::Relaxed)?;
        txn.update(field!(at, ThreadSlot, process_ref), context.process_ref().pack())?;
        let wait_queue = queue.notified();
        let kind = WaitKind::Notify;
        wait_queue::enqueue(txn, layout, wait_queue, &slot_guard, kind, queue.index)?;
        Ok(Commit(()))
    })?;
    registered();
    let wait_queue = queue.notified();
    match serve::sleep_at_queue(
        context,
        &queue,
        wait_queue,
        true,
        until,
        &lock_context,
        &slot_guard,
    )? {
        Woken::Done(0) => {
            let sender = load_value(context.pool().map(), at!(queue, sender))?;
            Ok(RegistrationEnd::Message { sender: context.pid_here(sender) })
        }
        Woken::Done(OWN_MESSAGE) => Ok(RegistrationEnd::OwnMessage),
        _ => Ok(RegistrationEnd::TakenBack),
    }
}

/// Takes the registration of this process back, if it has one.
pub(crate) fn unregister(context: &Context, id: i32) -> Result<(), Failure> {
    let queue = find_posix(context, id)?;
    let (layout, map) = (context.pool().layout(), context.pool().map());
    if load_value(map, at!(queue, notify_head))? == 0 {
        return Ok(());
    }
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut wakes = WakeList::default();
    ring::change_list(context, &lock_context, &queue, "mq-unregister", |txn| {
        wakes.clear();
        let Some(slot) = txn.get(at!(queue, notify_head))?.checked_sub(1) else {
            return Ok(());
        };
        let owner = txn.get_word(field!(layout.threads.row(slot)?, ThreadSlot, owner))?;
        if owner == context.client_id().word() {
            end(txn, layout, &queue, slot, result_of(Errno::CANCELED), &mut wakes)?;
        }
        Ok(())
    })?;
    doorbell::wake_listed(context, &wakes);
    Ok(())
}
