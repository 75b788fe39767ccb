//! The thread slots of a client that has ended.
//!
//! A client lists the thread slots that it has claimed, so the cost grows with what it held. For
//! each slot: what it had committed is carried out, its wait is ended, what it had begun with an
//! object is finished, and the threads that it was about to wake are woken. The slot leaves the
//! list before it becomes free. A slot that has left the list and is not free yet carries a dead
//! client's id; it is freed later ([`crate::recovery::reclaim`]).
//!
//! Two threads may do this at once, and one of them may be stopped until another client has the
//! slot. So each step first reads what it is about to replace, and then asks whether the slot still
//! belongs to the dead client. A client id never comes back.

use vshmem_mem::Ordering;
use vshmem_sync::{
    ClientList, Fault, LockContext, holder_of, load_cell, load_state, load_value, load_word,
    thread_list_entry, with_lock,
};
use vshmem_wire::{
    ClientId, ClientListHead, ClientSlot, INTENT_ENTRIES, IntentEntry, IntentHead, Layout,
    ObjectState, Place, RawCell, ReceiveWait, SemaphoreWait, ShmSlot, State, Task, ThreadSlot,
    WaitKind, WaitState, field,
};

use crate::context::Context;
use crate::error::broken;
use crate::futex::Bucket;
use crate::memory::heap;
use crate::msg;
use crate::msg::queue::Queue;
use crate::pool::clients::slot_of;
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::threads::Dead;
use crate::recovery::objects;
use crate::registry::table;
use crate::sem;
use crate::sem::set::{self, Set};
use crate::shm::create;
use crate::wait::doorbell;
use crate::wait::wait_queue::{WaitQueue, WakeList, dequeue};

/// Takes a client's threads out of the wait queues they sleep in, and frees their slots.
pub(crate) fn reap_threads_of(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let list = field!(slot_of(layout, client)?, ClientSlot, threads);
    let all = ClientList { map, list, client };
    for _ in 0..=layout.threads.count {
        let Some((head, thread)) = all.last()? else { return Ok(()) };
        let dead = Dead { thread, client, at: layout.threads.row(thread)? };
        if still_dead(context, dead)? {
            reap_thread(context, lock_context, dead)?;
        }
        all.give_up(head, thread_list_entry(layout.threads, thread)?)?;
    }
    Err(Fault::corrupt(list, "a list of thread slots without an end"))
}

/// Whether a thread slot still is what it was found to be.
fn still_dead(context: &Context, dead: Dead) -> Result<bool, Fault> {
    let owner = load_word(context.pool().map(), field!(dead.at, ThreadSlot, owner))?;
    Ok(owner == dead.client.word())
}

/// Everything that is to be done for one thread.
fn reap_thread(context: &Context, lock_context: &LockContext<'_>, dead: Dead) -> Result<(), Fault> {
    let map = context.pool().map();
    finish_record(context, lock_context, dead)?;
    let wait_at = field!(dead.at, ThreadSlot, wait);
    if load_state(map, wait_at)? == Some(WaitState::Waiting) {
        dequeue_thread(context, lock_context, dead)?;
    }
    if load_state(map, wait_at)? == Some(WaitState::Done) {
        take_back_unseen(context, lock_context, dead)?;
    }
    let wait = load_cell(map, wait_at.cell())?;
    let over = matches!(WaitState::of(wait.value()), Some(WaitState::Done | WaitState::Retry));
    if over && still_dead(context, dead)? {
        map.replace_cell(wait_at.cell(), wait, WaitState::Idle.number().into())?;
    }
    finish_task(context, lock_context, dead)
}

/// Finishes what a thread of this process had begun from a slot, in a call that it has left by
/// longjmp. Whether the slot can be used again.
#[cold]
#[inline(never)]
pub(crate) fn recover_thread(
    context: &Context,
    lock_context: &LockContext<'_>,
    thread: u32,
) -> bool {
    let recover = || -> Result<(), Fault> {
        let at = context.pool().layout().threads.row(thread)?;
        reap_thread(context, lock_context, Dead { thread, client: context.client_id(), at })
    };
    recover().is_ok()
}

/// Takes a client's waiters out of their wait queues and lets it keep their slots.
pub(crate) fn dequeue_waiters_of(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let list = field!(slot_of(layout, client)?, ClientSlot, threads);
    let mut client_list_head = ClientListHead::unpack(load_word(map, list)?);
    for _ in 0..=layout.threads.count {
        let Some(thread) = client_list_head.last_of(client) else {
            return Ok(());
        };
        let at = layout.threads.row(thread)?;
        client_list_head = ClientListHead::unpack(load_word(map, field!(at, ThreadSlot, sibling))?);
        let waits = load_state(map, field!(at, ThreadSlot, wait))? == Some(WaitState::Waiting);
        let dead = Dead { thread, client, at };
        if !still_dead(context, dead)? {
            return Ok(());
        }
        if waits {
            dequeue_thread(context, lock_context, dead)?;
        }
    }
    Err(Fault::corrupt(list, "a list of thread slots without an end"))
}

