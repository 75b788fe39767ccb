//! The program of `vshmem bench`, which `vshmem` becomes.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use vshmem_bench_command::CommandLine;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match vshmem_lab::hidden_verb(&words) {
        None => vshmem_cli::run(CommandLine::carry_out),
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => vshmem_cli::Failure::Failed(error.to_string()).tell(),
    }
}
