//! `vshmem plan`: a host cut into guests, with the pools that they share.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use vshmem_plan::machine::Source;
use vshmem_plan::{Cut, Error, PoolPlacement, PoolRequest, Request, Smt, form};

use crate::failure::{Failure, Outcome};
use crate::huge_page::HugePage;
use crate::{show, size};

/// Cut a host into guests along its sockets, nodes or caches, with the pools that they share.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Plan {
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
    /// Where the pool lies: a pool for each two guests, on all of the guests' nodes in turn, or on
    /// one node. Without it, on the guests' node, or on all of their nodes in turn.
    #[arg(long, value_name = "per-pair|interleave|NODE", requires = "pool",
          value_parser = placement)]
    pool_numa: Option<PoolPlacement>,
    /// Give guests all threads of their cores, or the first of each.
    #[arg(long, value_enum, default_value_t = Threads::Keep)]
    smt: Threads,
    /// For whom the plan is written.
    #[arg(long = "as", value_enum, default_value_t = Form::Text)]
    form: Form,
    /// For machines without hardware virtualisation (libvirt and QEMU).
    #[arg(long)]
    emulated: bool,
    /// Write each guest's file into this directory (libvirt, xl, systemd).
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem plan                                      a guest for each socket of this machine
  vshmem plan --guests per-node --pool 4G --hugepages 1G
  vshmem plan --guests 2 --pool 1G --as libvirt --output plans
  vshmem plan --topology xml:other-host.xml --as json

A plan changes nothing. Its text names what to do on the host before the guests start.";

/// What becomes of further threads of a core.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Threads {
    /// Guests have them.
    Keep,
    /// They stay idle.
    Off,
}

/// For whom the plan is written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// People.
    Text,
    /// People: a drawing.
    Svg,
    /// Domains of libvirt.
    Libvirt,
    /// A shell script that starts QEMU.
    Qemu,
    /// Configurations of Xen's guests.
    Xl,
    /// A shell script that starts Cloud Hypervisor; not tried.
    CloudHypervisor,
    /// Slices, for containers and services in place of guests.
    Systemd,
    /// Programs.
    Json,
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
        number => PoolPlacement::Node(
            number.parse().map_err(|_| "write per-pair, interleave or the number of a node")?,
        ),
    })
}

impl Plan {
    /// Makes it.
    pub fn carry_out(self) -> Outcome {
        let has_files = matches!(self.form, Form::Libvirt | Form::Xl | Form::Systemd);
        if self.output.is_some() && !has_files {
            return Err(Failure::Usage(
                "--output: this form is one text. Use it with --as libvirt, xl or systemd".into(),
            ));
        }
        let machine = self.topology.read().map_err(refused)?;
        let planned =
            vshmem_plan::plan(&machine, &self.request()).map_err(|error| refused(error.into()))?;
        let files = match self.form {
            Form::Text => return text(&form::text(&machine, &planned)),
            Form::Svg => return text(&form::svg(&machine, &planned)),
            Form::Json => {
                show::json(&planned)?;
                return Ok(ExitCode::SUCCESS);
            }
            Form::Qemu => return text(&form::qemu(&planned, self.emulated)),
            Form::CloudHypervisor => return text(&form::cloud_hypervisor(&planned)),
            Form::Libvirt => form::libvirt(&planned, self.emulated),
            Form::Xl => form::xl(&planned),
            Form::Systemd => form::systemd(&planned),
        };
        match self.output {
            Some(directory) => write(&directory, files),
            None => text(&files.into_iter().map(|(_, text)| text + "\n").collect::<String>()),
        }
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

fn text(text: &str) -> Outcome {
    show::text(text)?;
    Ok(ExitCode::SUCCESS)
}

fn write(directory: &std::path::Path, files: Vec<(String, String)>) -> Outcome {
    let failure = |what: &std::path::Path, error| {
        Failure::Failed(format!("plan: {}: cannot write it: {error}", what.display()))
    };
    std::fs::create_dir_all(directory).map_err(|error| failure(directory, error))?;
    for (name, text) in files {
        let file = directory.join(name);
        std::fs::write(&file, text).map_err(|error| failure(&file, error))?;
        show::line(file.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
