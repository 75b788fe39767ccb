//! semop(2) and semtimedop(2).

use super::Operation;
use super::array::{OwnRecord, Trial, blocked_at, perform, reopen, serve};
use super::await_word::Looked;
use super::set::Set;
use crate::access::{Caller, Permission, READ, WRITE};
use crate::heap::{self, Chunk};
use crate::id::Place;
use crate::registry::{self, MOST_TRIES};
use crate::wait::{self, Rings, Woken, errno_of, thread_at};
use crate::{Errno, Member, settle};
use std::time::Duration;
use vshmem_mem::{Instant, Map, Ordering, seconds_now, signals_handled};
use vshmem_sync::{Desk, Fault, Operated, Seat, SemaphoreArray, Txn, field, load_value};
use vshmem_wire::{
    CELL_BYTES, INLINE_OPS, ObjectHeader, ObjectState, SemSlot, ThreadSlot, WaitKind,
};

/// Operations that are tried without the lock, at most.
const FEW: usize = 8;

/// Writes down when the set was operated on. Not part of the step: a clock of whole seconds, whoever writes it last.
#[inline(always)]
fn stamp(map: &Map, set: &Set) -> Result<(), Fault> {
    let stamp = field!(set.slot, ObjectHeader, used);
    let now = seconds_now();
    let before = load_value(map, stamp)?;
    if before != now {
        vshmem_sync::claim_cell(map, stamp, before, now)?;
    }
    Ok(())
}

/// How a try to do operations under the lock ended.
enum Step {
    /// They are done; `more` sleepers may be able to go on.
    Done { more: bool },
    /// This thread is in line.
    Asleep,
    /// The undo record has gone.
    Again,
}

impl Member {
    /// semop(2) and semtimedop(2).
    ///
    /// # Errors
    /// As the man page says.
    #[inline]
    pub fn semop<C: Caller>(
        &self,
        id: i32,
        operations: &[Operation],
        timeout: Option<Duration>,
        caller: &C,
    ) -> Result<(), Errno> {
        if operations.is_empty() {
            return Err(Errno::INVAL);
        }
        if operations.len() > self.pool().geometry().semopm as usize {
            return Err(Errno::TOOBIG);
        }
        if let [operation] = operations {
            // What has been seen is believed only if the operation could be done.
            let place = Place::of(id).ok_or(Errno::INVAL)?;
            if let Ok(Some(set)) = Set::glimpse(self.pool(), place)
                && self.may_operate(&set, operations, caller).is_ok()
                && let Some(result) = settle(self.semop_fast(&set, operation).map(Ok))?
            {
                return result;
            }
        } else if operations.len() <= FEW {
            let place = Place::of(id).ok_or(Errno::INVAL)?;
            if let Ok(Some(set)) = Set::glimpse(self.pool(), place)
                && self.may_operate(&set, operations, caller).is_ok()
                && settle(self.semop_array_fast(&set, operations).map(Ok))?
            {
                return Ok(());
            }
        }
        let set = self.set(id)?;
        self.may_operate(&set, operations, caller)?;
        self.semop_slow(&set, operations, timeout)
    }

    /// Whether there are these semaphores, and the caller may operate on them.
    #[inline(always)]
    fn may_operate<C: Caller>(
        &self,
        set: &Set,
        operations: &[Operation],
        caller: &C,
    ) -> Result<(), Errno> {
        if operations.iter().any(|operation| u32::from(operation.number) >= set.count) {
            return Err(Errno::FBIG);
        }
        let alters = operations.iter().any(|operation| operation.change != 0);
        let wanted = if alters { WRITE } else { READ };
        settle(Permission::check(self.pool().map(), set.slot, caller, wanted))
    }

    /// Without the lock, if that will do. `None`: it will not.
    #[inline(always)]
    pub(super) fn semop_fast(
        &self,
        set: &Set,
        operation: &Operation,
    ) -> Result<Option<Result<(), Errno>>, Fault> {
        let pool = self.pool();
        let map = pool.map();
        let operated = if operation.undo && operation.change != 0 {
            self.operate_undoable(set, operation.number.into(), operation.change)?
        } else {
            let semaphore = set.semaphore(pool, operation.number.into())?;
            // Looked at after the cells, so that they were the set's when they were read: memory that
            // has become something else since refuses the swap by its tag. What cannot be read does not stand: the slow way says why.
            let stands = || Ok(self.stands() && set.stands_in(map).unwrap_or(false));
            let highest = pool.geometry().semvmx;
            semaphore.operate(operation.change, highest, self.party().pack(), stands)?
        };
        match operated {
            Operated::Done => {}
            Operated::Blocks => return Ok(operation.no_wait.then_some(Err(Errno::AGAIN))),
            Operated::TooHigh => return Ok(Some(Err(Errno::RANGE))),
            Operated::Closed => return Ok(None),
        }
        stamp(map, set)?;
        Ok(Some(Ok(())))
    }

