//! A hostile member that scribbles all the time while clients work and sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fixture::*;
use crate::operations::{ALL, Stage};
use crate::places::{self, WordRange, nasty};
use crate::setup::{Setup, address, newcomer};
use crate::watchdog::Watchdog;
use vshmem_ipc::Pool;
use vshmem_mem::{WAKE, futex_wake, signals_handled};
use vshmem_wire::{State, ThreadSlot, WaitState, field};

/// How long the members of one test are troubled.
const SPAN: Duration = Duration::from_secs(4);

/// A simple generator: what it gives is the same every time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn scribble(pool: &Pool, places: &[WordRange], chance: &mut Chance) {
    let place = places[chance.next() as usize % places.len()];
    // Mostly near the beginning, where things are in use.
    let wake_scope =
        if chance.next().is_multiple_of(4) { place.words } else { place.words.min(200) };
    let at = place.word(chance.next() % wake_scope);
    let old = pool.map().load(at, Ordering::Relaxed).unwrap();
    let value = match chance.next() % 8 {
        0 => chance.next(),
        _ => nasty(old, chance.next()),
    };
    pool.map().store(at, value, Ordering::Relaxed).unwrap();
}

/// Sends every waiter away: nothing that it could wait for is left, and it is woken, however long
/// it has been made to sleep.
fn release(pool: &Pool) {
    let layout = pool.layout();
    for target in places::named(layout, &["sets", "queues", "futexes"]) {
        (0..target.words)
            .for_each(|word| pool.map().store(target.word(word), 0, Ordering::Relaxed).unwrap());
    }
    for slot in 0..layout.threads.count as u32 {
        let at = layout.threads.at(slot).unwrap();
        let wait_at = field!(at, ThreadSlot, wait).cell();
        pool.map()
            .store(wait_at.word(), WaitState::Retry.number().into(), Ordering::SeqCst)
            .unwrap();
        let word = pool.map().futex(field!(at, ThreadSlot, doorbell).offset()).unwrap();
        word.fetch_add(WAKE, Ordering::SeqCst);
        futex_wake(word);
    }
}

/// Makes every call in turn, each bounded by the watchdog.
fn call_all(
    setup: &Setup,
    pool: &Arc<Pool>,
    watchdog: &Watchdog,
    thread: usize,
    over: &AtomicBool,
) {
    let mut nth = thread as u64;
    while !over.load(Ordering::Relaxed) {
        nth += 1;
        let pid = 50 + nth as u32 % 7 + 10 * thread as u32;
        let join = || (newcomer(pool, "a", pid), newcomer(pool, "b", pid));
        let (Some(me), Some(far)) = watchdog.call(thread, || "join".into(), join) else {
            setup.restore(pool);
            continue;
        };
        let stage = Stage { setup, pool, me: &me, far: &far, nth };
        for (call, run) in ALL {
            watchdog.call(thread, || (*call).into(), || run(&stage));
        }
        // What is there for the next round has to be something.
        if nth.is_multiple_of(3) {
            setup.restore(pool);
        }
    }
}

/// Makes calls that really sleep, until another thread wakes them.
fn sleep_often(setup: &Setup, pool: &Arc<Pool>, thread: usize, over: &AtomicBool) {
    let mut nth = 0usize;
    while !over.load(Ordering::Relaxed) {
        nth += 1;
        let Some(me) = newcomer(pool, "a", 80 + thread as u32) else {
            std::thread::yield_now();
            continue;
        };
        let here = address(pool, nth as u64 % 6);
        let _ = match nth % 5 {
            4 => me.futex_wait(here, &mut || true, None, signals_handled()).map(drop),
            0 => me.op(setup.sets[0], &[undone(down(0)), up(1)]),
            1 => me.receive(setup.queues[nth / 4 % 4], nth as i64 % 7 - 3).map(drop),
            2 => me.op(setup.sets[1], &(0..12).map(down).collect::<Vec<_>>()),
            _ => me.send(setup.queues[0], 3, &[1; 200]),
        };
    }
}

/// A thread that works. One that panics does not, and must not be waited for.
struct Works<'a>(&'a AtomicUsize);

impl Drop for Works<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn trouble(names: &[&str], pause: Option<Duration>) {
    let setup = Setup::new();
    let pool = setup.lay_out();
    let places = places::named(pool.layout(), names);
    let watchdog = Watchdog::new(4);
    let (over, working) = (AtomicBool::new(false), AtomicUsize::new(4));
    let letters = names.iter().flat_map(|name| name.bytes());
    let seed = letters.fold(7u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
    std::thread::scope(|scope| {
        let (setup, pool, watchdog, places) = (&setup, &pool, &watchdog, &places);
        let (over, working) = (&over, &working);
        for thread in 0..2usize {
            scope.spawn(move || {
                let _works = Works(working);
                call_all(setup, pool, watchdog, thread, over);
            });
        }
        for thread in 2..4usize {
            scope.spawn(move || {
                let _works = Works(working);
                sleep_often(setup, pool, thread, over);
            });
        }
        let begun = Instant::now();
        let mut chance = Chance(seed);
        let mut turn = 0u64;
        while begun.elapsed() < SPAN {
            turn += 1;
            scribble(pool, places, &mut chance);
            match pause {
                Some(pause) => std::thread::sleep(pause),
                None if turn.is_multiple_of(64) => std::thread::yield_now(),
                None => {}
            }
            if turn.is_multiple_of(if pause.is_some() { 500 } else { 500_000 }) {
                release(pool);
            }
        }
        over.store(true, Ordering::Relaxed);
        // The waiters' own calls have no bound but this one. In looks: by the clock they would
        // have less of it on a loaded machine.
        let mut looks = 0;
        while working.load(Ordering::Relaxed) > 0 {
            looks += 1;
            assert!(looks < 30_000, "a waiter does not go away");
            release(pool);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

const RESTED: Option<Duration> = Some(Duration::from_micros(200));

#[test]
fn over_clients() {
    trouble(&["domains", "clients", "attaches"], RESTED);
}

#[test]
fn over_threads() {
    trouble(&["threads"], RESTED);
}

#[test]
fn over_objects() {
    trouble(&["registry", "segments", "sets", "queues", "undos", "futexes"], RESTED);
}

#[test]
fn over_keys() {
    trouble(&["keys of segments", "keys of sets", "keys of queues"], RESTED);
}

#[test]
fn over_heap() {
    trouble(&["slabs", "units", "heap", "extents", "dirty marks"], RESTED);
}

#[test]
fn over_everything_without_rest() {
    let all: Vec<_> = places::all(scene_layout().as_ref()).iter().map(|place| place.name).collect();
    trouble(&all, None);
}

fn scene_layout() -> Box<vshmem_wire::Layout> {
    Box::new(*Setup::new().lay_out().layout())
}
