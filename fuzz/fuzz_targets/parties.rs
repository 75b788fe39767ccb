#![no_main]

mod story;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| story::tell("parties", bytes));
