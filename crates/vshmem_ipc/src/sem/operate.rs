//! semop(2) and semtimedop(2).

use std::cell::Cell;
use std::time::Duration;

use rustix::io::Errno;
use vshmem_mem::{Instant, Ordering, seconds_now, signals_handled};
use vshmem_sync::Decision::{Abandon, Commit, CommitThenFail};
use vshmem_sync::{Fault, LockContext, Polled, SlotGuard, Txn};
use vshmem_wire::{INLINE_OPS, Operation, SemSlot, SemaphoreWait, ThreadSlot, WaitKind, field};

use crate::context::Context;
use crate::error::{Failure, broken};
use crate::memory::chunks;
use crate::pool::chunk::Chunk;
use crate::pool::id::ObjectSlot;
use crate::registry::permission::Caller;
use crate::registry::table::MOST_TRIES;
use crate::sem::fast::{self, FEW};
use crate::sem::set::{self, Set};
use crate::sem::under_lock::{self, OwnRecord, Staged, blocked_at, perform, reopen};
use crate::sem::{serve, undo};
use crate::wait::sleep::{self, Woken};
use crate::wait::wait_queue::{self, WakeList, errno_of};
use crate::wait::{doorbell, waker_cpus};

/// How an attempt at the operations under the lock ended.
enum AttemptResult {
    /// They are done; `more` waiters may be able to go on.
    Done { more: bool },
    /// This thread is in the wait queue.
    Asleep,
    /// The undo record has gone.
    Again,
}

/// semop(2) and semtimedop(2).
#[inline]
pub(crate) fn semop<C: Caller>(
    context: &Context,
    id: i32,
    operations: &[Operation],
    timeout: Option<Duration>,
    caller: &C,
) -> Result<(), Failure> {
    if operations.is_empty() {
        return Err(Errno::INVAL.into());
    }
    if operations.len() > context.pool().geometry().semopm as usize {
        return Err(Errno::TOOBIG.into());
    }
    if let [operation] = operations {
        // What has been read is used only if the operation could be done.
        let object_slot = ObjectSlot::of(id).ok_or(Errno::INVAL)?;
        if let Ok(Some(set)) = Set::glimpse(context.pool(), object_slot)
            && fast::may_operate(context, &set, operations, caller).is_ok()
            && let Some(result) = fast::semop_fast(context, &set, operation)?
        {
            return Ok(result?);
        }
    } else if operations.len() <= FEW {
        let object_slot = ObjectSlot::of(id).ok_or(Errno::INVAL)?;
        if let Ok(Some(set)) = Set::glimpse(context.pool(), object_slot)
            && fast::may_operate(context, &set, operations, caller).is_ok()
            && fast::semop_array_fast(context, &set, operations)?
        {
            return Ok(());
        }
    }
    let set = set::find(context, id)?;
    fast::may_operate(context, &set, operations, caller)?;
    semop_slow(context, &set, operations, timeout)
}

#[inline(never)]
fn semop_slow(
    context: &Context,
    set: &Set,
    operations: &[Operation],
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    let signals_seen = signals_handled();
    let deadline = timeout.map(|span| Instant::now().after(span));
    let spun = match operations {
        [operation] => await_word(context, set, *operation, timeout, signals_seen)?,
        _ => Spun::NotAtAll,
    };
    if spun == Spun::Done {
        return Ok(());
    }
    let has_spun = spun == Spun::InVain;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let wants_undo = operations.iter().any(|operation| operation.undo);
    let long = if operations.len() > INLINE_OPS {
        Some(chunks::take(context, &lock_context, operations.len() as u64 * 8)?)
    } else {
        None
    };
    let call = Call {
        context,
        set,
        operations,
        wants_undo,
        long,
        deadline,
        signals_seen,
        slot_guard: &slot_guard,
        writes: Cell::new(0),
    };
    let result = semop_until(&call, has_spun);
    let done = if result.is_ok() { semaphores_of(operations) } else { 0 };
    let other_writes = call.writes.get().wrapping_sub(done);
    if other_writes != 0 {
        set.count_other_writes(context.pool().map(), other_writes);
    }
    if let Some(chunk) = long {
        let _ = chunks::release(context, &lock_context, chunk);
    }
    result
}

/// What came of spinning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spun {
    /// The operation is done.
    Done,
    /// It has to wait in the wait queue.
    InVain,
    /// The same, and this thread has not spun.
    NotAtAll,
}

