//! The lock word, and running a change under it.

use vshmem_mem::{Map, Ordering, spin_hint};
use vshmem_wire::{Cell, ThreadSlot};

use crate::wait::yield_cpu;
use crate::{Desk, Fault, crash_point, field, load_cell, load_word};

mod intent;

pub use intent::Txn;
use intent::{Overflow, carry_out, close_record};

/// Times that a waiting thread just looks again.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 400 };
/// Then it gives the CPU away this often, and then sleeps for 50 us each time.
const YIELDS: u32 = 8;
/// It takes over when the word has not changed for so long: longer than any change takes while its holder runs. By the
/// clock: where many wait for a CPU a single yield may last longer.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(2);

/// Every so often, who has held a lock last as well leaves it to others for some looks.
const STREAK: u64 = 128;
const ASIDE: u32 = 16;

/// Whoever has lost a lock before its commit is twice as patient with the next holder, up to this
/// many times: changes that take longer than the usual patience (32,000 semaphores on a slow
/// machine) would otherwise take the lock from each other for ever.
const MOST_LOSSES: u32 = 7;

/// Who has not come by a lock after this long never will: somebody rewrites the lock word.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(10);
/// Turns between two looks at the clock.
const TURNS: u32 = 1024;
/// What passes between them counts for so much at most: whoever was stopped for longer than [`LONGEST`] meanwhile has not
/// waited for long. That many naps take about half of it.
const TURNS_TAKE: std::time::Duration = std::time::Duration::from_millis(250);

/// How long a change has waited for its lock, from the first time it asks.
#[derive(Debug, Default)]
struct Wait {
    patience: Option<vshmem_mem::Patience>,
}

impl Wait {
    #[cfg(not(loom))]
    fn is_over(&mut self) -> bool {
        self.is_over_at(vshmem_mem::Instant::now())
    }

    #[cfg(loom)]
    fn is_over(&mut self) -> bool {
        let _ = Self::is_over_at;
        false
    }

    fn is_over_at(&mut self, now: vshmem_mem::Instant) -> bool {
        let begin = || vshmem_mem::Patience::new(now, LONGEST, TURNS_TAKE);
        self.patience.get_or_insert_with(begin).is_over(now)
    }
}

/// How long a lock word has not changed, from the first time it is asked.
#[derive(Debug, Default)]
struct Standstill {
    end: Option<vshmem_mem::Instant>,
}

impl Standstill {
    #[cfg(not(loom))]
    fn has_lasted(&mut self, losses: u32) -> bool {
        let now = vshmem_mem::Instant::now();
        let end = *self.end.get_or_insert_with(|| now.after(PATIENCE * (1 << losses)));
        end.remaining(now).is_zero()
    }

    #[cfg(loom)]
    fn has_lasted(&mut self, losses: u32) -> bool {
        let _ = (&self.end, PATIENCE, losses);
        true
    }
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const COMMITTED: u32 = 2;

/// The word of a lock taken apart. The cell's tag tells one time that it was taken from any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWord {
    /// Thread slot of the holder.
    pub holder: u32,
    state: u32,
}

impl LockWord {
    #[inline]
    fn unpack(word: u64) -> Self {
        Self { holder: (word as u32) >> 2, state: (word as u32) & 3 }
    }

    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.holder << 2 | self.state)
    }
}

/// The word of the lock that `seen` is of, in another state.
#[inline]
fn in_state(seen: Cell, state: u32) -> u64 {
    LockWord { state, ..LockWord::unpack(seen.word) }.pack()
}

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Thread slot.
    pub slot: u32,
    /// Whether its change has happened and is being carried out.
    pub committed: bool,
}

/// Looks who holds the lock at `offset`.
///
/// # Errors
/// When it is outside the pool.
pub fn holder_of(map: &Map, offset: u64) -> Result<Option<LockHolder>, Fault> {
    let word = LockWord::unpack(load_word(map, offset)?);
    Ok(match word.state {
        HELD => Some(LockHolder { slot: word.holder, committed: false }),
        COMMITTED => Some(LockHolder { slot: word.holder, committed: true }),
        _ => None,
    })
}

/// Runs `body` under the lock at `offset` and makes its writes happen all at once.
///
/// `body` is started again when somebody took the lock over before the commit, so it must not do
/// anything but read the pool and stage writes. What it returns is believed only once the lock has
/// turned out to be held until the end: an answer derived from words that somebody else was
/// changing is thrown away.
///
/// # Errors
/// [`Fault::Corrupt`] when the pool does not make sense, [`Fault::TooLong`] when the record is full.
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
                if still_mine && fault != Fault::Lost {
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
    // The commit: releases the record, pairs with the acquire of whoever takes over.
    if !desk.map.replace_cell(offset, held, committed.word)? {
        return Ok(false);
    }
    crash_point(change, "committed");
    txn.apply(change)?;
    crash_point(change, "applied");
    // Refused only when somebody took over after the commit, and then it is done as well.
    desk.map.replace_cell(offset, committed, free)?;
    crash_point(change, "released");
    Ok(true)
}

