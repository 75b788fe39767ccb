//! The `vshmem` command.
fn main() {}
