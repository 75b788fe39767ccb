//! Pages prepared ahead of demand, and which free extent a segment gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fixture::*;
use vshmem_ipc::{Backing, Client, Errno, Pool};
use vshmem_wire::{Geometry, Place, RawCell, Registry, field};

const PAGE: u64 = 4096;

/// Counts the pages that have to be cleared when a segment is made.
struct Counting<'a>(&'a Pool, AtomicU32);

impl Backing for Counting<'_> {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        if dirty {
            self.1.fetch_add((bytes / PAGE) as u32, Ordering::Relaxed);
        }
        Zeroing(self.0).prepare(offset, bytes, dirty)
    }
}

fn make(me: &Client, pages: u64) -> i32 {
    me.segment(PRIVATE, pages * PAGE, 0).unwrap()
}

/// Makes a segment and returns how many of its pages were dirty.
fn dirty_in(me: &Client, pages: u64) -> u32 {
    let count = Counting(me.pool(), AtomicU32::new(0));
    let id = me.shmget(PRIVATE, pages * PAGE, 0o600, &ROOT, &count).unwrap();
    me.segment_remove(id, &ROOT).unwrap();
    count.1.into_inner()
}

fn write_all_over(me: &Client, id: i32) {
    let place = me.shmat(id, true, false, &ROOT).unwrap();
    me.pool().map().write(place.offset, &vec![0xa5; place.bytes as usize]).unwrap();
    me.shmdt(id).unwrap();
}

fn is_zero(me: &Client, id: i32) -> bool {
    let place = me.shmat(id, true, false, &ROOT).unwrap();
    let mut bytes = vec![1; place.bytes as usize];
    me.pool().map().read(place.offset, &mut bytes).unwrap();
    me.shmdt(id).unwrap();
    bytes.iter().all(|byte| *byte == 0)
}

#[test]
fn only_pages_that_were_in_a_segment_are_dirty() {
    let pool = pool();
    let me = join(&pool, 10);
    assert_eq!(room(&pool).pages_clean, 256);
    assert_eq!(dirty_in(&me, 40), 0);
    assert_eq!(room(&pool).pages_clean, 216);
    assert_eq!(dirty_in(&me, 70), 40);
    assert_eq!(dirty_in(&me, 70), 70);
    empty(&pool, &me);
}

#[test]
fn what_was_cleaned_reads_as_zeros_and_needs_no_clearing() {
    let pool = pool();
    let me = join(&pool, 10);
    let ids: Vec<i32> = (0..4).map(|_| make(&me, 33)).collect();
    for id in &ids {
        write_all_over(&me, *id);
    }
    me.segment_remove(ids[0], &ROOT).unwrap();
    me.segment_remove(ids[2], &ROOT).unwrap();
    let before = room(&pool).pages_clean;
    let mut cleaned = 0;
    while let bytes @ 1.. = me.clean_pages(u64::MAX, &Zeroing(&pool)).unwrap() {
        cleaned += bytes / PAGE;
        sound(&pool);
    }
    assert_eq!((cleaned, room(&pool).pages_clean), (66, before + 66));
    assert_eq!(dirty_in(&me, 33), 0);
    let id = make(&me, 33);
    assert!(is_zero(&me, id));
    for id in [id, ids[1], ids[3]] {
        me.segment_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn no_more_is_cleaned_than_was_asked_for() {
    let pool = pool();
    let me = join(&pool, 10);
    let all = make(&me, 256);
    me.segment_remove(all, &ROOT).unwrap();
    assert_eq!(room(&pool).pages_clean, 0);
    while me.clean_pages(256 * PAGE, &Zeroing(&pool)).unwrap() > 0 {}
    assert_eq!(room(&pool).pages_clean, 256);
    let half = make(&me, 128);
    me.segment_remove(half, &ROOT).unwrap();
    assert_eq!(me.clean_pages(0, &Zeroing(&pool)), Ok(0));
    assert_eq!(room(&pool).pages_clean, 128);
    empty(&pool, &me);
}

#[test]
fn pages_that_cannot_be_cleaned_are_given_back_dirty() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = make(&me, 20);
    me.segment_remove(id, &ROOT).unwrap();
    assert_eq!(me.clean_pages(u64::MAX, &Broke), Err(Errno::NOSPC));
    sound(&pool);
    assert_eq!(dirty_in(&me, 20), 20);
    empty(&pool, &me);
}

/// Makes a segment of the whole pool while some of it is being cleaned.
struct Meanwhile<'a>(&'a Arc<Pool>, &'a Client);

impl Backing for Meanwhile<'_> {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        let (other, done) = (self.1, std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // One that waits without success for longer than cleaning takes.
                assert_eq!(other.segment(PRIVATE, 256 * PAGE, 0), Err(Errno::NOSPC));
                done.store(true, Ordering::Release);
            });
            until("the other's answer", || done.load(Ordering::Acquire));
        });
        Zeroing(self.0).prepare(offset, bytes, dirty)
    }
}

#[test]
fn pages_under_cleaning_are_nobodys_and_come_back() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let all = make(&me, 256);
    me.segment_remove(all, &ROOT).unwrap();
    assert_eq!(me.clean_pages(u64::MAX, &Meanwhile(&pool, &other)), Ok(256 * PAGE));
    let all = make(&other, 256);
    me.segment_remove(all, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn where_memory_is_prepared_large_segments_get_clean_pages_first() {
    let pool = pool_that_prepares(Geometry { pages: 23_000, ..small() }, 64 * PAGE);
    let me = join(&pool, 10);
    for n in 0..5 {
        assert_eq!(dirty_in(&me, 4100), 0, "{n}");
    }
    assert_eq!(dirty_in(&me, 4100), 4100);
    assert_eq!(dirty_in(&me, 60), 60);
    empty(&pool, &me);
}

/// Has pages mapped already.
struct Having<'a>(&'a Pool, u64);

