//! Wait queues: the lists of waiters at an object.
//!
//! A waiter is in the list of the object whose lock protects it. The thread that changes the
//! object either does the waiter's work on its behalf (`Done`) or sends it to try again (`Retry`),
//! takes it off the list in the same step, and wakes it afterwards.

use rustix::io::Errno;
use vshmem_mem::{WaiterRecord, show_waiter};
use vshmem_sync::{Fault, SlotGuard, Txn};
use vshmem_wire::{Layout, Place, RawCell, ThreadSlot, WaitKind, WaitState, field};

/// A list of waiters: the cells that hold its ends, and what goes with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitQueue {
    pub head: Place<RawCell>,
    pub tail: Place<RawCell>,
    /// The lock that protects it.
    pub lock: Place<RawCell>,
    /// The cell that counts its waiters, if there is one.
    pub length: Option<Place<RawCell>>,
}

impl WaitQueue {
    /// As a signal handler finds it, with the slot of the thread that is in it.
    fn shown(self, slot: u32) -> WaiterRecord {
        let [head, tail, lock] = [self.head, self.tail, self.lock].map(Place::offset);
        [head, tail, lock, self.length.map_or(0, Place::offset), slot.into()]
    }

    pub(crate) fn taken([head, tail, lock, length, slot]: WaiterRecord) -> (Self, u32) {
        let length = (length != 0).then_some(Place::at(length));
        let [head, tail, lock] = [head, tail, lock].map(Place::at);
        (Self { head, tail, lock, length }, slot as u32)
    }
}

/// Puts the calling thread's slot at the end of the wait queue, as waiting.
///
/// # Errors
/// ENOMEM when it has one of the slots that are kept for calls that do not sleep: one of these has
/// to wake those that do.
pub(crate) fn enqueue(
    txn: &mut Txn<'_>,
    layout: &Layout,
    wait_queue: WaitQueue,
    slot_guard: &SlotGuard<'_>,
    kind: WaitKind,
    object: u32,
) -> Result<(), Fault> {
    if !slot_guard.may_sleep() {
        return Err(Fault::Refused(Errno::NOMEM.raw_os_error()));
    }
    let slot = slot_guard.slot;
    let at = layout.threads.row(slot)?;
    // Before the change can happen: a handler may run the moment that it has.
    show_waiter(wait_queue.shown(slot));
    let tail = txn.get(wait_queue.tail)?;
    txn.update(field!(at, ThreadSlot, next), 0)?;
    txn.update(field!(at, ThreadSlot, previous), tail)?;
    txn.update_state(field!(at, ThreadSlot, kind), kind)?;
    txn.update(field!(at, ThreadSlot, object), object)?;
    txn.set_state(field!(at, ThreadSlot, wait), WaitState::Waiting)?;
    if let Some(length) = wait_queue.length {
        let before = txn.get(length)?;
        txn.set(length, before.saturating_add(1))?;
    }
    if let Some(last) = tail.checked_sub(1) {
        txn.set(field!(layout.threads.row(last)?, ThreadSlot, next), slot + 1)?;
    } else {
        txn.set(wait_queue.head, slot + 1)?;
    }
    txn.set(wait_queue.tail, slot + 1)
}

/// Takes `slot` off the wait queue and leaves it in `state`. It must be waiting: so no thread is
/// taken off twice, and a thread that serves a wait queue reaches its end even if a peer has made
/// it a cycle.
pub(crate) fn dequeue(
    txn: &mut Txn<'_>,
    layout: &Layout,
    wait_queue: WaitQueue,
    slot: u32,
    state: WaitState,
    result: u32,
) -> Result<(), Fault> {
    let at = layout.threads.row(slot)?;
    if txn.state(field!(at, ThreadSlot, wait))? != Some(WaitState::Waiting) {
        return Err(Fault::corrupt(at, "a wait queue with a thread in it that does not wait"));
    }
    let next = txn.get(field!(at, ThreadSlot, next))?;
    let previous = txn.get(field!(at, ThreadSlot, previous))?;
    match next.checked_sub(1) {
        Some(after) => {
            txn.set(field!(layout.threads.row(after)?, ThreadSlot, previous), previous)?;
        }
        None => txn.set(wait_queue.tail, previous)?,
    }
    match previous.checked_sub(1) {
        Some(before) => txn.set(field!(layout.threads.row(before)?, ThreadSlot, next), next)?,
        None => txn.set(wait_queue.head, next)?,
    }
    if let Some(length) = wait_queue.length {
        let before = txn.get(length)?;
        txn.set(length, before.saturating_sub(1))?;
    }
    txn.update(field!(at, ThreadSlot, result), result)?;
    txn.set_state(field!(at, ThreadSlot, wait), state)
}

/// The waiters of a wait queue in order; ends with an error if the wait queue has no end.
pub(crate) fn walk(
    txn: &mut Txn<'_>,
    layout: &Layout,
    wait_queue: WaitQueue,
    mut each: impl FnMut(&mut Txn<'_>, u32) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let mut next = txn.get(wait_queue.head)?;
    for _ in 0..=layout.threads.count {
        let Some(slot) = next.checked_sub(1) else {
            return Ok(());
        };
        let at = layout.threads.row(slot)?;
        // Read before `each`, which may take the waiter off the wait queue.
        let after = txn.get(field!(at, ThreadSlot, next))?;
        if !each(txn, slot)? {
            return Ok(());
        }
        next = after;
    }
    Err(Fault::corrupt(wait_queue.head, "a wait queue without an end"))
}

/// Waiters to wake once a change has happened. More than fit are all woken.
#[derive(Debug, Default)]
pub(crate) struct WakeList {
    pub slots: arrayvec::ArrayVec<u32, 16>,
    pub all: bool,
}

impl WakeList {
    /// Empties it, for a change that begins again.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.all = false;
    }

    /// Adds a thread slot. When there are too many, all threads are to be woken.
    pub fn add(&mut self, slot: u32) {
        if self.slots.try_push(slot).is_err() {
            self.all = true;
        }
    }
}

/// errno as the result cell carries it.
pub(crate) fn result_of(errno: Errno) -> u32 {
    errno.raw_os_error() as u32
}

/// The reverse; what a peer has made up is EIO.
pub(crate) fn errno_of(result: u32) -> Errno {
    match result {
        1..4096 => Errno::from_raw_os_error(result as i32),
        _ => Errno::IO,
    }
}
