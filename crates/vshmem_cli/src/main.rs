//! The `vshmem` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use vshmem_cli::CommandLine;

fn main() -> ExitCode {
    vshmem_cli::run(CommandLine::carry_out)
}
