//! C code cannot include `tuning.rs`: what it has under the same name is the same number.

#![cfg(not(loom))]

use std::collections::HashMap;

use vshmem_mem::tuning;

const HEADER: &str = include_str!("../../../transport/tuning.h");

/// The numbers of the header, but for those that are computed.
fn defined() -> HashMap<&'static str, u64> {
    let number = |line: &'static str| {
        let (name, value) = line.strip_prefix("#define VSHMEM_")?.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    };
    HEADER.lines().filter_map(number).collect()
}

#[test]
fn c_code_first_sleeps_for_as_long_as_a_member_of_a_team() {
    let nanoseconds = u64::try_from(tuning::FIRST_SLEEP.as_nanos()).unwrap();
    assert_eq!(defined().get("FIRST_SLEEP"), Some(&nanoseconds));
}

#[test]
fn no_other_constant_has_one_name_in_both() {
    let text = include_str!("../src/tuning.rs");
    for name in HEADER.lines().filter_map(|line| line.strip_prefix("#define VSHMEM_")) {
        let name = name.split(' ').next().unwrap_or(name);
        let is_in_both = text.contains(&format!("pub const {name}:"));
        assert_eq!(is_in_both, name == "FIRST_SLEEP", "{name}: compare it above as well");
    }
}
