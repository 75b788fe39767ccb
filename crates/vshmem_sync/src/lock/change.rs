//! Running a change under a lock.

use vshmem_wire::Cell;

use super::acquire::{Wait, acquire};
use super::context::LockContext;
use super::intent::{Overflow, Txn};
use super::record::close_record;
use super::word::{COMMITTED, FREE, in_state};
use crate::crash::crash_point;
use crate::fault::Fault;

/// A thread that has lost a lock before its commit doubles its timeout for the next holder, at
/// most so many times. Otherwise changes that take longer than the usual timeout (32,000 semaphores
/// on a slow machine) would take the lock from each other for ever.
const MOST_LOSSES: u32 = 7;

/// Runs `body` under the lock at `offset` and makes its writes happen all at once.
///
/// `body` is started again when another thread took the lock over before the commit, so it must not
/// do anything but read the pool and stage writes. Its result is used only if the lock was held
/// until the end. A result derived from words that another thread was changing is discarded.
///
/// # Errors
/// [`Fault::Corrupt`] when the pool is corrupt, [`Fault::TooLong`] when the record is full.
pub fn with_lock<'a, R>(
    lock_context: LockContext<'a>,
    offset: u64,
    change: &'static str,
    body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    run(lock_context, None, offset, change, body)
}

/// As [`with_lock`], with room for `entries` more writes in pool memory at `overflow`, which the
/// caller owns.
///
/// # Errors
/// As [`with_lock`].
pub fn with_lock_long<'a, R>(
    lock_context: LockContext<'a>,
    offset: u64,
    change: &'static str,
    overflow: u64,
    entries: usize,
    body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let room = Overflow { offset: overflow, entries };
    let done = run(lock_context, Some(room), offset, change, body);
    // The caller frees the room next, and another client may get it: no thread may read the record
    // there any more.
    close_record(lock_context.map, lock_context.slot_at(lock_context.slot)?)?;
    done
}

#[inline]
fn run<'a, R>(
    lock_context: LockContext<'a>,
    overflow: Option<Overflow>,
    offset: u64,
    change: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    lock_context.check_lock(offset)?;
    // Made here and never moved: it is a kilobyte.
    let mut txn = Txn::new(lock_context);
    if let Some(room) = overflow {
        txn.lengthen(room)?;
    }
    let mut losses = 0;
    let mut wait = Wait::default();
    loop {
        // Asked twice: before anything is written into a thread slot that may be another's by now,
        lock_context.slot_cache.check_current(lock_context.map)?;
        let held = acquire(&lock_context, offset, losses, &mut wait)?;
        crash_point(change, "acquired");
        // and now, when a thread that evicts this process finds the lock held.
        let result =
            lock_context.slot_cache.check_current(lock_context.map).and_then(|()| body(&mut txn));
        match result {
            Ok(answer) => {
                if finish(&mut txn, &lock_context, offset, held, change)? {
                    return Ok(answer);
                }
            }
            Err(fault) => {
                txn.clear();
                let still_mine =
                    lock_context.map.replace_cell(offset, held, in_state(held, FREE))?;
                if still_mine {
                    return Err(fault);
                }
            }
        }
        txn.clear();
        losses = (losses + 1).min(MOST_LOSSES);
        if wait.is_over() {
            return Err(Fault::corrupt(offset, "a lock that no thread can keep"));
        }
    }
}

/// Commits, carries out, releases. False when the lock was lost before the commit.
fn finish(
    txn: &mut Txn<'_>,
    lock_context: &LockContext<'_>,
    offset: u64,
    held: Cell,
    change: &'static str,
) -> Result<bool, Fault> {
    let free = in_state(held, FREE);
    if txn.is_empty() {
        return Ok(lock_context.map.replace_cell(offset, held, free)?);
    }
    let committed = held.successor(in_state(held, COMMITTED));
    txn.write_record(offset, committed.tag)?;
    crash_point(change, "written");
    // Barrier COMMIT: releases the record. Pairs with the acquire of the lock's cell in
    // `acquire_contended`.
    if !lock_context.map.replace_cell(offset, held, committed.word)? {
        return Ok(false);
    }
    crash_point(change, "committed");
    txn.apply(change)?;
    crash_point(change, "applied");
    // Refused only if another thread took over after the commit. That one has carried the record
    // out, and the lock is not this thread's to release.
    // Barrier HAND-OVER: pairs with the acquire of the lock's cell in `acquire`.
    lock_context.map.replace_cell(offset, committed, free)?;
    crash_point(change, "released");
    Ok(true)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use vshmem_mem::{Map, Mapping, Ordering};
    use vshmem_wire::{Area, PAGE_BYTES, ThreadSlot};

    use super::*;
    use crate::thread_slot::SlotCache;

    #[test]
    fn what_cannot_be_a_lock_is_refused_and_stays_as_it_is() {
        let map = Map::of(Mapping::anonymous(64 << 10).unwrap());
        let stride = size_of::<ThreadSlot>() as u64;
        let threads = Area { offset: PAGE_BYTES, stride, count: 1 };
        let slot_cache = SlotCache::new();
        let words_end = 32 << 10;
        let lock_context =
            LockContext { map: &map, threads, words_end, slot: 0, slot_cache: &slot_cache };
        let too_long = vshmem_wire::MORE_LOG_ENTRIES + 1;
        let misused = with_lock_long(lock_context, words_end - 16, "test", 0, too_long, |_| Ok(()));
        assert!(matches!(misused, Err(Fault::Misuse(_))), "{misused:?}");
        let magic = 0x1234_5678;
        map.store(0, magic, Ordering::Relaxed).unwrap();
        for offset in [0, 8, PAGE_BYTES - 16, PAGE_BYTES + 20, words_end, words_end + 16, 1 << 40] {
            let taken = with_lock(lock_context, offset, "test", |_| Ok(()));
            assert!(matches!(taken, Err(Fault::Corrupt { .. })), "{offset}");
        }
        assert_eq!(map.load(0, Ordering::Relaxed).unwrap(), magic);
        assert_eq!(with_lock(lock_context, words_end - 16, "test", |_| Ok(1)), Ok(1));
    }
}