/// Frees the thread slots of processes of a domain that have died while they were joining, as
/// `gone` says by their pids.
pub(crate) fn reap_joining(
    context: &Context,
    lock_context: &LockContext<'_>,
    digest: u64,
    gone: &dyn Fn(u32) -> bool,
) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    for thread in 0..layout.threads.count as u32 {
        let at = layout.threads.row(thread)?;
        let owner_at = field!(at, ThreadSlot, owner);
        // The cell first: names of processes that join come back with their pids.
        let owner = load_cell(map, owner_at)?;
        let Some(client) = ClientId::of(owner.word) else { continue };
        let Some((of, pid)) = client.joiner() else { continue };
        if of != digest || !gone(pid) {
            continue;
        }
        finish_record(context, lock_context, Dead { thread, client, at })?;
        if map.replace_cell(owner_at, owner, 0)? {
            heap::reap(context, lock_context, client)?;
        }
    }
    Ok(())
}

/// Carries out what a thread slot has committed and not carried out, so that its intent record may
/// be overwritten by the slot's next owner. Then does what its owner had still to do: serves the
/// waiters of the object that it changed last, and wakes those that it had served.
fn finish_record(
    context: &Context,
    lock_context: &LockContext<'_>,
    dead: Dead,
) -> Result<(), Fault> {
    let map = context.pool().map();
    let lock_at = field!(dead.at, ThreadSlot, intent_lock);
    let lock = Place::at(map.load(lock_at, Ordering::Acquire)?);
    let head_at = field!(dead.at, ThreadSlot, intent_head);
    let head = map.load(head_at, Ordering::Acquire)?;
    if !table::is_lock(context, lock) || !still_dead(context, dead)? {
        return Ok(());
    }
    if holder_of(map, lock)?.is_some_and(|holder| holder.slot == dead.thread) {
        // Taking the lock finishes whatever its former holder had committed.
        with_lock(*lock_context, lock, "finish-record", |_| Ok(()))?;
    }
    let wakes = wakes_of(context, dead, head)?;
    // The room of a long record becomes free next: a thread that is still carrying the record out
    // must notice. The swap is refused if the slot has another owner by now, and a newer record.
    if map.replace(head_at, head, 0)? {
        recover_lock(context, lock_context, lock)?;
        doorbell::wake_listed(context, &wakes);
    }
    Ok(())
}

/// The waiters that a record has served: its owner may have died before it could wake them.
fn wakes_of(context: &Context, dead: Dead, head: u64) -> Result<WakeList, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mut wakes = WakeList::default();
    let entries = IntentHead::entries_of(head);
    // Further entries are those of a change to many semaphores: its waiters are looked for.
    wakes.all = entries > INTENT_ENTRIES as u64;
    for nth in 0..entries.min(INTENT_ENTRIES as u64) {
        let entry = field!(dead.at, ThreadSlot, intents).element(nth);
        let written = map.load(field!(entry, IntentEntry, offset), Ordering::Relaxed)?;
        let Some(thread) = layout.threads.index_of(written) else { continue };
        let wait_at = field!(layout.threads.row(thread)?, ThreadSlot, wait);
        // A thread that still waits has not been served: the record put it into its wait queue.
        if wait_at.offset() == written && load_state(map, wait_at)? != Some(WaitState::Waiting) {
            wakes.add(thread);
        }
    }
    Ok(wakes)
}

/// Serves the waiters of the object that a lock protects: the thread that changed the object last
/// may have died before it did so.
fn recover_lock(
    context: &Context,
    lock_context: &LockContext<'_>,
    lock: Place<RawCell>,
) -> Result<(), Fault> {
    let layout = context.pool().layout();
    for kind in [Kind::Semaphore, Kind::Queue] {
        if let Some(index) = kind.index_of(layout, lock.offset()) {
            objects::recover_object(context, lock_context, kind, index).map_err(broken(lock))?;
        }
    }
    Ok(())
}

