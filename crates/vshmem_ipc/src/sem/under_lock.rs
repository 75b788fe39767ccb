//! A set under its lock: changes, arrays of operations (trying them and doing them), and those of
//! waiters.

use rustix::io::Errno;
use vshmem_mem::{Map, Ordering, seconds_now};
use vshmem_sync::{Decision, Fault, LockContext, Txn};
use vshmem_wire::{
    Adjustment, Cell, ClientId, INLINE_OPS, ObjectState, Operation, Place, RawCell, SemSlot,
    SemWord, SemaphoreWait, ThreadSlot, WaitState, field,
};

use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::memory::change;
use crate::pool::open::Pool;
use crate::registry::table::SlotState;
use crate::sem::set::Set;
use crate::sem::undo;
use crate::wait::wait_queue::{self, WakeList, result_of};

impl Set {
    /// Runs a change under the set's lock, and counts the semaphores that it writes.
    pub(super) fn change<'a, T>(
        &self,
        context: &'a Context,
        lock_context: &LockContext<'a>,
        name: &'static str,
        mut body: impl FnMut(&mut Txn<'a>) -> Result<T, Fault>,
    ) -> Result<T, Failure> {
        self.decide(context, lock_context, name, |txn| body(txn).map(Decision::Commit))
    }

    /// As [`Set::change`], for a change that may be refused.
    pub(super) fn decide<'a, T>(
        &self,
        context: &'a Context,
        lock_context: &LockContext<'a>,
        name: &'static str,
        body: impl FnMut(&mut Txn<'a>) -> ChangeResult<T>,
    ) -> Result<T, Failure> {
        let mut writes = 0;
        let done = self.decide_counting(context, lock_context, name, &mut writes, body);
        if writes != 0 {
            self.count_other_writes(context.pool().map(), writes);
        }
        done
    }

    /// As [`Set::decide`]; adds what it writes to `writes`.
    pub(super) fn decide_counting<'a, T>(
        &self,
        context: &'a Context,
        lock_context: &LockContext<'a>,
        name: &'static str,
        writes: &mut u64,
        mut body: impl FnMut(&mut Txn<'a>) -> ChangeResult<T>,
    ) -> Result<T, Failure> {
        let semaphores = self.words..self.words.nth(self.count.into());
        let (mut aside, mut staged) = (0, 0);
        let done = change::decide(context, lock_context, self.lock(), name, |txn| {
            let decision = body(txn);
            // Closing is no part of the change: it stays, also where the change is begun again.
            aside += txn.take_written_aside();
            let commits = decision.as_ref().is_ok_and(Decision::commits);
            staged = if commits { txn.writes_within(semaphores.clone()) } else { 0 };
            decision
        });
        // With a fault it was not committed after all.
        let is_committed = !matches!(done, Err(Failure::Fault(_)));
        *writes += aside + if is_committed { staged } else { 0 };
        done
    }

    /// Whether the set is still there; under its lock.
    pub fn alive(&self, txn: &mut Txn<'_>) -> Result<bool, Fault> {
        let value = txn.get(field!(self.slot, SemSlot, header.state))?;
        Ok(SlotState::unpack(value) == self.state_word(ObjectState::Live))
    }

    /// Closes the fast path to a semaphore and returns its cell as this change sees it.
    pub(super) fn close(
        &self,
        txn: &mut Txn<'_>,
        pool: &Pool,
        number: u32,
    ) -> Result<(Place<RawCell>, Cell), Fault> {
        let at = self.word(number)?;
        let cell = txn.cell(at)?;
        if SemWord::unpack(cell.word).slow {
            return Ok((at, cell));
        }
        // What is staged over a semaphore keeps it closed, unless a peer has laid something
        // else into the same memory.
        if txn.has_written(at) {
            return Err(Fault::corrupt(at, "a semaphore where something else lies"));
        }
        let (closed, has_written) = self.semaphore(pool, number)?.close_uncounted()?;
        if has_written {
            txn.note_written_aside();
        }
        Ok((at, closed))
    }