    /// One operation with SEM_UNDO, without the lock. One function for all who try one, so that what it asks between its reads and
    /// its swaps is asked in place.
    #[inline(never)]
    fn operate_undoable(&self, set: &Set, number: u32, change: i16) -> Result<Operated, Fault> {
        let pool = self.pool();
        let map = pool.map();
        let semaphore = set.semaphore(pool, number)?;
        let Some(known) = self.known_undo_record(set)? else { return Ok(Operated::Closed) };
        let me = self.me();
        let at = known.base + u64::from(number) * CELL_BYTES;
        // As for an operation without SEM_UNDO.
        let stands = || {
            let is_there = self.stands() && set.stands_in(map).unwrap_or(false);
            Ok(is_there && known.is_of(me, set))
        };
        semaphore.operate_undoable(change, pool.geometry().semvmx, known.record, at, stands)
    }

    /// Several operations without the lock. False: that will not do.
    #[inline]
    fn semop_array_fast(&self, set: &Set, operations: &[Operation]) -> Result<bool, Fault> {
        let pool = self.pool();
        let map = pool.map();
        let mut wanted = arrayvec::ArrayVec::<(u16, i16), FEW>::new();
        for operation in operations {
            // An adjustment for each as well: that is what the lock is for.
            if operation.undo && operation.change != 0 {
                return Ok(false);
            }
            wanted.push((operation.number, operation.change));
        }
        let array = SemaphoreArray {
            map,
            at: field!(set.slot, SemSlot, array),
            find: |number| set.semaphore(pool, number),
        };
        let stands = || Ok(self.stands() && set.stands_in(map).unwrap_or(false));
        let highest = pool.geometry().semvmx;
        let operated = array.operate(&wanted, highest, self.party().pack(), stands)?;
        if operated != Operated::Done {
            return Ok(false);
        }
        stamp(map, set)?;
        Ok(true)
    }

    #[inline(never)]
    fn semop_slow(
        &self,
        set: &Set,
        operations: &[Operation],
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        let signals_seen = signals_handled();
        let deadline = timeout.map(|span| Instant::now().after(span));
        let looked = match operations {
            [operation] => settle(self.await_word(set, *operation, timeout, signals_seen))?,
            _ => Looked::NotAtAll,
        };
        if looked == Looked::Done {
            return Ok(());
        }
        let has_looked = looked == Looked::InVain;
        let pool = self.pool();
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let wants_undo = operations.iter().any(|operation| operation.undo);
        let long = if operations.len() > INLINE_OPS {
            Some(self.take_chunk(&desk, operations.len() as u64 * 8)?)
        } else {
            None
        };
        let result = self.semop_until(
            set,
            operations,
            wants_undo,
            long,
            deadline,
            signals_seen,
            has_looked,
            &seat,
        );
        if let Some(chunk) = long {
            let _ = heap::release(pool, &desk, &self.larder, self.me(), chunk);
        }
        result
    }

    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn semop_until(
        &self,
        set: &Set,
        operations: &[Operation],
        wants_undo: bool,
        long: Option<Chunk>,
        deadline: Option<Instant>,
        signals_seen: u32,
        mut has_looked: bool,
        seat: &Seat<'_>,
    ) -> Result<(), Errno> {
        let pool = self.pool();
        let desk = self.desk_of(seat);
        let party = self.party().pack();
        // Who has looked has waited already, for others to see.
        let mut gone = if has_looked { Errno::IDRM } else { Errno::INVAL };
        // Why this call does not sleep again: a peer may keep on sending it to try again.
        let mut over = (has_looked && signals_handled() != signals_seen).then_some(Errno::INTR);
        let mut records = 0;
        loop {
            // Looked up each time: it may have been given up, with all adjustments of this process, by a thread that exits.
            let record = if wants_undo {
                records += 1;
                let found = self.undo_record(&desk, set);
                let gone = |errno| if errno == Errno::IDRM { gone } else { errno };
                Some(OwnRecord { record: found.map_err(gone)?, client: self.me() })
            } else {
                None
            };
            let mut rings = Rings::default();
            let step = self.change(&desk, set.lock(), "semop", |txn| {
                rings.clear();
                if !set.alive(txn)? {
                    return Ok(Err(gone));
                }
                match perform(txn, pool, set, operations, record, party)? {
                    Trial::NoRecord => Ok(Ok(Step::Again)),
                    Trial::Fails(errno) => {
                        reopen(txn, set, operations)?;
                        Ok(Err(errno))
                    }
                    Trial::Done => {
                        txn.update(field!(set.slot, ObjectHeader, used), seconds_now())?;
                        let more = serve(txn, pool, set, &mut rings)?;
                        reopen(txn, set, operations)?;
                        Ok(Ok(Step::Done { more }))
                    }
                    Trial::Blocks(_) if over.is_some() => {
                        reopen(txn, set, operations)?;
                        Ok(Err(over.unwrap_or(Errno::AGAIN)))
                    }
                    Trial::Blocks(index) => {
                        let record = record.map(|own| own.record);
                        self.lie_down(txn, set, operations, index, record, long, seat.slot)?;
                        Ok(Ok(Step::Asleep))
                    }
                }
            });
            match settle(step)? {
                Step::Done { more } => {
                    self.ring_all(&rings);
                    if more {
                        self.serve_rest(&desk, set)?;
                    }
                    return Ok(());
                }
                Step::Again if records < MOST_TRIES => continue,
                Step::Again => return Err(Errno::IO),
                Step::Asleep => {}
            }
            // Whoever dies between changing the set and serving its sleepers is made up for here.
            let tend = || match self.tend_set(&desk, set) {
                Ok(()) => Ok(()),
                Err(_) => Err(Fault::corrupt(set.slot, "a set that cannot be served")),
            };
            let line = set.line();
            let slept = self.sleep_in_line(seat, line, has_looked, deadline, signals_seen, tend);
            has_looked = false;
            let woken = settle(slept.map(Ok))?;
            if matches!(woken, Woken::TimedOut | Woken::Interrupted) {
                self.reopen_all(&desk, set, operations)?;
            }
            match woken {
                Woken::Done(0) => return Ok(()),
                Woken::Done(errno) => return Err(errno_of(errno)),
                Woken::TimedOut => return Err(Errno::AGAIN),
                Woken::Interrupted => return Err(Errno::INTR),
                Woken::Retry => gone = Errno::IDRM,
            }
            if signals_handled() != signals_seen {
                over = Some(Errno::INTR);
            } else if deadline.is_some_and(|end| end.remaining(Instant::now()).is_zero()) {
                over = Some(Errno::AGAIN);
            }
        }
    }

