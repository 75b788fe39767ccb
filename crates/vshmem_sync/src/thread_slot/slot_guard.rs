//! The thread slots that this process holds, and taking one for the length of a call.
//!
//! Some slots of the pool, and some entries of the process's cache, are *reserved* for calls that
//! do not sleep: otherwise sleeping threads could hold all of them, and no thread could wake one.

use std::ops::Range;

use vshmem_mem::unmodelled::AtomicU64;
use vshmem_mem::{AtomicU32, AtomicUsize, Map, Ordering};
use vshmem_wire::{Area, Cell, ClientId, Place, RawCell, ThreadSlot, field};

use super::client_list::{ClientList, ListEntry};
use crate::cell::claim_word;
use crate::fault::Fault;

/// Thread slots of one process at most: threads inside a call at the same time, signal handlers
/// that interrupted one included.
const MOST_SLOTS: usize = if cfg!(loom) { 1 } else { 2048 };
/// Slot guards that are kept for the next call; others go back to the pool when they can.
const KEPT: usize = 8;
/// Of [`MOST_SLOTS`], the last ones, in which no thread sleeps: a thread of this process must be
/// able to wake the others.
const RESERVED_ENTRIES: usize = if cfg!(loom) { 0 } else { 64 };
const SLEEPING_ENTRIES: usize = MOST_SLOTS - RESERVED_ENTRIES;
/// How deep calls of one thread may nest, by way of signal handlers, before a slot in use is taken
/// to be abandoned.
const NESTED: usize = 8;

/// How many of the pool's thread slots no thread sleeps in: an eighth of them, 1 to 64.
const fn reserved(threads: Area<ThreadSlot>) -> u32 {
    let eighth = threads.count / 8;
    (if eighth == 0 {
        1
    } else if eighth > 64 {
        64
    } else {
        eighth
    }) as u32
}

/// The slots that threads may sleep in.
const fn unreserved(threads: Area<ThreadSlot>) -> Range<u32> {
    0..(threads.count as u32).saturating_sub(reserved(threads))
}

/// Whom thread slots are claimed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotOwner {
    /// Its client id.
    pub client: ClientId,
    /// The list of what it has claimed; `None` for who is only just joining.
    pub list: Option<Place<RawCell>>,
}

#[derive(Debug)]
struct CachedSlot {
    /// 0 free; 1 in use; 2 left by longjmp, and being recovered.
    busy: AtomicU32,
    /// Thread slot plus one; 0 when none is claimed yet.
    slot: AtomicU32,
    /// Which thread uses it.
    thread: AtomicUsize,
    /// How far its stack had grown then.
    frame: AtomicUsize,
}

/// The thread slots that this process has claimed.
#[derive(Debug)]
pub struct SlotCache {
    cached_slots: Box<[CachedSlot]>,
    /// The first that many are those for which a thread slot has ever been claimed.
    claimed: AtomicU64,
    /// The cell that says whether this process may make changes: its offset, and its tag as long
    /// as it may. Private to the process: nothing for a model checker to order.
    validity: (AtomicU64, AtomicU64),
}

/// A thread slot in use; given back when dropped.
#[derive(Debug)]
pub struct SlotGuard<'a> {
    slot_cache: &'a SlotCache,
    /// Which of the cached slots it is.
    index: usize,
    /// The thread slot.
    pub slot: u32,
    /// Whether the thread may sleep in it.
    may_sleep: bool,
    /// Where to give the slot back to, when it is not to be kept.
    surplus: Option<(&'a Map, Area<ThreadSlot>, SlotOwner)>,
}

impl SlotCache {
    /// No slot guards yet. Allocates: to be called at set-up, not inside a call.
    #[must_use]
    pub fn new() -> Self {
        let cached = || CachedSlot {
            busy: AtomicU32::new(0),
            slot: AtomicU32::new(0),
            thread: AtomicUsize::new(0),
            frame: AtomicUsize::new(0),
        };
        Self {
            cached_slots: (0..MOST_SLOTS).map(|_| cached()).collect(),
            claimed: AtomicU64::new(0),
            validity: Default::default(),
        }
    }

    /// From now on changes are made only while the cell `at` is still `cell`: has not been
    /// written since.
    pub fn bind_to(&self, at: Place<RawCell>, cell: Cell) {
        // Barrier VALIDITY: pairs with the acquire in `check_current`. A thread that reads the
        // new offset reads the new tag.
        self.validity.0.store(0, Ordering::Relaxed);
        self.validity.1.store(cell.tag, Ordering::Release);
        self.validity.0.store(at.tag().offset(), Ordering::Release);
    }