    /// Stages a new word over one that was closed before.
    pub(super) fn write(
        &self,
        txn: &mut Txn<'_>,
        at: Place<RawCell>,
        cell: Cell,
        value: u32,
        process_ref: u32,
    ) -> Result<(), Fault> {
        // The word stays closed in the staged copy; [`reopen`] decides at the end of
        // the change.
        txn.replace(at, cell, SemWord::of(value, process_ref, true).pack())
    }
}

/// What an array of operations would do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Staged {
    /// All of them can be done.
    Done,
    /// Operation number so-and-so has to wait.
    Blocks(usize),
    /// They never can.
    Fails(Errno),
    /// The undo record no longer belongs to the client that asked for the operations.
    NoRecord,
}

/// Values that an array of operations has read or computed, before any is written.
struct Values {
    few: arrayvec::ArrayVec<(u16, i32), 16>,
    many: Option<vshmem_mem::Scratch<u64>>,
    used: usize,
}

impl Values {
    fn new(operations: usize) -> Result<Self, Fault> {
        let many = if operations > 16 {
            Some(vshmem_mem::Scratch::new(operations).ok_or(Fault::TooLong)?)
        } else {
            None
        };
        Ok(Self { few: arrayvec::ArrayVec::new(), many, used: 0 })
    }

    fn get(&mut self, number: u16) -> Option<i32> {
        match &mut self.many {
            None => self.few.iter().find(|(n, _)| *n == number).map(|(_, value)| *value),
            Some(many) => many.values()[..self.used]
                .iter()
                .find(|word| (**word >> 32) as u16 == number)
                .map(|word| *word as u32 as i32),
        }
    }

    fn put(&mut self, number: u16, value: i32) {
        match &mut self.many {
            None => match self.few.iter_mut().find(|(n, _)| *n == number) {
                Some(known) => known.1 = value,
                None => self.few.push((number, value)),
            },
            Some(many) => {
                let packed = u64::from(number) << 32 | u64::from(value as u32);
                let known = many.values()[..self.used]
                    .iter()
                    .position(|word| (*word >> 32) as u16 == number);
                let at = known.unwrap_or(self.used);
                many.values()[at] = packed;
                self.used = self.used.max(at + 1);
            }
        }
    }
}

/// A private copy of a waiter's operations, which are known to be few.
pub(super) fn operations_of(
    map: &Map,
    thread: Place<ThreadSlot>,
    count: u64,
) -> Result<arrayvec::ArrayVec<Operation, INLINE_OPS>, Fault> {
    (0..count.min(INLINE_OPS as u64))
        .map(|nth| {
            let word = map.load(
                field!(thread.semaphore_wait(), SemaphoreWait, operations).element(nth),
                Ordering::Relaxed,
            )?;
            Ok(Operation::unpack(word))
        })
        .collect()
}

/// The undo record of the client that asked for the operations.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnRecord {
    pub record: u32,
    /// Its owner.
    pub client: ClientId,
}

/// Tries operations on a set and stages them if all can be done.
pub(super) fn perform(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    operations: &[Operation],
    record: Option<OwnRecord>,
    process_ref: u32,
) -> Result<Staged, Fault> {
    let highest = pool.geometry().semvmx as i32;
    let mut values = Values::new(operations.len())?;
    let mut totals = Values::new(if record.is_some() { operations.len() } else { 0 })?;
    let mut adjustments = None;
    if let Some(OwnRecord { record, client }) = record {
        if !undo::belongs(txn, pool.layout(), set, record, client)? {
            return Ok(Staged::NoRecord);
        }
        adjustments = Some((record, undo::adjustments(txn, pool.layout(), record)?));
    }
    for (index, operation) in operations.iter().enumerate() {
        let value = match values.get(operation.number) {
            Some(value) => value,
            None => {
                let (_, cell) = set.close(txn, pool, operation.number.into())?;
                SemWord::unpack(cell.word).value as i32
            }
        };
        let blocked =
            if operation.no_wait { Staged::Fails(Errno::AGAIN) } else { Staged::Blocks(index) };
        let change = i32::from(operation.change);
        if (change == 0 && value != 0) || value + change < 0 {
            return Ok(blocked);
        }
        if value + change > highest {
            return Ok(Staged::Fails(Errno::RANGE));
        }
        // In the kernel's order: an adjustment that leaves its range counts before whatever comes
        // later in the array.
        if let Some((record, base)) = adjustments
            && operation.undo
            && change != 0
        {
            let known = match totals.get(operation.number) {
                Some(total) => total,
                None => {
                    let (_, cell) = undo::close(txn, pool, set, record, base, operation.number)?;
                    Adjustment::unpack(cell.word).total.into()
                }
            };
            if i16::try_from(known - change).is_err() {
                return Ok(Staged::Fails(Errno::RANGE));
            }
            totals.put(operation.number, known - change);
        }
        values.put(operation.number, value + change);
    }
    // Nothing is written before all of them are known to be possible.
    let mut wanted = PendingValues { values, totals, adjustments };
    stage(txn, pool, set, operations, &mut wanted, process_ref)?;
    Ok(Staged::Done)
}