/// Spins for a while until the operation can be done: a hand-over that takes no lock.
///
/// The thread watches the semaphore's word and does the operation itself, by the fast path, the
/// moment that it can be done. No thread knows of such a waiter: it is in no wait queue and GETNCNT
/// does not count it, as if it had not called yet. So it spins for some tens of microseconds only
/// (`vshmem_sync::Spin`), and not at all where another thread is in the wait queue already (the
/// fast path is closed then): it comes after them.
///
/// Spinning only reads the pool. A thread that is killed between two polls leaves nothing behind,
/// as if it had not called. So there is no crash point and no model here: the fast path
/// (`vshmem_sync::Semaphore`) and the wait queue (`wait/`) have theirs.
#[cold]
fn await_word(
    context: &Context,
    set: &Set,
    operation: Operation,
    timeout: Option<Duration>,
    signals_seen: u32,
) -> Result<Spun, Failure> {
    /// A shorter timeout may be over before the spin is.
    const LEAST_TIMEOUT: Duration = Duration::from_millis(2);
    let is_short = timeout.is_some_and(|span| span < LEAST_TIMEOUT);
    // The record that is needed for the fast path is made under the lock.
    let has_way = !operation.undo || undo::known_undo_record(context, set)?.is_some();
    if operation.no_wait || is_short || !has_way {
        return Ok(Spun::NotAtAll);
    }
    let semaphore = set.semaphore(context.pool(), operation.number.into())?;
    // A thread is in the wait queue: this operation comes after it, or is what it waits for.
    if semaphore.is_closed()? {
        return Ok(Spun::NotAtAll);
    }
    let mut look = context.spin.begin(waker_cpus::waker_cpu(context), Polled::Word);
    let (mut seen, mut spun) = (None, Spun::NotAtAll);
    while !look.pause_or_end() && signals_handled() == signals_seen {
        let word = semaphore.peek()?;
        if seen == Some(word) {
            continue;
        }
        seen = Some(word);
        if let Some(result) = fast::semop_fast(context, set, &operation)? {
            look.succeed();
            result?;
            return Ok(Spun::Done);
        }
        if semaphore.is_closed()? {
            break;
        }
        spun = Spun::InVain;
    }
    Ok(spun)
}

/// How many semaphores operations are on: so much do their tags count what is done without the
/// lock.
fn semaphores_of(operations: &[Operation]) -> u64 {
    let is_first = |nth: usize, number| operations[..nth].iter().all(|one| one.number != number);
    let semaphores = operations.iter().enumerate();
    semaphores.filter(|(nth, one)| is_first(*nth, one.number)).count() as u64
}

/// One call's worth of state.
struct Call<'a> {
    context: &'a Context,
    set: &'a Set,
    operations: &'a [Operation],
    wants_undo: bool,
    /// Room for more operations than a thread slot has.
    long: Option<Chunk>,
    deadline: Option<Instant>,
    signals_seen: u32,
    slot_guard: &'a SlotGuard<'a>,
    /// Semaphores that this call has written under the lock, also on behalf of waiters, who count
    /// their own operations.
    writes: Cell<u64>,
}

/// What an attempt under the lock needs.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// What the call returns when the set has gone.
    gone: Errno,
    /// What the call returns in place of a sleep: the pool has no thread slot for that; or a signal
    /// handler has run, or the time is over, since the call began. Without the latter a hostile
    /// member could wake it to retry for ever.
    over: Option<Errno>,
}

fn semop_until(call: &Call<'_>, mut has_spun: bool) -> Result<(), Failure> {
    // A thread that has spun has waited already, for others to see.
    let gone = if has_spun { Errno::IDRM } else { Errno::INVAL };
    let is_interrupted = has_spun && signals_handled() != call.signals_seen;
    let no_slot = (!call.slot_guard.may_sleep()).then_some(Errno::NOMEM);
    let over = if is_interrupted { Some(Errno::INTR) } else { no_slot };
    let mut attempt = Attempt { gone, over };
    let mut records = 0;
    loop {
        // Looked up each time: it may have been given up, with all adjustments of this process, by
        // a thread that exits.
        let record = if call.wants_undo {
            records += 1;
            Some(own_record(call, attempt.gone)?)
        } else {
            None
        };
        match try_under_lock(call, record, attempt)? {
            AttemptResult::Done { .. } => return Ok(()),
            AttemptResult::Again if records < MOST_TRIES => continue,
            AttemptResult::Again => {
                let what = "an undo record that does not stay";
                return Err(Fault::corrupt(call.set.slot, what).into());
            }
            AttemptResult::Asleep => {}
        }
        match sleep_at_set(call, has_spun)? {
            Woken::Done(0) => return Ok(()),
            Woken::Done(errno) => return Err(errno_of(errno).into()),
            Woken::TimedOut => return Err(Errno::AGAIN.into()),
            Woken::Interrupted => return Err(Errno::INTR.into()),
            Woken::Retry => attempt.gone = Errno::IDRM,
        }
        has_spun = false;
        if signals_handled() != call.signals_seen {
            attempt.over = Some(Errno::INTR);
        } else if call.deadline.is_some_and(|end| end.remaining(Instant::now()).is_zero()) {
            attempt.over = Some(Errno::AGAIN);
        }
    }
}

/// This process's undo record of the set.
fn own_record(call: &Call<'_>, gone: Errno) -> Result<OwnRecord, Failure> {
    let lock_context = call.context.lock_context_of(call.slot_guard);
    let found = undo::undo_record(call.context, &lock_context, call.set);
    let gone = |failure| match failure {
        Failure::Errno(Errno::IDRM) => Failure::Errno(gone),
        other => other,
    };
    Ok(OwnRecord { record: found.map_err(gone)?, client: call.context.client_id() })
}

