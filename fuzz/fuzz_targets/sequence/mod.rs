//! A sequence against a pool in the middle of its life. Its words are those of the hostile tests.
#![allow(dead_code, reason = "shared with the tests, which use the rest")]

use std::sync::{Arc, OnceLock};

use vshmem_ipc::Pool;

#[path = "../../../crates/vshmem_ipc/tests/behaviour/fixture.rs"]
pub mod fixture;
#[path = "../../../crates/vshmem_ipc/tests/hostile/operations.rs"]
pub mod operations;
#[path = "../../../crates/vshmem_ipc/tests/hostile/places.rs"]
pub mod places;
#[path = "../../../crates/vshmem_ipc/tests/hostile/script.rs"]
pub mod script;
#[path = "../../../crates/vshmem_ipc/tests/hostile/setup.rs"]
pub mod setup;

/// What is made once: the pool is put back before each sequence, not made anew.
struct Scene {
    setup: setup::Setup,
    pool: Arc<Pool>,
    places: Vec<places::WordRange>,
}

impl Scene {
    fn of(target: &str) -> Self {
        // A sleep of a nanosecond takes fifty microseconds otherwise.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let setup = setup::Setup::new();
        let pool = setup.lay_out();
        let names = script::TARGETS.iter().find(|(name, _)| *name == target).expect("a target").1;
        let places = places::named(pool.layout(), names);
        Self { setup, pool, places }
    }
}

/// Plays `bytes` as a sequence of one target. libFuzzer notices what hangs.
pub fn tell(target: &str, bytes: &[u8]) {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    let Scene { setup, pool, places } = SCENE.get_or_init(|| Scene::of(target));
    script::play(setup, pool, places, bytes, &mut |_, run| run());
}
