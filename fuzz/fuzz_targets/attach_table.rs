//! The attach table of a process against a model of its mappings.
#![no_main]

#[allow(dead_code, unused_imports, missing_docs)]
#[path = "../../crates/vshmem_preload/src/attached/attach_table/mod.rs"]
mod attach_table;
#[path = "../../crates/vshmem_preload/tests/attach_table/sequence.rs"]
mod sequence;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sequence::play(bytes));
