//! The attach table of a process against a model of its mappings.
#![no_main]

#[path = "../../crates/vshmem_process/tests/attach_table/sequence.rs"]
mod sequence;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sequence::play(bytes));
