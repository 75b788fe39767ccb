//! The first page of a region: opened and used, or refused.
#![no_main]

mod story;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| story::script::open(bytes));