/// What operations come to, before any of it is written.
struct PendingValues {
    values: Values,
    totals: Values,
    /// The undo record, and where its adjustments lie.
    adjustments: Option<(u32, Place<RawCell>)>,
}

/// Stages what operations come to that can all be done.
fn stage(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    operations: &[Operation],
    wanted: &mut PendingValues,
    process_ref: u32,
) -> Result<(), Fault> {
    let PendingValues { values, totals, adjustments } = wanted;
    if let Some((record, base)) = *adjustments {
        for operation in operations.iter().filter(|one| one.undo && one.change != 0) {
            if let Some(total) = totals.get(operation.number) {
                let (at, cell) = undo::close(txn, pool, set, record, base, operation.number)?;
                txn.replace(at, cell, Adjustment::of(total as i16, false).pack())?;
            }
        }
    }
    for operation in operations {
        let number = operation.number;
        let value = values.get(number).unwrap_or(0);
        let (at, cell) = set.close(txn, pool, number.into())?;
        let word = SemWord::unpack(cell.word);
        if word.value != value as u32 || word.operator != process_ref {
            set.write(txn, at, cell, value as u32, process_ref)?;
        }
    }
    Ok(())
}

/// Opens the fast path again on the words that this change has closed, if no thread sleeps.
pub(super) fn reopen(txn: &mut Txn<'_>, set: &Set, operations: &[Operation]) -> Result<(), Fault> {
    if txn.get(field!(set.slot, SemSlot, waiting))? != 0 {
        return Ok(());
    }
    for operation in operations {
        let at = set.word(operation.number.into())?;
        let cell = txn.cell(at)?;
        let word = SemWord::unpack(cell.word);
        if word.slow {
            txn.replace(at, cell, SemWord { slow: false, ..word }.pack())?;
        }
    }
    Ok(())
}

/// One walk over the waiters of a set.
#[derive(Debug, Default)]
struct Walk {
    /// The record is full, and there may be more to do.
    more: bool,
    /// The wait queue has to be walked again from its head.
    again: bool,
    /// A waiter has been passed over that waits for a zero.
    zero_awaited: bool,
    /// A waiter with several operations has been passed over. One that is served after it may
    /// change which of them blocks, and so at which semaphore the waiter is counted.
    several_passed: bool,
    recount: bool,
}

/// Does the work of waiters that can go on now, in the order of their arrival, and stamps the set
/// when it has done any. True when the record is full and there may be more to do.
pub(super) fn serve(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    wakes: &mut WakeList,
) -> Result<bool, Fault> {
    let layout = pool.layout();
    if txn.get(field!(set.slot, SemSlot, waiting))? == 0 {
        return Ok(false);
    }
    // All of them take from the one semaphore there is: a zero ends the work.
    let alike = set.count == 1 && txn.get(field!(set.slot, SemSlot, mixed))? == 0;
    loop {
        let mut walk = Walk::default();
        wait_queue::walk(txn, layout, set.wait_queue(), |txn, slot| {
            let at = layout.threads.row(slot)?;
            let count = txn
                .lock_context()
                .map
                .load(field!(at.semaphore_wait(), SemaphoreWait, count), Ordering::Relaxed)?;
            if count == 1
                && let Some((operation, value)) = still_blocked(txn, set, at)?
            {
                walk.zero_awaited |= operation.change == 0;
                return Ok(value != 0 || !alike);
            }
            // Too many to do on its behalf: it does them itself, if it can.
            let too_many = count > INLINE_OPS as u64;
            // Leaving the wait queue takes up to seven words, the set's stamp one, every operation
            // up to two.
            if txn.remaining_entries() < if too_many { 8 } else { 8 + 2 * count as usize } {
                walk.more = true;
                return Ok(false);
            }
            let outcome = match too_many {
                true => Some((WaitState::Retry, 0)),
                false => operate_for(txn, pool, set, at, count, &mut walk)?,
            };
            let Some((state, result)) = outcome else { return Ok(true) };
            wait_queue::dequeue(txn, layout, set.wait_queue(), slot, state, result)?;
            wakes.add(slot);
            Ok(!walk.again)
        })?;
        if walk.more || !(walk.again || walk.recount) {
            return Ok(walk.more);
        }
    }
}

