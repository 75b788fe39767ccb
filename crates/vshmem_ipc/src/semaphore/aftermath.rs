//! What is done to a set when a process has ended: its adjustments, and what it never came to know.

use super::array::operations_of;
use super::set::Set;
use crate::bury_threads::Dead;
use crate::registry::Standing;
use crate::{Errno, Member, floor, settle, undo};
use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::{Desk, field};
use vshmem_wire::{
    Adjustment, CELL_BYTES, ClientName, INLINE_OPS, ObjectHeader, SemWord, ThreadSlot, WaitKind,
    WaitState,
};

impl Member {
    /// Applies and frees one undo record, for a process that has ended.
    pub(crate) fn apply_undo(
        &self,
        desk: &Desk<'_>,
        set: &Set,
        record: u32,
        client: ClientName,
        party: u32,
    ) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let most = pool.geometry().semvmx as i32;
        /// Semaphores adjusted in one change: two words each, and room for sleepers.
        const AT_ONCE: usize = 8;
        // Adjustments below this are zero, as an earlier round has left them.
        let mut from = 0;
        loop {
            let mut freed = None;
            let mut next = from;
            let step = self.change(desk, set.lock(), "undo-apply", |txn| {
                freed = None;
                let standing = Standing::unpack(txn.get(field!(set.slot, ObjectHeader, state))?);
                let same = undo::belongs(txn, layout, set, record, client)?;
                if !same || standing.sequence != set.sequence {
                    return Ok(Ok(true));
                }
                let base = undo::adjustments(txn, layout, record)?;
                let mut adjusted = 0;
                let mut highest = 0;
                txn.step(set.count)?;
                for number in from..set.count {
                    // Closed whether there is anything to add or not: nothing may be left that
                    // names the record once it is another's.
                    let at = base + u64::from(number) * CELL_BYTES;
                    let semaphore = set.semaphore(pool, number)?;
                    let closed = semaphore.close_adjustment(record, at)?;
                    semaphore.forget(record)?;
                    let total = Adjustment::unpack(closed.word).total;
                    highest = highest.max(closed.tag);
                    if total == 0 {
                        continue;
                    }
                    if adjusted == AT_ONCE {
                        next = number;
                        floor::raise(pool.map(), layout, highest)?;
                        return Ok(Ok(false));
                    }
                    let (word_at, cell) = set.close(txn, pool, number)?;
                    let value = SemWord::unpack(cell.word).value as i32 + i32::from(total);
                    set.write(txn, word_at, cell, value.clamp(0, most) as u32, party)?;
                    // One more write: the floor that is raised below is above that, too.
                    txn.replace_first(at, closed, Adjustment::of(0, true).pack())?;
                    adjusted += 1;
                }
                floor::raise(pool.map(), layout, highest)?;
                freed = undo::unlink(txn, layout, set, record, self.me())?;
                // Whatever there was to add: the end of a process operates on the set (`exit_sem` of Linux).
                txn.update(field!(set.slot, ObjectHeader, used), seconds_now())?;
                Ok(Ok(true))
            });
            let finished = settle(step)?;
            self.discard_chunk(desk, freed);
            self.serve_rest(desk, set)?;
            if finished {
                return Ok(());
            }
            from = next;
        }
    }

    /// Takes back what was done for a sleeper that died before it could know: the operations
    /// without SEM_UNDO, as the others are undone with its adjustments. All of them or none: what
    /// they have brought may have been taken by others meanwhile, and then they stay done, as with
    /// the kernel.
    pub(crate) fn take_back(&self, desk: &Desk<'_>, dead: Dead, set: &Set) -> Result<(), Errno> {
        let pool = self.pool();
        let highest = pool.geometry().semvmx as i32;
        let step = self.change(desk, set.lock(), "sem-take-back", |txn| {
            let at = dead.at;
            let map = txn.desk().map;
            let count = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
            let sequence = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
            let unseen = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Done as u32
                && txn.get(field!(at, ThreadSlot, result))? == 0
                && txn.get(field!(at, ThreadSlot, kind))? == WaitKind::Semaphore as u32
                && txn.get(field!(at, ThreadSlot, object))? == set.index
                && txn.get_word(field!(at, ThreadSlot, owner))? == dead.client.word()
                && sequence == u64::from(set.sequence)
                && count <= INLINE_OPS as u64;
            if !unseen || !set.alive(txn)? {
                return Ok(Ok(()));
            }
            let party = txn.get(field!(at, ThreadSlot, party))?;
            for operation in operations_of(map, at, count)?.into_iter().rev() {
                if operation.undo || operation.change == 0 {
                    continue;
                }
                let (at, cell) = set.close(txn, pool, operation.number.into())?;
                let value = SemWord::unpack(cell.word).value as i32 - i32::from(operation.change);
                if !(0..=highest).contains(&value) {
                    txn.clear();
                    break;
                }
                set.write(txn, at, cell, value as u32, party)?;
            }
            txn.set(field!(at, ThreadSlot, wait), WaitState::Idle as u32)?;
            Ok(Ok(()))
        });
        settle(step)?;
        self.serve_rest(desk, set)
    }
}
