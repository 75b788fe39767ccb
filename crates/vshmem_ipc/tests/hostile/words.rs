//! Word by word: one piece of nonsense at a time, then everything that members do.

use crate::operations::{ALL, Stage};
use crate::places;
use crate::scene::{Scene, newcomer};
use crate::watchdog::Watchdog;

/// Words of one area that are tried at most; those of larger areas are spread evenly.
const SAMPLES: u64 = 40;

fn scribble_over(names: &[&str]) {
    let scene = Scene::new();
    let pool = scene.lay_out();
    let watchdog = Watchdog::new(1);
    let mut nth = 0;
    for place in places::named(pool.layout(), names) {
        let stride = place.words.div_ceil(SAMPLES).max(1);
        for word in 0..place.words.div_ceil(stride) {
            let at = place.word(word * stride + nth % stride);
            // Some values for every word, all of them for its neighbours together.
            for step in 0..4 {
                nth += 1;
                let late = nth % 2 == 0;
                one(&scene, &pool, &watchdog, place.name, at, nth * 7 + step, late);
            }
        }
    }
}

fn one(
    scene: &Scene,
    pool: &std::sync::Arc<vshmem_ipc::Pool>,
    watchdog: &Watchdog,
    area: &str,
    at: u64,
    nth: u64,
    late: bool,
) {
    let map = pool.map();
    let scribble = || {
        let old = map.load(at, std::sync::atomic::Ordering::Relaxed).unwrap();
        map.store(at, places::nasty(old, nth), std::sync::atomic::Ordering::Relaxed).unwrap();
    };
    let name = |call: &str| format!("{call}, {area} at {at:#x}, value {nth}, late {late}");
    scene.restore(pool);
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
    let stage = Stage { scene, pool, me: &me, far: &far, nth };
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
fn parties() {
    scribble_over(&["domains", "clients", "attaches"]);
}

#[test]
fn threads() {
    scribble_over(&["threads"]);
}

#[test]
fn segments_and_pages() {
    scribble_over(&["segments", "pages"]);
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
