//! What is asked of a plan, as options of the command line.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vshmem_plan::machine::{Machine, Source};
use vshmem_plan::{Cut, Error, Plan, PoolPlacement, PoolRequest, Request, Smt};

use crate::failure::{Failure, failed};
use crate::huge_page::HugePage;
use crate::size;

/// What is asked of a plan.
#[derive(Debug, Args)]
pub struct Options {
    /// Where the host's topology comes from: this machine, XML of hwloc 2, hwloc's description of
    /// a machine, or a copy of a machine's /sys and /proc.
    #[arg(long, value_name = "this|xml:FILE|synthetic:STRING|sysfs:DIR", default_value = "this",
          value_parser = str::parse::<Source>)]
    topology: Source,
    /// How many guests, or a guest for each part of the host.
    #[arg(long, value_name = "N|per-socket|per-node|per-l3", default_value = "per-socket",
          value_parser = cut)]
    guests: Cut,
    /// CPUs that the host and the emulator threads keep, in whole cores. Without it, a core of
    /// each socket.
    #[arg(long, value_name = "N")]
    host_cpus: Option<u32>,
    /// Memory that the host keeps. Without it, 2G and 512M for each guest, but at most a quarter.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    host_memory: Option<u64>,
    /// Back the guests with huge pages of this size.
    #[arg(long)]
    hugepages: Option<HugePage>,
    /// The size of the pool that the guests share: a power of two.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pool: Option<u64>,
    /// Where the pool lies: a pool for each two guests, on all of the guests' nodes in turn, a
    /// range on each of them (new segments lie on their maker's node), or on one node. Without it,
    /// on the guests' node, or on all of their nodes in turn.
    #[arg(long, value_name = "per-pair|interleave|ranges|NODE", requires = "pool",
          value_parser = placement)]
    pool_numa: Option<PoolPlacement>,
    /// Give guests all threads of their cores, or the first of each.
    #[arg(long, value_enum, default_value_t = Threads::Keep)]
    smt: Threads,
}

/// What becomes of further threads of a core.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Threads {
    /// Guests have them.
    Keep,
    /// They stay idle.
    Off,
}

fn cut(text: &str) -> Result<Cut, String> {
    Ok(match text {
        "per-socket" => Cut::PerSocket,
        "per-node" => Cut::PerNode,
        "per-l3" => Cut::PerL3,
        number => Cut::Count(
            number.parse().map_err(|_| "write a number, per-socket, per-node or per-l3")?,
        ),
    })
}

fn placement(text: &str) -> Result<PoolPlacement, String> {
    Ok(match text {
        "per-pair" => PoolPlacement::PerPair,
        "interleave" => PoolPlacement::Interleave,
        "ranges" => PoolPlacement::Ranges,
        number => PoolPlacement::Node(
            number
                .parse()
                .map_err(|_| "write per-pair, interleave, ranges or the number of a node")?,
        ),
    })
}

impl Options {
    /// Reads the machine and plans.
    pub fn plan(&self) -> Result<(Machine, Plan), Failure> {
        let machine = self.topology.read().map_err(refused)?;
        let plan =
            vshmem_plan::plan(&machine, &self.request()).map_err(|error| refused(error.into()))?;
        Ok((machine, plan))
    }

    fn request(&self) -> Request {
        let placement = self.pool_numa.unwrap_or(PoolPlacement::ByRule);
        Request {
            cut: self.guests,
            host_cpus: self.host_cpus,
            host_memory: self.host_memory,
            huge_pages: self.hugepages.map(HugePage::size),
            pool: self.pool.map(|bytes| PoolRequest { bytes, placement }),
            smt: match self.smt {
                Threads::Keep => Smt::Keep,
                Threads::Off => Smt::Off,
            },
        }
    }
}

fn refused(error: Error) -> Failure {
    Failure::Failed(format!("plan: {error}"))
}

/// A plan that was written as JSON.
pub fn read(file: &PathBuf) -> Result<Plan, Failure> {
    let shown = file.display();
    let remedy = "Write one with `vshmem plan --as json >plan.json`";
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return failed(format!("{shown}: cannot read the plan: {error}. {remedy}")),
    };
    serde_json::from_str(&text)
        .or_else(|error| failed(format!("{shown}: it is no plan: {error}. {remedy}")))
}
