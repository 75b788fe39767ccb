#![no_main]

mod sequence;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sequence::tell("clients", bytes));