/// Gives back what a waiter was given and has not seen: it counts as never woken.
fn take_back_unseen(
    context: &Context,
    lock_context: &LockContext<'_>,
    dead: Dead,
) -> Result<(), Fault> {
    let map = context.pool().map();
    let at = dead.at;
    let kind = load_state(map, field!(at, ThreadSlot, kind))?;
    let index = load_value(map, field!(at, ThreadSlot, object))?;
    let (of, field) = match kind {
        Some(WaitKind::Semaphore) => {
            (Kind::Semaphore, field!(at.semaphore_wait(), SemaphoreWait, set_sequence))
        }
        Some(WaitKind::Receive) => {
            (Kind::Queue, field!(at.receive_wait(), ReceiveWait, queue_sequence))
        }
        _ => return Ok(()),
    };
    let sequence = map.load(field, Ordering::Relaxed)? as u32;
    let object_slot = ObjectSlot { index, sequence };
    if of == Kind::Semaphore {
        let Some(set) = Set::find(context.pool(), object_slot)? else { return Ok(()) };
        sem::recover::take_back(context, lock_context, dead, &set).map_err(broken(at))
    } else {
        let Some(queue) = Queue::find(context.pool(), object_slot)? else { return Ok(()) };
        msg::recover::put_back(context, lock_context, dead, &queue).map_err(broken(at))
    }
}

/// The wait queue that a thread waits in, as its slot says.
fn wait_queue_at(layout: &Layout, kind: Option<WaitKind>, object: u32) -> Option<WaitQueue> {
    match kind {
        Some(WaitKind::Address) => Bucket::nth(layout, object).ok().map(Bucket::wait_queue),
        Some(WaitKind::Semaphore) => layout.sem.at(object).map(set::wait_queue_of),
        Some(kind @ (WaitKind::Receive | WaitKind::Send | WaitKind::Notify)) => {
            layout.msg.at(object).map(|slot| msg::queue::wait_queue_of(slot, kind))
        }
        // A peer has written it. Most who wait are receivers.
        Some(WaitKind::None) | None => {
            let receivers = |slot| msg::queue::wait_queue_of(slot, WaitKind::Receive);
            layout.msg.at(object).map(receivers)
        }
    }
}

fn dequeue_thread(
    context: &Context,
    lock_context: &LockContext<'_>,
    dead: Dead,
) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let at = dead.at;
    let kind_at = field!(at, ThreadSlot, kind).cell();
    let kind = load_value(map, kind_at)?;
    let object = load_value(map, field!(at, ThreadSlot, object))?;
    let wait_queue = wait_queue_at(layout, WaitKind::of(kind), object);
    let Some(wait_queue) = wait_queue else { return Ok(()) };
    with_lock(*lock_context, wait_queue.lock, "reap-waiter", |txn| {
        // A thread enters this wait queue under this lock. So if the slot still belongs to the dead
        // client, then it is a thread of that client that waits.
        let here = txn.state(field!(at, ThreadSlot, wait))? == Some(WaitState::Waiting)
            && txn.get(kind_at)? == kind
            && txn.get(field!(at, ThreadSlot, object))? == object
            && txn.get_word(field!(at, ThreadSlot, owner))? == dead.client.word();
        if here {
            dequeue(txn, layout, wait_queue, dead.thread, WaitState::Idle, 0)?;
        }
        Ok(())
    })
}

/// Finishes what the thread had begun with an object: a segment in the making, a set or queue half
/// taken apart.
fn finish_task(context: &Context, lock_context: &LockContext<'_>, dead: Dead) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let task_at = field!(dead.at, ThreadSlot, task);
    let noted = load_cell(map, task_at)?;
    let Some(task) = Task::unpack(noted.value()).filter(|_| noted.word != 0) else {
        return Ok(());
    };
    if !still_dead(context, dead)? {
        return Ok(());
    }
    if let Some(kind) = Kind::ALL.get(task.kind as usize).copied()
        && kind.row(layout, task.index).is_ok()
    {
        finish_object(context, lock_context, dead.client, kind, task.index)?;
    }
    map.replace_cell(task_at, noted, 0)?;
    Ok(())
}

fn finish_object(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
    kind: Kind,
    index: u32,
) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let slot = kind.row(layout, index)?;
    let slot_state = table::slot_state(map, slot)?;
    let object_slot = ObjectSlot { index, sequence: slot_state.sequence };
    let maker = || load_word(map, field!(layout.shm.row(index)?, ShmSlot, maker));
    let queue = || layout.msg.row(index).map(|slot| Queue::at(object_slot, slot));
    match kind {
        Kind::Segment if slot_state.is(ObjectState::Creating) && maker()? == client.word() => {
            create::abandon_segment(context, lock_context, object_slot);
            Ok(())
        }
        Kind::Semaphore if slot_state.is(ObjectState::Dying) => {
            let set = Set::read(context.pool(), object_slot, layout.sem.row(index)?)?;
            sem::remove::dismantle_set(context, lock_context, &set).map_err(broken(slot))
        }
        Kind::Queue if slot_state.is(ObjectState::Live) => {
            msg::posix::descriptors::recover_removal(context, lock_context, &queue()?)
                .map_err(broken(slot))
        }
        Kind::Queue if slot_state.is(ObjectState::Dying) => {
            msg::remove::dismantle_queue(context, lock_context, &queue()?).map_err(broken(slot))
        }
        _ => Ok(()),
    }
}
