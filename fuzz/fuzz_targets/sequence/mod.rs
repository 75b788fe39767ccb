//! A sequence against a pool in the middle of its life. Its words are those of the hostile tests.
#![allow(dead_code, reason = "shared with the tests, which use the rest")]

use std::sync::OnceLock;

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

/// Plays `bytes` as a sequence of one target. libFuzzer notices what hangs.
pub fn tell(target: &str, bytes: &[u8]) {
    static SCENE: OnceLock<(setup::Setup, Vec<places::Place>)> = OnceLock::new();
    let (setup, places) = SCENE.get_or_init(|| {
        let setup = setup::Setup::new();
        let layout = *setup.lay_out().layout();
        let names = script::TARGETS.iter().find(|(name, _)| *name == target).expect("a target").1;
        let places = places::named(&layout, names);
        (setup, places)
    });
    script::play(setup, places, bytes, &mut |_, run| run());
}
