//! semctl(2): values.

use rustix::io::Errno;
use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::field;
use vshmem_wire::{Adjustment, CELL_BYTES, ObjectHeader, SemSlot, SemWord, ThreadSlot};

use crate::context::Member;
use crate::error::{Verdict, settle};
use crate::registry::permission::{Caller, Permission, READ, WRITE};
use crate::sem::set::Set;
use crate::sem::undo;
use crate::wait::queue::{self, Rings, thread_at};

impl Member {
    /// GETVAL.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    #[inline(never)]
    pub fn semaphore_value(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<u32, Errno> {
        let (set, nth) = self.look_up_readable(id, number, caller)?;
        let load = || Ok(Ok(self.pool().map().load(set.word(nth)?, Ordering::Acquire)?));
        let word = SemWord::unpack(settle(load())?);
        if word.tentative { self.decided_value(id, number, caller) } else { Ok(word.value) }
    }

    /// The value of a semaphore that an array of operations has written. It looks the set up again: one that is handed on
    /// by reference lies in memory, and GETVAL waits until it does.
    #[cold]
    #[inline(never)]
    fn decided_value(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<u32, Errno> {
        let (set, number) = self.readable(id, number, caller)?;
        let read =
            || -> Verdict<u32> { Ok(Ok(set.semaphore(self.pool(), number)?.read()?.0.value)) };
        settle(read())
    }

    /// GETPID: the last process to operate on a semaphore.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_pid(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<u32, Errno> {
        let (set, number) = self.readable(id, number, caller)?;
        let read = || -> Verdict<u32> { Ok(Ok(set.semaphore(self.pool(), number)?.read()?.1)) };
        Ok(self.pid_here(settle(read())?))
    }

    /// A set that the caller may read, and one of its semaphores.
    fn readable(&self, id: i32, number: i32, caller: &dyn Caller) -> Result<(Set, u32), Errno> {
        self.look_up_readable(id, number, caller)
    }

    /// As [`Member::readable`], in registers: a set that is returned is stored in words and copied in pairs of them, which waits for the stores.
    #[inline(always)]
    fn look_up_readable(
        &self,
        id: i32,
        number: i32,
        caller: &dyn Caller,
    ) -> Result<(Set, u32), Errno> {
        let set = self.set(id)?;
        settle(Permission::check(self.pool().map(), set.slot, caller, READ))?;
        let number = u32::try_from(number).ok().filter(|&n| n < set.count).ok_or(Errno::INVAL)?;
        Ok((set, number))
    }

    /// GETNCNT (`zero` false) and GETZCNT: sleepers blocked at a semaphore.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_sleepers(
        &self,
        id: i32,
        number: i32,
        zero: bool,
        caller: &dyn Caller,
    ) -> Result<u32, Errno> {
        let (set, number) = self.readable(id, number, caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let layout = self.pool().layout();
        let wanted = number | u32::from(zero) << 31;
        settle(self.change(&desk, set.lock(), "sem-count", |txn| {
            if !set.alive(txn)? {
                return Ok(Err(Errno::INVAL));
            }
            let mut count = 0;
            queue::walk(txn, layout, set.line(), |txn, slot| {
                let blocked = txn.get(field!(thread_at(layout, slot)?, ThreadSlot, blocked))?;
                count += u32::from(blocked == wanted);
                Ok(true)
            })?;
            Ok(Ok(count))
        }))
    }

    /// GETALL: copies all values out.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn semaphore_values(
        &self,
        id: i32,
        caller: &dyn Caller,
        mut each: impl FnMut(usize, u16),
    ) -> Result<(), Errno> {
        let set = self.set_of_size(id)?;
        settle(Permission::check(self.pool().map(), set.slot, caller, READ))?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, set.lock(), "sem-getall", |txn| {
            if !set.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            // Closed first, so that no fast operation comes between two reads.
            for number in 0..set.count {
                if set.count > 1 {
                    set.close(txn, self.pool(), number)?;
                }
            }
            for number in 0..set.count {
                let word = SemWord::unpack(txn.get_word(set.word(number)?)?);
                each(number as usize, word.value as u16);
            }
            Ok(Ok(()))
        }))
    }

    /// SETVAL.
    ///
    /// # Errors
    /// EINVAL, EACCES, ERANGE.
    pub fn set_semaphore(
        &self,
        id: i32,
        number: i32,
        value: i32,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        // The kernel looks at the value before anything else (semctl_setval).
        if value < 0 || value > self.pool().geometry().semvmx as i32 {
            return Err(Errno::RANGE);
        }
        let set = self.set(id)?;
        let number = u32::try_from(number).ok().filter(|&n| n < set.count).ok_or(Errno::INVAL)?;
        self.set_permission(&set)?.allow(caller, WRITE)?;
        self.write_values(&set, "sem-setval", &|at| (at == number).then_some(value as u32))
    }

    /// SETALL.
    ///
    /// # Errors
    /// EINVAL, EACCES, ERANGE.
    pub fn set_semaphores(
        &self,
        id: i32,
        values: &dyn Fn(usize) -> u16,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let set = self.set_of_size(id)?;
        self.set_permission(&set)?.allow(caller, WRITE)?;
        let highest = self.pool().geometry().semvmx;
        if (0..set.count as usize).any(|number| u32::from(values(number)) > highest) {
            return Err(Errno::RANGE);
        }
        self.write_values(&set, "sem-setall", &|at| Some(u32::from(values(at as usize))))
    }

    /// Number of semaphores in a set, for callers that have to size a buffer.
    ///
    /// # Errors
    /// EINVAL.
    pub fn semaphore_count(&self, id: i32) -> Result<usize, Errno> {
        Ok(self.set_of_size(id)?.count as usize)
    }

    fn write_values(
        &self,
        set: &Set,
        name: &'static str,
        value: &dyn Fn(u32) -> Option<u32>,
    ) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let party = self.party().pack();
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let mut rings = Rings::default();
        let step = self.change(&desk, set.lock(), name, |txn| {
            rings.clear();
            if !set.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            let sleepers = txn.get(field!(set.slot, SemSlot, waiting))? != 0;
            for number in (0..set.count).filter(|&number| value(number).is_some()) {
                // Nothing is staged for these words yet, so the pool's own word is the one.
                let semaphore = set.semaphore(pool, number)?;
                let next = SemWord::of(value(number).unwrap_or(0), party, sleepers);
                txn.replace_first(semaphore.at, semaphore.close()?, next.pack())?;
            }
            undo::walk(txn, layout, set, |txn, record| {
                let base = undo::adjustments(txn, layout, record)?;
                txn.step(set.count)?;
                for number in (0..set.count).filter(|&number| value(number).is_some()) {
                    let at = base + u64::from(number) * CELL_BYTES;
                    let seen = Adjustment::unpack(txn.desk().map.load(at, Ordering::Acquire)?);
                    if seen.total == 0 && !seen.pledged && !seen.closed {
                        continue;
                    }
                    let closed = set.semaphore(pool, number)?.close_adjustment(record, at)?;
                    txn.replace_first(at, closed, Adjustment::of(0, false).pack())?;
                }
                Ok(true)
            })?;
            txn.update(field!(set.slot, ObjectHeader, changed), seconds_now())?;
            Ok(Ok(()))
        });
        settle(step)?;
        self.serve_rest(&desk, set)
    }
}
