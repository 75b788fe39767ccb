//! The first page of a region: opened and used, or refused.
#![no_main]

mod sequence;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sequence::script::open(bytes));
