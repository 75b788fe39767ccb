//! Lists of sleepers at an object, and sleeping in one.
//!
//! A sleeper hangs in the list of the object whose lock protects it. Whoever changes the object
//! either does the sleeper's work on its behalf (`Done`) or sends it to try again (`Retry`), takes
//! it off the list in the same step, and rings it afterwards.

use rustix::io::Errno;
use vshmem_mem::{Sleeper, show_sleeper};
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{Layout, ThreadSlot, WaitKind, WaitState};

use crate::pool::threads::thread_at;

/// A list of sleepers: the cells that hold its ends, and what goes with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub head: u64,
    pub tail: u64,
    /// The lock that protects it.
    pub lock: u64,
    /// The cell that counts its sleepers, if there is one.
    pub length: Option<u64>,
}

impl Line {
    /// As a signal handler finds it, with the slot of the thread that is in it.
    fn shown(self, slot: u32) -> Sleeper {
        [self.head, self.tail, self.lock, self.length.unwrap_or(0), slot.into()]
    }

    pub(crate) fn taken([head, tail, lock, length, slot]: Sleeper) -> (Self, u32) {
        (Self { head, tail, lock, length: (length != 0).then_some(length) }, slot as u32)
    }
}

/// Puts `slot`, which is the calling thread's, at the end of the line, as waiting.
pub(crate) fn join_line(
    txn: &mut Txn<'_>,
    layout: &Layout,
    line: Line,
    slot: u32,
    kind: WaitKind,
    object: u32,
) -> Result<(), Fault> {
    let at = thread_at(layout, slot)?;
    // Before the change can happen: a handler may run the moment that it has.
    show_sleeper(line.shown(slot));
    let tail = txn.get(line.tail)?;
    txn.update(field!(at, ThreadSlot, next), 0)?;
    txn.update(field!(at, ThreadSlot, previous), tail)?;
    txn.update(field!(at, ThreadSlot, kind), kind as u32)?;
    txn.update(field!(at, ThreadSlot, object), object)?;
    txn.set(field!(at, ThreadSlot, wait), WaitState::Waiting as u32)?;
    if let Some(length) = line.length {
        let before = txn.get(length)?;
        txn.set(length, before.saturating_add(1))?;
    }
    if let Some(last) = tail.checked_sub(1) {
        txn.set(field!(thread_at(layout, last)?, ThreadSlot, next), slot + 1)?;
    } else {
        txn.set(line.head, slot + 1)?;
    }
    txn.set(line.tail, slot + 1)
}

/// Takes `slot` off the line and leaves it in `state`. It must be waiting: so nobody is taken off
/// twice, and whoever serves a line comes to its end even if a peer has tied it together.
pub(crate) fn leave_line(
    txn: &mut Txn<'_>,
    layout: &Layout,
    line: Line,
    slot: u32,
    state: WaitState,
    result: u32,
) -> Result<(), Fault> {
    let at = thread_at(layout, slot)?;
    if txn.get(field!(at, ThreadSlot, wait))? != WaitState::Waiting as u32 {
        return Err(Fault::corrupt(at, "a line with somebody in it who does not wait"));
    }
    let next = txn.get(field!(at, ThreadSlot, next))?;
    let previous = txn.get(field!(at, ThreadSlot, previous))?;
    match next.checked_sub(1) {
        Some(after) => {
            txn.set(field!(thread_at(layout, after)?, ThreadSlot, previous), previous)?;
        }
        None => txn.set(line.tail, previous)?,
    }
    match previous.checked_sub(1) {
        Some(before) => txn.set(field!(thread_at(layout, before)?, ThreadSlot, next), next)?,
        None => txn.set(line.head, next)?,
    }
    if let Some(length) = line.length {
        let before = txn.get(length)?;
        txn.set(length, before.saturating_sub(1))?;
    }
    txn.update(field!(at, ThreadSlot, result), result)?;
    txn.set(field!(at, ThreadSlot, wait), state as u32)
}

/// The sleepers of a line in order; ends with an error if the line has no end.
pub(crate) fn walk(
    txn: &mut Txn<'_>,
    layout: &Layout,
    line: Line,
    mut each: impl FnMut(&mut Txn<'_>, u32) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let mut next = txn.get(line.head)?;
    for _ in 0..=layout.threads.count {
        let Some(slot) = next.checked_sub(1) else {
            return Ok(());
        };
        let at = thread_at(layout, slot)?;
        // Read before `each`, which may take the sleeper off the line.
        let after = txn.get(field!(at, ThreadSlot, next))?;
        if !each(txn, slot)? {
            return Ok(());
        }
        next = after;
    }
    Err(Fault::corrupt(line.head, "a line of sleepers without an end"))
}

/// Sleepers to ring once a change has happened. More than fit are all rung.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    pub slots: arrayvec::ArrayVec<u32, 16>,
    pub everybody: bool,
}

impl Rings {
    pub fn clear(&mut self) {
        self.slots.clear();
        self.everybody = false;
    }

    pub fn add(&mut self, slot: u32) {
        if self.slots.try_push(slot).is_err() {
            self.everybody = true;
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
