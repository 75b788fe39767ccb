//! A pool's server: what peers send, what processes of the host ask, what members write, what a
//! predecessor has left.
#![no_main]

use std::sync::OnceLock;

#[path = "../../crates/vshmem_serve/tests/hostile/sequence.rs"]
mod sequence;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static STAGE: OnceLock<sequence::Stage> = OnceLock::new();
    STAGE.get_or_init(|| sequence::Stage::new("fuzz")).play(bytes);
});
