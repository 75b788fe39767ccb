//! A team of Open MPI's collective calls, all members of which but one are hostile.
#![no_main]

#[path = "../../crates/vshmem_team/tests/hostile/sequence.rs"]
mod sequence;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sequence::play(bytes));
