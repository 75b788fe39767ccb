//! Arrays of operations: trying them, doing them, and doing those of sleepers.

use super::Operation;
use super::set::Set;
use super::word::Word;
use crate::wait::{self, Rings, result_of, thread_at};
use crate::{Errno, Pool, undo};
use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{CELL_BYTES, INLINE_OPS, SemSlot, ThreadSlot, WaitState};

/// What an array of operations would do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trial {
    /// All of them can be done.
    Done,
    /// Operation number so-and-so has to wait.
    Blocks(usize),
    /// They never can.
    Fails(Errno),
}

/// Values that an array of operations has come by, before any is written.
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

/// A private copy of a sleeper's operations, which are known to be few.
pub(super) fn operations_of(
    map: &Map,
    thread: u64,
    count: u64,
) -> Result<arrayvec::ArrayVec<Operation, INLINE_OPS>, Fault> {
    (0..count.min(INLINE_OPS as u64))
        .map(|nth| {
            let word = map.load(field!(thread, ThreadSlot, ops) + nth * 8, Ordering::Relaxed)?;
            Ok(Operation::unpack(word))
        })
        .collect()
}

/// Tries operations on a set and stages them if all can be done.
pub(super) fn perform(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    operations: &[Operation],
    record: Option<u32>,
    party: u32,
) -> Result<Trial, Fault> {
    let highest = pool.geometry().semvmx as i32;
    let mut values = Values::new(operations.len())?;
    let adjustments = match record {
        Some(record) => Some(undo::adjustments(txn, pool.layout(), record)?),
        None => None,
    };
    for (index, operation) in operations.iter().enumerate() {
        let value = match values.get(operation.number) {
            Some(value) => value,
            None => set.close(txn, operation.number.into())?.1.value as i32,
        };
        let blocked =
            if operation.no_wait { Trial::Fails(Errno::AGAIN) } else { Trial::Blocks(index) };
        let change = i32::from(operation.change);
        if change == 0 && value != 0 {
            return Ok(blocked);
        }
        if value + change < 0 {
            return Ok(blocked);
        }
        if value + change > highest {
            return Ok(Trial::Fails(Errno::RANGE));
        }
        values.put(operation.number, value + change);
    }
    // Adjustments that leave their range fail before anything is written.
    if let Some(base) = adjustments {
        let mut totals = Values::new(operations.len())?;
        for operation in operations {
            if !operation.undo {
                continue;
            }
            let known = match totals.get(operation.number) {
                Some(total) => total,
                None => txn.get(base + u64::from(operation.number) * CELL_BYTES)? as i32,
            };
            // What a peer wrote there may be any number.
            let total = known.saturating_sub(i32::from(operation.change));
            if !(-32768..=32767).contains(&total) {
                return Ok(Trial::Fails(Errno::RANGE));
            }
            totals.put(operation.number, total);
        }
        for operation in operations {
            if operation.undo
                && operation.change != 0
                && let Some(total) = totals.get(operation.number)
            {
                txn.update(base + u64::from(operation.number) * CELL_BYTES, total as u32)?;
            }
        }
    }
    for operation in operations {
        let number = operation.number;
        let value = values.get(number).unwrap_or(0);
        let (at, word) = set.close(txn, number.into())?;
        if word.value != value as u32 || word.party != party {
            set.write(txn, at, word, value as u32, party)?;
        }
    }
    Ok(Trial::Done)
}

/// Opens the fast way again on the words that this change has closed, if nobody sleeps.
pub(super) fn reopen(txn: &mut Txn<'_>, set: &Set, operations: &[Operation]) -> Result<(), Fault> {
    if txn.get(field!(set.slot, SemSlot, waiting))? != 0 {
        return Ok(());
    }
    for operation in operations {
        let at = set.word(operation.number.into())?;
        let raw = txn.word(at)?;
        let word = Word::unpack(raw);
        if word.slow {
            txn.replace(
                at,
                raw,
                Word { slow: false, ..word.with(word.value, word.party, false) }.pack(),
            )?;
        }
    }
    Ok(())
}

/// Does the work of sleepers that can go on now, in the order of their arrival. True when the
/// record is full and there may be more to do.
pub(super) fn serve(
    txn: &mut Txn<'_>,
    pool: &Pool,
    set: &Set,
    rings: &mut Rings,
) -> Result<bool, Fault> {
    let layout = pool.layout();
    let waiting_at = field!(set.slot, SemSlot, waiting);
    if txn.get(waiting_at)? == 0 {
        return Ok(false);
    }
    let mut more = false;
    loop {
        let mut again = false;
        wait::walk(txn, layout, set.line(), |txn, slot| {
            let at = thread_at(layout, slot)?;
            let count = txn.desk().map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
            // Too many to do on its behalf: it does them itself, if it can.
            let too_many = count > INLINE_OPS as u64;
            // Leaving the line takes up to seven words, every operation up to two.
            if txn.room() < if too_many { 8 } else { 8 + 2 * count as usize } {
                more = true;
                return Ok(false);
            }
            let (state, result) = if too_many {
                (WaitState::Retry, 0)
            } else {
                let operations = operations_of(txn.desk().map, at, count)?;
                let record =
                    txn.desk().map.load(field!(at, ThreadSlot, size), Ordering::Relaxed)?;
                let record = (record as u32).checked_sub(1);
                let party = txn.get(field!(at, ThreadSlot, party))?;
                if operations.iter().any(|one| u32::from(one.number) >= set.count) {
                    return Err(Fault::corrupt(at, "a sleeper at no semaphore"));
                }
                match perform(txn, pool, set, &operations, record, party)? {
                    Trial::Blocks(index) => {
                        let blocked = blocked_at(operations[index]);
                        txn.update(field!(at, ThreadSlot, blocked), blocked)?;
                        return Ok(true);
                    }
                    Trial::Fails(errno) => (WaitState::Done, result_of(errno)),
                    Trial::Done => {
                        again = true;
                        (WaitState::Done, 0)
                    }
                }
            };
            wait::leave_line(txn, layout, set.line(), slot, state, result)?;
            rings.add(slot);
            Ok(!again)
        })?;
        if !again || more {
            return Ok(more);
        }
    }
}

/// What a sleeper is counted under by GETNCNT and GETZCNT.
pub(super) fn blocked_at(operation: Operation) -> u32 {
    u32::from(operation.number) | u32::from(operation.change == 0) << 31
}