impl Backing for Having<'_> {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        Zeroing(self.0).prepare(offset, bytes, dirty)
    }

    fn at_hand(&self, _: u64) -> Option<u64> {
        Some(self.0.layout().data.offset().wrapping_add(self.1.wrapping_mul(PAGE)))
    }
}

#[test]
fn pages_that_are_at_hand_are_taken_where_they_are_free() {
    let pool = pool();
    let me = join(&pool, 10);
    let base = pool.layout().data.offset();
    let place = |wish: u64| {
        let having = Having(&pool, wish);
        let id = me.shmget(PRIVATE, 9 * PAGE, 0o600, &ROOT, &having).unwrap();
        let at = me.shmat(id, true, false, &ROOT).unwrap().offset - base;
        sound(&pool);
        (id, at / PAGE)
    };
    let wishes = [77, 77, 250, u64::MAX - 3, 0];
    let made: Vec<_> = wishes.into_iter().map(place).collect();
    assert_eq!(made[0].1, 77);
    for (id, _) in &made {
        me.segment_remove(*id, &ROOT).unwrap();
        me.shmdt(*id).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn a_fit_is_found_however_many_smaller_extents_come_before_it() {
    let pool = pool_of(Geometry { shmmni: 1000, attaches: 1000, pages: 1600, ..small() });
    let me = join(&pool, 10);
    // The one hole of three pages is the first to be freed, so the last in the list of its size.
    let wide = make(&me, 3);
    let mut walls = vec![make(&me, 1)];
    let mut holes = Vec::new();
    for _ in 0..400 {
        holes.push(make(&me, 2));
        walls.push(make(&me, 1));
    }
    let rest = make(&me, room(&pool).pages_free);
    me.segment_remove(wide, &ROOT).unwrap();
    for hole in holes {
        me.segment_remove(hole, &ROOT).unwrap();
    }
    assert_eq!(room(&pool).free_extents, 401);
    assert_eq!(room(&pool).largest_free, 3);
    let fit = make(&me, 3);
    assert_eq!(me.segment(PRIVATE, 3 * PAGE, 0), Err(Errno::NOSPC));
    sound(&pool);
    for id in walls.into_iter().chain([fit, rest]) {
        me.segment_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn a_segment_that_is_aligned_leaves_room_on_both_sides() {
    let pool = pool_of(Geometry { pages: 4096, ..small() });
    let me = join(&pool, 10);
    let first = me.segment(1, PAGE, CREATE).unwrap();
    let large = me.segment(2, 600 * PAGE, CREATE).unwrap();
    let base = pool.layout().data.offset();
    assert_eq!((me.shmat(large, true, false, &ROOT).unwrap().offset - base) % (2 << 20), 0);
    assert_eq!(room(&pool).free_extents, 2);
    sound(&pool);
    me.segment_remove(first, &ROOT).unwrap();
    me.segment_remove(large, &ROOT).unwrap();
    me.shmdt(large).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_live_segment_that_is_marked_clean_is_noticed() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = make(&me, 3);
    let at = pool.layout().dirty.offset();
    let word = pool.map().load(at, Ordering::Relaxed).unwrap();
    pool.map().store(at, word & !2, Ordering::Relaxed).unwrap();
    assert_eq!(pool.check().unwrap().len(), 1);
    pool.map().store(at, word, Ordering::Relaxed).unwrap();
    me.segment_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_cleaner_that_does_not_exist_is_repaired() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = make(&me, 3);
    me.segment_remove(id, &ROOT).unwrap();
    let cleaner = field!(pool.layout().registry, Registry, cleaner);
    struct Stop<'a>(&'a Pool, Place<RawCell>);
    impl Backing for Stop<'_> {
        fn prepare(&self, _: u64, _: u64, _: bool) -> Result<(), Errno> {
            // As if the slot had been lost.
            let word = self.0.map().load(self.1.word(), Ordering::Relaxed).unwrap();
            let other = (word & !0xffff_ffff) | 16;
            self.0.map().store(self.1.word(), other, Ordering::Relaxed).unwrap();
            Ok(())
        }
    }
    assert_eq!(me.clean_pages(u64::MAX, &Stop(&pool, cleaner)), Err(Errno::IO));
    assert_eq!(pool.check().unwrap().len(), 1);
    assert_eq!(me.repair(), Ok(Vec::new()));
    empty(&pool, &me);
}

#[test]
fn the_tables_of_a_gibibyte_take_less_than_three_and_two_thirds_percent() {
    let total = 1u64 << 30;
    let geometry = Geometry::for_size(total).unwrap();
    let layout = geometry.layout().unwrap();
    let tables = total - (layout.heap.end() - layout.heap.offset()) - geometry.pages * PAGE;
    let share = tables as f64 * 100.0 / total as f64;
    assert!(share < 3.66, "{share:.2} %");
    assert_eq!((geometry.shmmni, geometry.semmni, geometry.msgmni), (4096, 16384, 16384));
    assert!(geometry.clients >= 4096 && geometry.threads >= 2048);
}
