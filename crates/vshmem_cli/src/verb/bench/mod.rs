//! `vshmem bench`: measurements beside rivals. The work is in `vshmem_bench`; here are its command
//! lines and its tables.

mod mpi;
mod pingpong;
mod sysv;
mod terminal;

use std::path::PathBuf;

use clap::Subcommand;
use vshmem_bench::report::Rows;

use crate::failure::{Failure, Outcome};
use crate::table::Table;

/// Measure vshmem beside its rivals, interleaved in one run.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Round trips: shared memory in one kernel, across two guests, TCP and UDP between them.
    Pingpong(pingpong::Pingpong),
    /// MPI: stock Open MPI through a pool, its own shared memory, TCP.
    Mpi(mpi::Mpi),
    /// System V calls: the kernel's and a pool's.
    Sysv(sysv::Sysv),
}

impl Bench {
    /// Measures.
    pub fn carry_out(self) -> Outcome {
        match self {
            Self::Mpi(mpi) => mpi.carry_out(),
            Self::Pingpong(pingpong) => pingpong.carry_out(),
            Self::Sysv(sysv) => sysv.carry_out(),
        }
    }
}

fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find this binary: {error}")))
}

fn table(rows: Rows) -> Table {
    let columns: Vec<&str> = rows.columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&rows.title, &columns);
    for row in rows.rows {
        table.row(row);
    }
    table
}