/// Does the operations under the lock, or enters the wait queue.
fn try_under_lock(
    call: &Call<'_>,
    record: Option<OwnRecord>,
    attempt: Attempt,
) -> Result<AttemptResult, Failure> {
    let Call { context, set, operations, .. } = *call;
    let (pool, lock_context) = (context.pool(), context.lock_context_of(call.slot_guard));
    let process_ref = context.process_ref().pack();
    let mut wakes = WakeList::default();
    let mut writes = call.writes.get();
    let step = set.decide_counting(context, &lock_context, "semop", &mut writes, |txn| {
        wakes.clear();
        if !set.alive(txn)? {
            return Ok(Abandon(attempt.gone));
        }
        match perform(txn, pool, set, operations, record, process_ref)? {
            Staged::NoRecord => Ok(Commit(AttemptResult::Again)),
            Staged::Fails(errno) => {
                reopen(txn, set, operations)?;
                Ok(CommitThenFail(errno))
            }
            Staged::Done => {
                txn.update(field!(set.slot, SemSlot, header.operated), seconds_now())?;
                let more = under_lock::serve(txn, pool, set, &mut wakes)?;
                reopen(txn, set, operations)?;
                Ok(Commit(AttemptResult::Done { more }))
            }
            Staged::Blocks(_) if attempt.over.is_some() => {
                reopen(txn, set, operations)?;
                Ok(CommitThenFail(attempt.over.unwrap_or(Errno::AGAIN)))
            }
            Staged::Blocks(index) => {
                enqueue_self(call, txn, index, record.map(|own| own.record))?;
                Ok(Commit(AttemptResult::Asleep))
            }
        }
    });
    call.writes.set(writes);
    let step = step?;
    if let AttemptResult::Done { more } = step {
        doorbell::wake_listed(context, &wakes);
        if more {
            serve::serve_rest(context, &lock_context, set)?;
        }
    }
    Ok(step)
}

/// Sleeps in the wait queue of the set.
fn sleep_at_set(call: &Call<'_>, has_spun: bool) -> Result<Woken, Failure> {
    let Call { context, set, deadline, signals_seen, slot_guard, .. } = *call;
    let lock_context = context.lock_context_of(slot_guard);
    // A thread may have died after it changed the set and before it served the waiters: this does
    // the rest.
    let recover = || serve::recover_set(context, &lock_context, set).map_err(broken(set.slot));
    let wait_queue = set.wait_queue();
    let woken = sleep::sleep_in_wait_queue(
        context,
        slot_guard,
        wait_queue,
        has_spun,
        deadline,
        signals_seen,
        recover,
    )?;
    if matches!(woken, Woken::TimedOut | Woken::Interrupted) {
        reopen_all(context, &lock_context, set, call.operations)?;
    }
    Ok(woken)
}

/// Writes down what this waiter waits for, and stages its place in the wait queue.
fn enqueue_self(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    blocked: usize,
    record: Option<u32>,
) -> Result<(), Fault> {
    let Call { context, set, operations, long, .. } = *call;
    let slot = call.slot_guard.slot;
    let layout = context.pool().layout();
    let map = txn.lock_context().map;
    let at = layout.threads.row(slot)?;
    // Plain words: no thread reads them before the slot is in a wait queue.
    map.store(
        field!(at.semaphore_wait(), SemaphoreWait, count),
        operations.len() as u64,
        Ordering::Relaxed,
    )?;
    let record = record.map_or(0, |record| u64::from(record) + 1);
    map.store(field!(at.semaphore_wait(), SemaphoreWait, undo), record, Ordering::Relaxed)?;
    let base = match long {
        Some(chunk) => chunk.place(layout)?,
        None => field!(at.semaphore_wait(), SemaphoreWait, operations).first(),
    };
    let sequence = u64::from(set.sequence);
    map.store(
        field!(at.semaphore_wait(), SemaphoreWait, set_sequence),
        sequence,
        Ordering::Relaxed,
    )?;
    for (index, operation) in operations.iter().enumerate() {
        map.store(base.nth(index as u64), operation.pack(), Ordering::Relaxed)?;
    }
    txn.update(field!(at, ThreadSlot, blocked), blocked_at(operations[blocked]))?;
    txn.update(field!(at, ThreadSlot, process_ref), context.process_ref().pack())?;
    let mixed = field!(set.slot, SemSlot, mixed);
    let takes_one = operations.len() == 1 && operations[0].change < 0;
    if !takes_one {
        txn.update(mixed, 1)?;
    } else if txn.get(field!(set.slot, SemSlot, waiting))? == 0 {
        txn.update(mixed, 0)?;
    }
    let wait_queue = set.wait_queue();
    wait_queue::enqueue(txn, layout, wait_queue, call.slot_guard, WaitKind::Semaphore, set.index)
}

/// Opens the fast path again after a waiter has left, if it was the last one.
fn reopen_all(
    context: &Context,
    lock_context: &LockContext<'_>,
    set: &Set,
    operations: &[Operation],
) -> Result<(), Failure> {
    set.change(context, lock_context, "semop-reopen", |txn| {
        if set.alive(txn)? {
            reopen(txn, set, operations)?;
        }
        Ok(())
    })
}