    /// From now on changes are made without this check.
    pub fn unbind(&self) {
        self.validity.0.store(0, Ordering::Release);
    }

    /// Whether this process may still make changes: its domain has not been evicted since it
    /// joined.
    ///
    /// Asked again under every lock. The thread that evicts it changes the word first and looks for
    /// the locks that it holds then; both in the one order of sequentially consistent accesses, so
    /// either this sees the word changed, or that sees the lock held, and takes it over.
    ///
    /// # Errors
    /// [`Fault::Evicted`] when not.
    #[inline]
    pub fn check_current(&self, map: &Map) -> Result<(), Fault> {
        // Pairs with VALIDITY in `bind_to`.
        let offset = self.validity.0.load(Ordering::Acquire);
        if offset == 0 {
            return Ok(());
        }
        // The model checker takes the load below for an acquiring one and no more.
        #[cfg(loom)]
        vshmem_mem::fence(Ordering::SeqCst);
        // Barrier EVICT: pairs with the evictor's swap of this word, before its look at the lock.
        if map.load(offset, Ordering::SeqCst)? == self.validity.1.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Fault::Evicted)
    }

    /// Forgets all slot guards: in a forked child they are the parent's.
    pub fn forget(&self) {
        for cached in &self.cached_slots {
            cached.slot.store(0, Ordering::Relaxed);
            cached.thread.store(0, Ordering::Relaxed);
            cached.busy.store(0, Ordering::Release);
        }
    }

    /// Gives the slots back to the pool that a joining client has claimed and does not use.
    pub fn give_back(&self, map: &Map, threads: Area<ThreadSlot>, client: ClientId) {
        for cached in &self.cached_slots {
            let taken = cached.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            let slot = cached.slot.swap(0, Ordering::Relaxed);
            if let Some(at) = slot.checked_sub(1).and_then(|slot| threads.at(slot)) {
                // A slot that is no longer ours (evicted) stays as it is.
                let _ = claim_word(map, field!(at, ThreadSlot, owner), client.word(), 0);
            }
            cached.busy.store(0, Ordering::Release);
        }
    }

    /// Gives slots back to the pool that are beyond those that are kept, or reserved, and not in
    /// use: the one that was claimed last, and so on as far as that goes.
    fn give_back_surplus(
        &self,
        map: &Map,
        threads: Area<ThreadSlot>,
        slot_owner: SlotOwner,
    ) -> Result<(), Fault> {
        let Some(list) = slot_owner.list else { return Ok(()) };
        for _ in 0..MOST_SLOTS {
            let all = ClientList { map, list, client: slot_owner.client };
            let Some((head, last)) = all.last()? else { return Ok(()) };
            let Some(cached) = self.idle_surplus(last + 1, threads) else { return Ok(()) };
            let given = thread_list_entry(threads, last).and_then(|held| all.give_up(head, held));
            if given == Ok(true) {
                cached.slot.store(0, Ordering::Relaxed);
            }
            cached.busy.store(0, Ordering::Release);
            if !given? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The cached slot that has `slot` (plus one) and is not to be kept, made busy. While one that
    /// is reserved lies behind it in the list, it is not kept either.
    fn idle_surplus(&self, slot: u32, threads: Area<ThreadSlot>) -> Option<&CachedSlot> {
        let is_idle = |cached: &CachedSlot| cached.busy.load(Ordering::Relaxed) == 0;
        let holds_reserved = self.claimed().iter().any(|cached| {
            cached.slot.load(Ordering::Relaxed) > unreserved(threads).end && is_idle(cached)
        });
        let skipped = if holds_reserved { 0 } else { KEPT };
        let cached = self
            .cached_slots
            .iter()
            .skip(skipped)
            .find(|cached| is_idle(cached) && cached.slot.load(Ordering::Relaxed) == slot)?;
        cached.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        if cached.slot.load(Ordering::Relaxed) == slot {
            return Some(cached);
        }
        cached.busy.store(0, Ordering::Release);
        None
    }

    /// Takes a slot guard, claiming a thread slot for `slot_owner` if none is at hand: a reserved
    /// one if there is no other. `None` when the pool has no slot left.
    ///
    /// # Errors
    /// When the thread table is not what it should be.
    pub fn take<'a>(
        &'a self,
        map: &'a Map,
        threads: Area<ThreadSlot>,
        slot_owner: SlotOwner,
    ) -> Result<Option<SlotGuard<'a>>, Fault> {
        let entries = 0..self.cached_slots.len();
        match self.take_in(map, threads, slot_owner, entries.clone(), unreserved(threads))? {
            None => self.take_in(map, threads, slot_owner, entries, 0..threads.count as u32),
            taken => Ok(taken),
        }
    }

    /// As [`SlotCache::take`], for a call that is of no use if it cannot sleep: none that is
    /// reserved.
    ///
    /// # Errors
    /// As [`SlotCache::take`].
    pub fn take_to_sleep<'a>(
        &'a self,
        map: &'a Map,
        threads: Area<ThreadSlot>,
        slot_owner: SlotOwner,
    ) -> Result<Option<SlotGuard<'a>>, Fault> {
        self.take_in(map, threads, slot_owner, 0..SLEEPING_ENTRIES, unreserved(threads))
    }

    /// Takes one of the slots `wanted` in one of `entries`.
    #[inline]
    fn take_in<'a>(
        &'a self,
        map: &'a Map,
        threads: Area<ThreadSlot>,
        slot_owner: SlotOwner,
        entries: Range<usize>,
        wanted: Range<u32>,
    ) -> Result<Option<SlotGuard<'a>>, Fault> {
        let me = this_thread();
        let mut may_claim = true;
        for index in entries {
            let cached = &self.cached_slots[index];
            let free = cached.busy.load(Ordering::Relaxed) == 0
                && cached.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if !free {
                continue;
            }
            cached.thread.store(me, Ordering::Relaxed);
            cached.frame.store(this_frame(), Ordering::Relaxed);
            let found = match cached.slot.load(Ordering::Relaxed).checked_sub(1) {
                Some(known) => Ok(Some(known).filter(|known| wanted.contains(known))),
                None if may_claim => {
                    self.claim_for(cached, index, map, threads, slot_owner, &wanted)
                }
                None => Ok(None),
            };
            if let Ok(Some(slot)) = found {
                let may_sleep = index < SLEEPING_ENTRIES && unreserved(threads).contains(&slot);
                let is_surplus = index >= KEPT || !may_sleep;
                let surplus = is_surplus.then_some((map, threads, slot_owner));
                return Ok(Some(SlotGuard { slot_cache: self, index, slot, may_sleep, surplus }));
            }
            // The other entries may still have one.
            may_claim &= cached.slot.load(Ordering::Relaxed) != 0;
            cached.busy.store(0, Ordering::Release);
            found?;
        }
        Ok(None)
    }

    /// Claims one of the slots `wanted` for an entry that has none.
    fn claim_for(
        &self,
        cached: &CachedSlot,
        index: usize,
        map: &Map,
        threads: Area<ThreadSlot>,
        slot_owner: SlotOwner,
        wanted: &Range<u32>,
    ) -> Result<Option<u32>, Fault> {
        let claimed = claim(map, threads, slot_owner, wanted)?;
        if let Some(slot) = claimed {
            cached.slot.store(slot + 1, Ordering::Relaxed);
            self.claimed.fetch_max(index as u64 + 1, Ordering::Relaxed);
        }
        Ok(claimed)
    }

    /// Calls `recover` with each thread slot of a call of this thread that a signal handler has
    /// left by longjmp. Where `recover` returns true, the slot can be used again. `slot_guard` is
    /// the caller's own.
    ///
    /// The frame of such a call is gone: it lies below the caller's, on a stack that grows down.
    /// A call that a handler on another stack has interrupted can look the same and is not over. So
    /// nothing is done unless the thread has more slot guards in use than handlers may nest.
    #[cold]
    pub fn recover_abandoned(
        &self,
        slot_guard: &SlotGuard<'_>,
        mut recover: impl FnMut(u32) -> bool,
    ) {
        let (me, frame) =
            (this_thread(), self.cached_slots[slot_guard.index].frame.load(Ordering::Relaxed));
        let mine = |cached: &&CachedSlot| {
            cached.busy.load(Ordering::Relaxed) == 1 && cached.thread.load(Ordering::Relaxed) == me
        };
        if self.claimed().iter().filter(mine).count() <= NESTED {
            return;
        }
        for (index, cached) in self.claimed().iter().enumerate() {
            let left = index != slot_guard.index
                && mine(&cached)
                && cached.frame.load(Ordering::Relaxed) <= frame.saturating_add(FRAME)
                && cached.busy.compare_exchange(1, 2, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if !left {
                continue;
            }
            let slot = cached.slot.load(Ordering::Relaxed);
            let again = slot.checked_sub(1).is_none_or(&mut recover);
            cached.busy.store(if again { 0 } else { 1 }, Ordering::Release);
        }
    }

    /// Whether other threads of this process are in the middle of calls.
    #[must_use]
    pub fn others_busy(&self) -> bool {
        let me = this_thread();
        self.cached_slots.iter().any(|cached| {
            cached.busy.load(Ordering::Relaxed) == 1 && cached.thread.load(Ordering::Relaxed) != me
        })
    }

    /// The cached slots that may have a thread slot: all that the calling thread uses are among
    /// them, as it has taken those itself.
    fn claimed(&self) -> &[CachedSlot] {
        let claimed = self.claimed.load(Ordering::Relaxed) as usize;
        &self.cached_slots[..claimed.min(MOST_SLOTS)]
    }

    /// Whether `slot` is used further out by the thread that asks: it was interrupted by the
    /// signal handler that we are in.
    #[cold]
    #[must_use]
    pub fn is_mine(&self, slot: u32) -> bool {
        let me = this_thread();
        self.claimed().iter().any(|cached| {
            cached.busy.load(Ordering::Relaxed) != 0
                && cached.slot.load(Ordering::Relaxed) == slot.wrapping_add(1)
                && cached.thread.load(Ordering::Relaxed) == me
        })
    }
}

