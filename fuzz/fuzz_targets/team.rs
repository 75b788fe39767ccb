//! A team of Open MPI's collective calls, all members of which but one are hostile.
#![no_main]

#[path = "../../crates/vshmem_team/tests/hostile/story.rs"]
mod story;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| story::play(bytes));
