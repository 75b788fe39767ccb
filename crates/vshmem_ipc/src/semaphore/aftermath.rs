//! What is done to a set when a process has ended: its adjustments, and what it never came to know.

use super::array::operations_of;
use super::set::Set;
use crate::registry::Standing;
use crate::wait::thread_at;
use crate::{Errno, Member, settle, undo};
use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::{Desk, field};
use vshmem_wire::{CELL_BYTES, INLINE_OPS, ObjectHeader, SemSlot, ThreadSlot, WaitKind, WaitState};

impl Member {
    /// Applies and frees one undo record, for a process that has ended.
    pub(crate) fn apply_undo(
        &self,
        desk: &Desk<'_>,
        set: &Set,
        record: u32,
        client: u32,
        party: u32,
    ) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let highest = pool.geometry().semvmx as i32;
        /// Semaphores adjusted in one change: two words each, and room for sleepers.
        const AT_ONCE: usize = 8;
        // Adjustments below this are zero, as an earlier round has left them.
        let mut from = 0;
        loop {
            let mut freed = None;
            let mut next = from;
            let step = self.change(desk, set.lock(), "undo-apply", |txn| {
                freed = None;
                let at = undo::undo_at(layout, record)?;
                let standing = Standing::unpack(txn.get(field!(set.slot, ObjectHeader, state))?);
                let same = txn.get(field!(at, vshmem_wire::UndoSlot, client))? == client + 1
                    && txn.get(field!(at, vshmem_wire::UndoSlot, set))? == set.index + 1;
                if !same || standing.sequence != set.sequence {
                    return Ok(Ok(true));
                }
                let base = undo::adjustments(txn, layout, record)?;
                let mut adjusted = 0;
                for number in from..set.count {
                    let adjustment_at = base + u64::from(number) * CELL_BYTES;
                    let adjustment = txn.get(adjustment_at)? as i32;
                    if adjustment == 0 {
                        continue;
                    }
                    if adjusted == AT_ONCE {
                        next = number;
                        return Ok(Ok(false));
                    }
                    let (word_at, word) = set.close(txn, number)?;
                    let value =
                        (word.value as i32 + adjustment.clamp(-32768, 32767)).clamp(0, highest);
                    set.write(txn, word_at, word, value as u32, party)?;
                    txn.set(adjustment_at, 0)?;
                    adjusted += 1;
                }
                freed = undo::unlink(txn, layout, set, record, self.me())?;
                if adjusted > 0 {
                    txn.update(field!(set.slot, SemSlot, operated), seconds_now())?;
                }
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
    /// without SEM_UNDO, as the others are undone with its adjustments.
    pub(crate) fn take_back(&self, desk: &Desk<'_>, thread: u32, set: &Set) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let highest = pool.geometry().semvmx as i32;
        let step = self.change(desk, set.lock(), "sem-take-back", |txn| {
            let at = thread_at(layout, thread)?;
            let map = txn.desk().map;
            let count = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
            let sequence = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
            let unseen = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Done as u32
                && txn.get(field!(at, ThreadSlot, result))? == 0
                && txn.get(field!(at, ThreadSlot, kind))? == WaitKind::Semaphore as u32
                && txn.get(field!(at, ThreadSlot, object))? == set.index
                && sequence == u64::from(set.sequence)
                && count <= INLINE_OPS as u64;
            if !unseen || !set.alive(txn)? {
                return Ok(Ok(()));
            }
            let party = txn.get(field!(at, ThreadSlot, party))?;
            for operation in operations_of(map, at, count)? {
                if operation.undo || operation.change == 0 {
                    continue;
                }
                let (at, word) = set.close(txn, operation.number.into())?;
                let value = (word.value as i32 - i32::from(operation.change)).clamp(0, highest);
                set.write(txn, at, word, value as u32, party)?;
            }
            txn.set(field!(at, ThreadSlot, wait), WaitState::Idle as u32)?;
            Ok(Ok(()))
        });
        settle(step)?;
        self.serve_rest(desk, set)
    }
}
