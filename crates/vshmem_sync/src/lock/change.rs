//! Running a change under a lock.

use std::convert::Infallible;

use vshmem_wire::{CELL_BYTES, IntentEntry, PAGE_BYTES, Place, RawCell};

use super::acquire::{Wait, acquire};
use super::context::LockContext;
use super::decision::Decision;
use super::intent::{Overflow, Txn, close_record};
use super::word::{FREE, in_state};
use crate::crash::crash_point;
use crate::fault::Fault;

/// A thread that has lost a lock before its commit doubles its timeout for the next holder, at
/// most so many times. Otherwise changes that take longer than the usual timeout (32,000 semaphores
/// on a slow machine) would take the lock from each other for ever.
const MOST_LOSSES: u32 = 7;

/// Runs `body` under `lock` and makes its writes happen all at once, unless it ends
/// with a fault.
///
/// `body` is started again when another thread took the lock over before the commit, so it must not
/// do anything but read the pool and stage writes. Its result is used only if the lock was held
/// until the end. A result derived from words that another thread was changing is discarded.
///
/// # Errors
/// [`Fault::Corrupt`] when the pool is corrupt, [`Fault::TooLong`] when the record is full.
pub fn with_lock<'a, R>(
    lock_context: LockContext<'a>,
    lock: Place<RawCell>,
    change: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let commit = |txn: &mut Txn<'a>| body(txn).map(Decision::<R, Infallible>::Commit);
    run(lock_context, None, lock, change, commit)
}

/// As [`with_lock`], for a change that may be refused: what becomes of its writes is what `body`
/// decides.
///
/// # Errors
/// As [`with_lock`], and that of the decision.
pub fn decide_with_lock<'a, T, E, F: From<Fault> + From<E>>(
    lock_context: LockContext<'a>,
    lock: Place<RawCell>,
    change: &'static str,
    body: impl FnMut(&mut Txn<'a>) -> Result<Decision<T, E>, Fault>,
) -> Result<T, F> {
    run(lock_context, None, lock, change, body)
}

/// As [`decide_with_lock`], with room for `entries` more writes in pool memory at `overflow`, which
/// the caller owns.
///
/// # Errors
/// As [`decide_with_lock`].
pub fn decide_with_lock_long<'a, T, E, F: From<Fault> + From<E>>(
    lock_context: LockContext<'a>,
    lock: Place<RawCell>,
    change: &'static str,
    overflow: Place<IntentEntry>,
    entries: usize,
    body: impl FnMut(&mut Txn<'a>) -> Result<Decision<T, E>, Fault>,
) -> Result<T, F> {
    let room = Overflow { first: overflow, entries };
    let done = run(lock_context, Some(room), lock, change, body);
    // The caller frees the room next, and another client may get it: no thread may read the record
    // there any more.
    close_record(
        lock_context.map,
        lock_context.threads.row(lock_context.slot).map_err(Fault::from)?,
    )?;
    done
}

#[inline]
fn run<'a, T, E, F: From<Fault> + From<E>>(
    lock_context: LockContext<'a>,
    overflow: Option<Overflow>,
    lock: Place<RawCell>,
    change: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> Result<Decision<T, E>, Fault>,
) -> Result<T, F> {
    check_lock(&lock_context, lock)?;
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
        let held = acquire(&lock_context, lock, losses, &mut wait)?;
        crash_point(change, "acquired");
        // and now, when a thread that evicts this process finds the lock held.
        let decision =
            lock_context.slot_cache.check_current(lock_context.map).and_then(|()| body(&mut txn));
        let (commits, result) = match decision {
            Ok(Decision::Commit(value)) => (true, Ok(value)),
            Ok(Decision::CommitThenFail(error)) => (true, Err(F::from(error))),
            Ok(Decision::Abandon(error)) => (false, Err(F::from(error))),
            Err(fault) => (false, Err(F::from(fault))),
        };
        let is_over = if commits {
            txn.finish(lock, held, change)?
        } else {
            // What is staged goes with the transaction, or below when the body is to run again.
            lock_context.map.replace_cell(lock, held, in_state(held, FREE)).map_err(Fault::from)?
        };
        if is_over {
            return result;
        }
        txn.clear();
        losses = (losses + 1).min(MOST_LOSSES);
        if wait.is_over() {
            return Err(Fault::corrupt(lock, "a lock that no thread can keep").into());
        }
    }
}