impl Default for SlotCache {
    fn default() -> Self {
        Self::new()
    }
}

impl SlotGuard<'_> {
    /// Whether the thread may enter a wait queue with it: a reserved one is for calls that do not
    /// sleep.
    #[must_use]
    #[inline]
    pub fn may_sleep(&self) -> bool {
        self.may_sleep
    }

    /// Whether it is beyond those that are kept, or reserved: many are in use.
    #[must_use]
    #[inline]
    pub fn is_surplus(&self) -> bool {
        self.surplus.is_some()
    }
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        let cached = &self.slot_cache.cached_slots[self.index];
        // Barrier IDLE: pairs with the acquire in `take`.
        cached.busy.store(0, Ordering::Release);
        if let Some((map, threads, slot_owner)) = self.surplus.take() {
            // What cannot be given back is used by a later call.
            let _ = self.slot_cache.give_back_surplus(map, threads, slot_owner);
        }
    }
}

/// Claims a free thread slot of those `wanted`, and notes it in the claimant's list, by which the
/// slot is found when it dies. A thread that dies in between leaves a slot that carries its client
/// id and was never used.
fn claim(
    map: &Map,
    threads: Area<ThreadSlot>,
    slot_owner: SlotOwner,
    wanted: &Range<u32>,
) -> Result<Option<u32>, Fault> {
    let count = wanted.end - wanted.start;
    let client = slot_owner.client;
    // Clients start at different slots, so that they do not all try the same slots.
    let start = (client.word() as u32).wrapping_mul(7) % count.max(1);
    for step in 0..count {
        let held = thread_list_entry(threads, wanted.start + (start + step) % count)?;
        let claimed = match slot_owner.list {
            Some(list) => ClientList { map, list, client }.claim(held)?,
            None => claim_word(map, held.owner, 0, client.word())?,
        };
        if claimed {
            return Ok(Some(held.number));
        }
    }
    Ok(None)
}

