//! Running a change under a lock.

use vshmem_wire::Cell;

use super::acquire::{Wait, acquire};
use super::context::Desk;
use super::intent::{Overflow, Txn};
use super::record::close_record;
use super::word::{COMMITTED, FREE, in_state};
use crate::crash::crash_point;
use crate::fault::Fault;

/// Whoever has lost a lock before its commit is twice as patient with the next holder, up to this
/// many times: changes that take longer than the usual patience (32,000 semaphores on a slow
/// machine) would otherwise take the lock from each other for ever.
const MOST_LOSSES: u32 = 7;

/// Runs `body` under the lock at `offset` and makes its writes happen all at once.
///
/// `body` is started again when somebody took the lock over before the commit, so it must not do
/// anything but read the pool and stage writes. What it returns is believed only once the lock has
/// turned out to be held until the end: an answer derived from words that somebody else was
/// changing is thrown away.
///
/// # Errors
/// [`Fault::Corrupt`] when the pool does not make sense, [`Fault::TooLong`] when the record is
/// full.
pub fn with_lock<'a, R>(
    desk: Desk<'a>,
    offset: u64,
    change: &'static str,
    body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    run(desk, None, offset, change, body)
}

/// As [`with_lock`], with room for `entries` more writes in pool memory at `overflow`, which the
/// caller owns.
///
/// # Errors
/// As [`with_lock`].
pub fn with_lock_long<'a, R>(
    desk: Desk<'a>,
    offset: u64,
    change: &'static str,
    overflow: u64,
    entries: usize,
    body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let room = Overflow { offset: overflow, entries };
    let done = run(desk, Some(room), offset, change, body);
    // The room is about to become somebody else's.
    close_record(desk.map, desk.slot_at(desk.slot)?)?;
    done
}

#[inline]
fn run<'a, R>(
    desk: Desk<'a>,
    overflow: Option<Overflow>,
    offset: u64,
    change: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    desk.check_lock(offset)?;
    // Made here and never moved: it is a kilobyte.
    let mut txn = Txn::new(desk);
    if let Some(room) = overflow {
        txn.lengthen(room)?;
    }
    let mut losses = 0;
    let mut wait = Wait::default();
    loop {
        // Before anything is written into a thread slot that may have been given away...
        desk.seats.stand(desk.map)?;
        let held = acquire(&desk, offset, losses, &mut wait)?;
        crash_point(change, "acquired");
        // ...and when whoever evicts this process would find the lock held.
        let result = desk.seats.stand(desk.map).and_then(|()| body(&mut txn));
        match result {
            Ok(answer) => {
                if finish(&mut txn, &desk, offset, held, change)? {
                    return Ok(answer);
                }
            }
            Err(fault) => {
                txn.clear();
                let still_mine = desk.map.replace_cell(offset, held, in_state(held, FREE))?;
                if still_mine {
                    return Err(fault);
                }
            }
        }
        txn.clear();
        losses = (losses + 1).min(MOST_LOSSES);
        if wait.is_over() {
            return Err(Fault::corrupt(offset, "a lock that nobody can keep"));
        }
    }
}

/// Commits, carries out, releases. False when the lock was lost before the commit.
fn finish(
    txn: &mut Txn<'_>,
    desk: &Desk<'_>,
    offset: u64,
    held: Cell,
    change: &'static str,
) -> Result<bool, Fault> {
    let free = in_state(held, FREE);
    if txn.is_empty() {
        return Ok(desk.map.replace_cell(offset, held, free)?);
    }
    let committed = held.successor(in_state(held, COMMITTED));
    txn.write_record(offset, committed.tag)?;
    crash_point(change, "written");
    // Barrier COMMIT: releases the record. Pairs with the acquire of the lock's cell in
    // `acquire_contended`.
    if !desk.map.replace_cell(offset, held, committed.word)? {
        return Ok(false);
    }
    crash_point(change, "committed");
    txn.apply(change)?;
    crash_point(change, "applied");
    // Refused only when somebody took over after the commit, and then it is done as well.
    // Barrier HAND-OVER: pairs with the acquire of the lock's cell in `acquire`.
    desk.map.replace_cell(offset, committed, free)?;
    crash_point(change, "released");
    Ok(true)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use vshmem_mem::{Map, Mapping, Ordering};
    use vshmem_wire::{Area, PAGE_BYTES, ThreadSlot};

    use super::*;
    use crate::thread_slot::Seats;

    #[test]
    fn what_cannot_be_a_lock_is_refused_and_stays_as_it_is() {
        let map = Map::of(Mapping::anonymous(64 << 10).unwrap());
        let stride = size_of::<ThreadSlot>() as u64;
        let threads = Area { offset: PAGE_BYTES, stride, count: 1 };
        let seats = Seats::new();
        let words_end = 32 << 10;
        let desk = Desk { map: &map, threads, words_end, slot: 0, seats: &seats };
        let too_long = vshmem_wire::MORE_LOG_ENTRIES + 1;
        let misused = with_lock_long(desk, words_end - 16, "test", 0, too_long, |_| Ok(()));
        assert!(matches!(misused, Err(Fault::Misuse(_))), "{misused:?}");
        let magic = 0x1234_5678;
        map.store(0, magic, Ordering::Relaxed).unwrap();
        for offset in [0, 8, PAGE_BYTES - 16, PAGE_BYTES + 20, words_end, words_end + 16, 1 << 40] {
            let taken = with_lock(desk, offset, "test", |_| Ok(()));
            assert!(matches!(taken, Err(Fault::Corrupt { .. })), "{offset}");
        }
        assert_eq!(map.load(0, Ordering::Relaxed).unwrap(), magic);
        assert_eq!(with_lock(desk, words_end - 16, "test", |_| Ok(1)), Ok(1));
    }
}
