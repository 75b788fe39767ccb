//! The attach table against a model of mappings, and by many threads at once.

mod sequence;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use vshmem_process::attached::attach_table::{
    self, Attaching, Changing, Counts, Marks, Piece, Rights, Table,
};

/// Random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn the_table_says_what_a_model_of_pages_says() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..300 {
        let sequence: Vec<u8> = (0..1200).map(|_| random.next() as u8).collect();
        sequence::play(&sequence);
    }
}

#[test]
fn what_fuzzing_has_kept_is_played_again() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/attach_table");
    for entry in std::fs::read_dir(kept).unwrap() {
        sequence::play(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}

#[test]
fn a_unit_of_a_device_goes_with_the_last_piece_in_it() {
    const UNIT: usize = 2 << 20;
    const BEGIN: usize = 7 * UNIT;
    let table = Table::<8>::new();
    let piece = |from: usize, to: usize| Piece {
        id: 1,
        attach: 1,
        start: BEGIN + from,
        bytes: to - from,
        base: BEGIN,
        offset: 0,
        whole: 3 * UNIT,
        rights: Rights { now: 3, writable: true, marks: Marks::none() },
    };
    // The unmapped part of the two units around what `gone` covers.
    let alone = |gone: std::ops::Range<usize>, units: usize| {
        let (from, to) = (BEGIN + gone.start, BEGIN + gone.end);
        let units = from / UNIT * UNIT..from / UNIT * UNIT + units * UNIT;
        attach_table::without_others(&table, from..to, units, UNIT)
    };
    let first_unit = BEGIN..BEGIN + UNIT;
    table.add(piece(0, PAGE)).unwrap();
    table.add(piece(PAGE, 2 * PAGE)).unwrap();
    // Behind what goes, before it, and on both sides there is a piece.
    assert!(alone(0..PAGE, 1).is_empty());
    assert!(alone(PAGE..2 * PAGE, 1).is_empty());
    table.add(piece(2 * PAGE, UNIT + PAGE)).unwrap();
    assert!(alone(PAGE..2 * PAGE, 1).is_empty());
    // Of a piece that reaches into a second unit, that one goes.
    assert_eq!(alone(2 * PAGE..UNIT + PAGE, 2), BEGIN + UNIT..BEGIN + 2 * UNIT);
    table.take(|piece| piece.bytes > PAGE).unwrap();
    table.take(|piece| piece.start == BEGIN).unwrap();
    assert_eq!(alone(PAGE..2 * PAGE, 1), first_unit);
    table.take(|_| true).unwrap();
    assert_eq!(alone(PAGE..2 * PAGE, 1), first_unit);
}

static PIECES: Table<256> = Table::new();
/// What the pool would count.
static COUNT: AtomicI64 = AtomicI64::new(0);
const PAGE: usize = 4096;

struct Pool;

impl Counts for Pool {
    fn one_more(&self, _: i32) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }

    fn one_less(&self, _: i32) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

fn piece(thread: usize, pages: usize) -> Piece {
    let start = (1 + thread) << 20;
    let rights = Rights { now: 3, writable: true, marks: Marks::none() };
    let (bytes, whole) = (pages * PAGE, pages * PAGE);
    let id = thread as i32;
    Piece { id, attach: 0, start, bytes, base: start, offset: 0, whole, rights }
}

/// Attaches and detaches a piece of its own, beside others that cut theirs.
fn attach_and_detach(thread: usize, rounds: usize) {
    let mine = piece(thread, 4);
    for _ in 0..rounds {
        {
            let _attaching = Attaching::begin();
            // As a handler would in the middle of the call.
            let _nested = Attaching::begin();
            PIECES.add(mine).unwrap();
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(PIECES.find(|piece| piece.id == mine.id), Some(mine));
        let _attaching = Attaching::begin();
        assert_eq!(PIECES.take(|piece| piece.base == mine.base), Some(mine));
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cuts its part of a piece that several share, and looks at it as checks of addresses do.
fn cut(part: usize, rounds: usize) {
    let shared = piece(99, 64);
    let start = shared.start + (2 * part + 1) * PAGE;
    for round in 0..rounds {
        {
            let _changing = Changing::begin();
            let _nested = Attaching::begin();
            let marks = if round % 2 == 0 { Marks::LOCKED } else { Marks::none() };
            attach_table::recut(
                &PIECES,
                &Pool,
                start,
                PAGE,
                |piece| piece.rights.marks != marks,
                |piece| Some(Piece { rights: Rights { marks, ..piece.rights }, ..piece }),
            );
        }
        let seen = attach_table::read_consistent(|| PIECES.find(|piece| piece.holds(start, PAGE)));
        assert!(seen.flatten().is_some(), "a piece is out of the attach table");
    }
}

#[test]
fn threads_that_attach_and_threads_that_cut_lose_nothing() {
    const ROUNDS: usize = 2000;
    PIECES.add(piece(99, 64)).unwrap();
    COUNT.fetch_add(1, Ordering::Relaxed);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A fork now and then: no thread is in the middle of anything then.
            while !over.load(Ordering::Relaxed) {
                attach_table::hold_for_fork();
                let pieces = {
                    let mut pieces = 0;
                    PIECES.each(|_| pieces += 1);
                    pieces
                };
                assert_eq!(pieces, COUNT.load(Ordering::Relaxed));
                attach_table::release_after_fork();
                std::thread::yield_now();
            }
        });
        let workers: Vec<_> = (0..6)
            .map(|thread| {
                scope.spawn(move || match thread % 2 {
                    0 => attach_and_detach(thread, ROUNDS),
                    _ => cut(thread, ROUNDS),
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    // Each cutter has left three pieces of the one that held its part.
    let mut pieces = 0;
    PIECES.each(|_| pieces += 1);
    assert_eq!((pieces, COUNT.load(Ordering::Relaxed)), (7, 7));
}

/// An allocator gives memory back under a lock that fork waits for, too: it must be shown that
/// nothing is attached there.
#[test]
fn who_asks_about_a_range_does_not_wait_for_a_fork() {
    let (changing, asking) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _changing = Changing::begin();
            changing.store(true, Ordering::Release);
            wait(&asking);
        });
        wait(&changing);
        let asker = scope.spawn(|| {
            asking.store(true, Ordering::Release);
            attach_table::read_consistent(|| PIECES.find(|piece| piece.holds(1, 1)).is_some())
        });
        // In any order when the change is over.
        attach_table::hold_for_fork();
        assert_eq!(asker.join().unwrap(), Some(false));
        attach_table::release_after_fork();
    });
    let _changing = Changing::begin();
    assert_eq!(attach_table::read_consistent(|| ()), None, "its own change");
}