/// A thread slot as something that clients hold.
///
/// # Errors
/// When there is no such slot.
pub fn thread_list_entry(threads: Area<ThreadSlot>, slot: u32) -> Result<ListEntry, Fault> {
    let at = threads.row(slot)?;
    let (owner, sibling) = (field!(at, ThreadSlot, owner), field!(at, ThreadSlot, sibling));
    Ok(ListEntry { number: slot, owner, sibling })
}

/// How much the frames differ at most from which the same program asks, one call like the other. A
/// handler's is further off: the kernel's own frame lies between.
const FRAME: usize = 256;

/// How far the stack of the calling thread has grown.
#[inline(always)]
fn this_frame() -> usize {
    let here = 0u8;
    std::hint::black_box(std::ptr::from_ref(&here)).addr()
}

/// A number that differs between the threads of a process.
fn this_thread() -> usize {
    thread_local! {
        static MARK: u8 = const { 0 };
    }
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A thread that waits for a lock asks it each time that the lock has another holder.
    #[test]
    fn whose_a_slot_is_takes_a_look_at_the_claimed_ones_alone() {
        let map = Map::anonymous(4096);
        let threads = Area::new(0, 4);
        let owner = SlotOwner { client: ClientId::new(0, 1), list: None };
        let slot_cache = SlotCache::new();
        assert!(slot_cache.claimed().is_empty());
        let take = || slot_cache.take(&map, threads, owner).unwrap().unwrap();
        let outer = take();
        let inner = take();
        assert!(slot_cache.is_mine(outer.slot) && slot_cache.is_mine(inner.slot));
        assert_eq!(slot_cache.claimed().len(), 2);
        let of_outer = outer.slot;
        drop(outer);
        assert!(!slot_cache.is_mine(of_outer));
        drop((inner, take()));
        assert_eq!(slot_cache.claimed().len(), 2);
    }
}