    /// Writes down what this sleeper waits for, and stages its place in the line.
    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn lie_down(
        &self,
        txn: &mut Txn<'_>,
        set: &Set,
        operations: &[Operation],
        blocked: usize,
        record: Option<u32>,
        long: Option<Chunk>,
        slot: u32,
    ) -> Result<(), Fault> {
        let layout = self.pool().layout();
        let map = txn.desk().map;
        let at = thread_at(layout, slot)?;
        // Plain words: nobody reads them before the slot is in a line.
        map.store(field!(at, ThreadSlot, count), operations.len() as u64, Ordering::Relaxed)?;
        let record = record.map_or(0, |record| u64::from(record) + 1);
        map.store(field!(at, ThreadSlot, size), record, Ordering::Relaxed)?;
        let base = match long {
            Some(chunk) => chunk.offset(layout)?,
            None => field!(at, ThreadSlot, ops),
        };
        let sequence = u64::from(set.sequence);
        map.store(field!(at, ThreadSlot, argument), sequence, Ordering::Relaxed)?;
        for (index, operation) in operations.iter().enumerate() {
            map.store(base + index as u64 * 8, operation.pack(), Ordering::Relaxed)?;
        }
        txn.update(field!(at, ThreadSlot, blocked), blocked_at(operations[blocked]))?;
        txn.update(field!(at, ThreadSlot, party), self.party().pack())?;
        let mixed = field!(set.slot, SemSlot, mixed);
        let takes_one = operations.len() == 1 && operations[0].change < 0;
        if !takes_one {
            txn.update(mixed, 1)?;
        } else if txn.get(field!(set.slot, SemSlot, waiting))? == 0 {
            txn.update(mixed, 0)?;
        }
        wait::join_line(txn, layout, set.line(), slot, WaitKind::Semaphore, set.index)
    }

    /// Opens the fast way again after a sleeper has left, if it was the last one.
    fn reopen_all(
        &self,
        desk: &Desk<'_>,
        set: &Set,
        operations: &[Operation],
    ) -> Result<(), Errno> {
        settle(self.change(desk, set.lock(), "semop-reopen", |txn| {
            if set.alive(txn)? {
                reopen(txn, set, operations)?;
            }
            Ok(Ok(()))
        }))
    }

    /// Serves sleepers until no more can go on.
    pub(super) fn serve_rest(&self, desk: &Desk<'_>, set: &Set) -> Result<(), Errno> {
        // Each round but the last takes somebody off the line.
        for _ in 0..=self.pool().layout().threads.count {
            let mut rings = Rings::default();
            let more = self.change(desk, set.lock(), "semop-serve", |txn| {
                rings.clear();
                if !set.alive(txn)? {
                    return Ok(Ok(false));
                }
                serve(txn, self.pool(), set, &mut rings).map(Ok)
            });
            let more = settle(more)?;
            self.ring_all(&rings);
            if !more {
                return Ok(());
            }
        }
        Err(Errno::IO)
    }

    /// Makes up for somebody who died halfway: serves sleepers, or goes on taking the set apart.
    pub(crate) fn tend_set(&self, desk: &Desk<'_>, set: &Set) -> Result<(), Errno> {
        let standing = settle(registry::standing(self.pool().map(), set.slot).map(Ok))?;
        if standing == set.stands(ObjectState::Dying as u32) {
            return self.dismantle_set(desk, set);
        }
        self.serve_rest(desk, set)
    }
}
