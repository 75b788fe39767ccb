//! Word by word: one piece of nonsense at a time, then everything that members do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vshmem_ipc::Pool;

use crate::operations::{ALL, Stage};
use crate::places::{self, WordRange};
use crate::setup::{Setup, newcomer};
use crate::watchdog::Watchdog;

/// Cases of one test, unless HOSTILE_CASES says otherwise.
const CASES: usize = 1200;

fn cases() -> usize {
    std::env::var("HOSTILE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// The words of structures that are in use. Of a thread slot's record, the beginning.
fn words_in_use(pool: &Pool, place: &WordRange) -> Vec<u64> {
    let load = |word: u64| pool.map().load(place.word(word), Ordering::Relaxed).unwrap();
    (0..place.words / place.each)
        .map(|nth| nth * place.each..(nth + 1) * place.each)
        .filter(|structure| structure.clone().any(|word| load(word) != 0))
        .flat_map(|structure| structure.take(96))
        .map(|word| place.word(word))
        .collect()
}

fn scribble_over(names: &[&str]) {
    let setup = Setup::new();
    let pool = setup.lay_out();
    let watchdog = Watchdog::new(1);
    let places = places::named(pool.layout(), names);
    let words: Vec<_> = places
        .iter()
        .flat_map(|place| words_in_use(&pool, place).into_iter().map(|at| (place.name, at)))
        .collect();
    // Every value for every word if there is time, else other ones for each word and spread evenly.
    let most = words.len() * places::NASTY as usize;
    let cases = cases().min(most);
    for nth in 0..cases {
        let case = (nth as u64 * 7919 + nth as u64 / most as u64) % most as u64;
        let (name, at) = words[case as usize % words.len()];
        let value = case / words.len() as u64;
        one(&setup, &pool, &watchdog, name, at, value, nth % 2 == 0);
    }
}

fn one(
    setup: &Setup,
    pool: &Arc<Pool>,
    watchdog: &Watchdog,
    area: &str,
    at: u64,
    value: u64,
    late: bool,
) {
    let map = pool.map();
    let scribble = || {
        let old = map.load(at, Ordering::Relaxed).unwrap();
        map.store(at, places::nasty(old, value), Ordering::Relaxed).unwrap();
    };
    let name = |call: &str| format!("{call}, {area} at {at:#x}, value {value}, late {late}");
    setup.restore(pool);
    if !late {
        scribble();
    }
    let join = || (newcomer(pool, "a", 10), newcomer(pool, "b", 21));
    let (Some(me), Some(far)) = watchdog.call(0, || name("join"), join) else {
        watchdog.call(0, || name("check"), || pool.check().err());
        return;
    };
    if late {
        scribble();
    }
    let stage = Stage { setup, pool, me: &me, far: &far, nth: at / 8 + value };
    for (call, run) in ALL {
        watchdog.call(0, || name(call), || run(&stage));
    }
    watchdog.call(0, || name("leave"), || me.leave().err());
}

#[test]
fn registry_and_keys() {
    scribble_over(&[
        "superblock",
        "registry",
        "keys of segments",
        "keys of sets",
        "keys of queues",
    ]);
}

#[test]
fn client_table() {
    scribble_over(&["domains", "clients", "attaches"]);
}

#[test]
fn wait_queues_by_address() {
    scribble_over(&["futexes"]);
}

#[test]
fn threads() {
    scribble_over(&["threads"]);
}

#[test]
fn segments_and_pages() {
    scribble_over(&["segments", "extents", "dirty marks"]);
}

#[test]
fn sets_and_adjustments() {
    scribble_over(&["sets", "undos"]);
}

#[test]
fn queues() {
    scribble_over(&["queues"]);
}

#[test]
fn heap() {
    scribble_over(&["slabs", "units", "heap"]);
}