#[inline]
fn acquire(desk: &Desk<'_>, offset: u64, losses: u32, wait: &mut Wait) -> Result<Cell, Fault> {
    // Written down first, so that whoever buries this process knows which lock it may hold. The
    // slot's former record is carried out: that it seems to be of this lock now harms nobody.
    desk.map.store(
        field!(desk.slot_at(desk.slot)?, ThreadSlot, log_lock),
        offset,
        Ordering::Relaxed,
    )?;
    let seen = load_cell(desk.map, offset)?;
    let word = LockWord::unpack(seen.word);
    if cfg!(not(loom)) && word.holder == desk.slot && seen.tag.is_multiple_of(STREAK) {
        stand_aside(desk.map, offset, seen.word)?;
    }
    let mine = taken(desk.slot);
    if word.state == FREE && desk.map.replace_cell(offset, seen, mine)? {
        return Ok(seen.successor(mine));
    }
    acquire_contended(desk, offset, losses, wait)
}

/// Lets others have a lock that this thread has had again and again: it takes the word back so soon after each release that
/// whoever looks from another CPU would hardly ever find it free.
#[cold]
fn stand_aside(map: &Map, offset: u64, word: u64) -> Result<(), Fault> {
    for _ in 0..ASIDE {
        spin_hint();
        if map.load(offset, Ordering::Relaxed)? != word {
            break;
        }
    }
    Ok(())
}

#[cold]
fn acquire_contended(
    desk: &Desk<'_>,
    offset: u64,
    losses: u32,
    wait: &mut Wait,
) -> Result<Cell, Fault> {
    let mut last = Cell::default();
    let mut looks = 0;
    let mut standstill = Standstill::default();
    let mut turn = 0u32;
    loop {
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(TURNS) && wait.is_over() {
            return Err(Fault::corrupt(offset, "a lock that nobody can take"));
        }
        let cell = load_cell(desk.map, offset)?;
        let seen = LockWord::unpack(cell.word);
        if cell != last {
            last = cell;
            looks = 0;
            standstill = Standstill::default();
        }
        let interrupted_self = seen.state != FREE && desk.seats.is_mine(seen.holder);
        let lasts = looks >= LOOKS && standstill.has_lasted(losses);
        if seen.state == FREE || interrupted_self || lasts {
            if seen.state == COMMITTED {
                carry_out(desk, seen.holder, offset, cell.tag)?;
            }
            let mine = taken(desk.slot);
            if desk.map.replace_cell(offset, cell, mine)? {
                return Ok(cell.successor(mine));
            }
            continue;
        }
        looks += 1;
        if looks <= LOOKS {
            spin_hint();
        } else if looks <= LOOKS + YIELDS {
            yield_cpu();
        } else {
            nap();
        }
    }
}

/// The word of a lock that `slot` holds.
fn taken(slot: u32) -> u64 {
    LockWord { holder: slot, state: HELD }.pack()
}

fn nap() {
    #[cfg(not(loom))]
    {
        let span = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000 };
        // Cut short by a signal is as good.
        let _ = rustix::thread::nanosleep(&span);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use vshmem_mem::Mapping;
    use vshmem_wire::{Area, PAGE_BYTES};

    use super::*;
    use crate::Seats;

    /// A lock that was lost while this process was stopped can be taken again: the pool is not to be called corrupt for it.
    #[test]
    fn a_process_that_was_stopped_does_not_give_a_lock_up() {
        let begun = vshmem_mem::Instant::now();
        let mut wait = Wait::default();
        assert!(!wait.is_over_at(begun));
        assert!(!wait.is_over_at(begun.after(2 * LONGEST)));
    }

    #[test]
    fn a_lock_that_is_never_had_is_given_up() {
        let mut now = vshmem_mem::Instant::now();
        let mut wait = Wait::default();
        let looks = (0..).find(|_| {
            now = now.after(TURNS_TAKE / 2);
            wait.is_over_at(now)
        });
        assert_eq!(looks, Some(80));
    }

    #[test]
    fn what_cannot_be_a_lock_is_refused_and_stays_as_it_is() {
        let map = Map::of(Mapping::anonymous(64 << 10).unwrap());
        let stride = size_of::<ThreadSlot>() as u64;
        let threads = Area { offset: PAGE_BYTES, stride, count: 1 };
        let seats = Seats::new();
        let words_end = 32 << 10;
        let desk = Desk { map: &map, threads, words_end, slot: 0, seats: &seats };
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