/// Refuses a place where no lock can lie: what is in front of the tables (the superblock has
/// no locks), behind them, or not aligned.
#[inline]
fn check_lock(lock_context: &LockContext<'_>, lock: Place<RawCell>) -> Result<(), Fault> {
    let offset = lock.offset();
    let inside = (PAGE_BYTES..lock_context.words_end).contains(&offset);
    if inside && offset.is_multiple_of(CELL_BYTES) {
        return Ok(());
    }
    Err(Fault::corrupt(lock, "a lock where none can be"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use vshmem_mem::{Map, Mapping, Ordering};
    use vshmem_wire::{Area, Cell};

    use super::*;
    use crate::cell::load_word;
    use crate::lock::word::holder_of;
    use crate::thread_slot::SlotCache;

    const WORDS_END: u64 = 32 << 10;
    const LOCK: Place<RawCell> = Place::at(WORDS_END - 16);
    const FIRST: Place<RawCell> = Place::at(WORDS_END - 32);
    const SECOND: Place<RawCell> = Place::at(WORDS_END - 48);
    const OVERFLOW: Place<IntentEntry> = Place::at(16 << 10);

    fn with_context(test: impl FnOnce(&Map, LockContext<'_>)) {
        let map = Map::of(Mapping::anonymous(64 << 10).unwrap());
        let threads = Area::new(PAGE_BYTES, 1);
        let slot_cache = SlotCache::new();
        let words_end = WORDS_END;
        let context =
            LockContext { map: &map, threads, words_end, slot: 0, slot_cache: &slot_cache };
        test(&map, context);
    }

    /// Why a change of the tests below did not come to be.
    #[derive(Debug, PartialEq, Eq)]
    enum Refused {
        By(&'static str),
        Fault(Fault),
    }

    impl From<&'static str> for Refused {
        fn from(why: &'static str) -> Self {
            Self::By(why)
        }
    }

    impl From<Fault> for Refused {
        fn from(fault: Fault) -> Self {
            Self::Fault(fault)
        }
    }

    /// Both cells with their tags.
    fn cells(map: &Map) -> [Cell; 2] {
        [FIRST, SECOND].map(|at| crate::cell::load_cell(map, at).unwrap())
    }

    #[test]
    fn what_cannot_be_a_lock_is_refused_and_stays_as_it_is() {
        with_context(|map, context| {
            let too_long = vshmem_wire::MORE_INTENT_ENTRIES + 1;
            let misused: Result<(), Refused> =
                decide_with_lock_long(context, LOCK, "test", OVERFLOW, too_long, |_| {
                    Ok(Decision::<(), &str>::Commit(()))
                });
            assert!(matches!(misused, Err(Refused::Fault(Fault::Misuse(_)))), "{misused:?}");
            let magic = 0x1234_5678;
            map.store(0u64, magic, Ordering::Relaxed).unwrap();
            for offset in
                [0, 8, PAGE_BYTES - 16, PAGE_BYTES + 20, WORDS_END, WORDS_END + 16, 1 << 40]
            {
                let taken = with_lock(context, Place::at(offset), "test", |_| Ok(()));
                assert!(matches!(taken, Err(Fault::Corrupt { .. })), "{offset}");
            }
            assert_eq!(map.load(0u64, Ordering::Relaxed).unwrap(), magic);
            assert_eq!(with_lock(context, LOCK, "test", |_| Ok(1)), Ok(1));
        });
    }

    #[test]
    fn a_change_that_is_abandoned_leaves_memory_as_it_was_and_the_lock_free() {
        with_context(|map, context| {
            with_lock(context, LOCK, "test", |txn| txn.set_word(FIRST, 5)).unwrap();
            let before = cells(map);
            let abandoned: Result<(), Refused> = decide_with_lock(context, LOCK, "test", |txn| {
                txn.set_word(FIRST, 6)?;
                txn.set_word(SECOND, 7)?;
                Ok(Decision::Abandon("no room"))
            });
            assert_eq!(abandoned, Err(Refused::By("no room")));
            assert_eq!(cells(map), before);
            assert!(holder_of(map, LOCK).unwrap().is_none());
            // Nor does the next change find anything of it.
            with_lock(context, LOCK, "test", |txn| txn.set_word(SECOND, 8)).unwrap();
            assert_eq!(load_word(map, FIRST), Ok(5));
            assert_eq!(load_word(map, SECOND), Ok(8));
        });
    }

    #[test]
    fn a_long_change_that_is_abandoned_leaves_memory_as_it_was_and_the_lock_free() {
        with_context(|map, context| {
            let before = cells(map);
            let abandoned: Result<(), Refused> =
                decide_with_lock_long(context, LOCK, "test", OVERFLOW, 100, |txn| {
                    while txn.remaining_entries() > 50 {
                        txn.set_word(
                            Place::at(20 << 10 | (txn.remaining_entries() as u64) << 4),
                            1,
                        )?;
                    }
                    txn.set_word(FIRST, 6)?;
                    Ok(Decision::Abandon("no room"))
                });
            assert_eq!(abandoned, Err(Refused::By("no room")));
            assert_eq!(cells(map), before);
            assert_eq!(load_word(map, Place::at(20 << 10 | 60 << 4)), Ok(0));
            assert!(holder_of(map, LOCK).unwrap().is_none());
        });
    }

    #[test]
    fn a_change_that_fails_after_its_commit_has_happened() {
        with_context(|map, context| {
            let failed: Result<(), Refused> = decide_with_lock(context, LOCK, "test", |txn| {
                txn.set_word(FIRST, 6)?;
                txn.set_word(SECOND, 7)?;
                Ok(Decision::CommitThenFail("would block"))
            });
            assert_eq!(failed, Err(Refused::By("would block")));
            assert_eq!(cells(map).map(|cell| cell.word), [6, 7]);
            assert!(holder_of(map, LOCK).unwrap().is_none());
        });
    }

    #[test]
    fn a_decision_made_under_a_lock_that_was_lost_is_made_again() {
        with_context(|map, context| {
            let mut runs = 0;
            let abandoned: Result<u32, Refused> = decide_with_lock(context, LOCK, "test", |txn| {
                runs += 1;
                if runs > 1 {
                    return Ok(Decision::Commit(runs));
                }
                txn.set_word(FIRST, 6)?;
                // As one that has taken the lock over, and has given it back.
                let held = crate::cell::load_cell(map, LOCK)?;
                assert!(map.replace_cell(LOCK, held, in_state(held, FREE))?);
                Ok(Decision::Abandon("made of what another was changing"))
            });
            assert_eq!(abandoned, Ok(2));
            assert_eq!(load_word(map, FIRST), Ok(0), "the first run's write");
        });
    }
}