/// Does the operations of the waiter in the thread slot at `at`, if that can be: how its sleep
/// ends, or `None` when it goes on.
fn operate_for(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    at: Place<ThreadSlot>,
    count: u64,
    walk: &mut Walk,
) -> Result<Option<(WaitState, u32)>, Fault> {
    let operations = operations_of(txn.lock_context().map, at, count)?;
    let record = txn
        .lock_context()
        .map
        .load(field!(at.semaphore_wait(), SemaphoreWait, undo), Ordering::Relaxed)?;
    let client = ClientId::of(txn.get_word(field!(at, ThreadSlot, owner))?);
    let record = client
        .zip((record as u32).checked_sub(1))
        .map(|(client, record)| OwnRecord { record, client });
    let process_ref = txn.get(field!(at, ThreadSlot, process_ref))?;
    if operations.iter().any(|one| u32::from(one.number) >= set.count) {
        return Err(Fault::corrupt(at, "a waiter at no semaphore"));
    }
    Ok(match perform(txn, pool, set, &operations, record, process_ref)? {
        Staged::Blocks(index) => {
            let operation = operations[index];
            walk.zero_awaited |= operation.change == 0;
            txn.update(field!(at, ThreadSlot, blocked), blocked_at(operation))?;
            walk.several_passed |= count > 1;
            None
        }
        Staged::Fails(errno) => Some((WaitState::Done, result_of(errno))),
        Staged::NoRecord => Some((WaitState::Retry, 0)),
        Staged::Done => {
            txn.update(field!(set.slot, SemSlot, header.operated), seconds_now())?;
            walk.again = helps_earlier(&operations, walk.zero_awaited);
            walk.recount |= walk.several_passed;
            Some((WaitState::Done, 0))
        }
    })
}

/// Whether operations that have just been done may let a waiter continue that was passed over
/// before: a higher value helps one that lowers it, a lower value only one that waits for zero.
/// (ipc/sem.c of Linux asks the same, in `check_restart`.)
fn helps_earlier(operations: &[Operation], zero_awaited: bool) -> bool {
    operations.iter().any(|one| one.change > 0 || (one.change < 0 && zero_awaited))
}

/// The operation of a waiter that has only one, and the semaphore's value, if it has to go on
/// waiting as far as a short look shows: most of a long wait queue do.
fn still_blocked(
    txn: &mut Txn<'_>,
    set: &Set,
    thread: Place<ThreadSlot>,
) -> Result<Option<(Operation, u32)>, Fault> {
    let word = txn.lock_context().map.load(
        field!(thread.semaphore_wait(), SemaphoreWait, operations).first(),
        Ordering::Relaxed,
    )?;
    let operation = Operation::unpack(word);
    if u32::from(operation.number) >= set.count {
        return Ok(None);
    }
    let word = SemWord::unpack(txn.get_word(set.word(operation.number.into())?)?);
    let left = word.value as i32 + i32::from(operation.change);
    let blocks = left < 0 || (operation.change == 0 && left != 0);
    let stays = word.slow && blocks && !operation.no_wait;
    Ok(stays.then_some((operation, word.value)))
}

/// What a waiter is counted under by GETNCNT and GETZCNT.
pub(super) fn blocked_at(operation: Operation) -> u32 {
    u32::from(operation.number) | u32::from(operation.change == 0) << 31
}
