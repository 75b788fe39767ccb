//! `vshmem plan`: a host cut into guests, with the pools that they share.

mod apply;
mod check;
mod options;
mod undo;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use vshmem_plan::form;

use crate::failure::{Failure, Outcome};
use crate::show;

use apply::Apply;
use check::Check;
use options::Options;
use undo::Undo;

pub use apply::require_this_machine;
pub use options::read;

/// Cut a host into guests along its sockets, nodes or caches, with the pools that they share.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Plan {
    #[command(subcommand)]
    verb: Option<PlanVerb>,
    #[command(flatten)]
    options: Options,
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

A plan changes nothing. Its text names what to do on the host before the guests start; `vshmem plan
apply` does it.";

/// What is done with a plan.
#[derive(Debug, Subcommand)]
enum PlanVerb {
    /// Carry a plan out: the host's settings, the pools, the guests.
    Apply(Apply),
    /// Compare what runs with a plan.
    Check(Check),
    /// Undo what `apply` did.
    Undo(Undo),
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

impl Plan {
    /// Makes a plan, or does something with one.
    pub fn carry_out(self) -> Outcome {
        match self.verb {
            None => self.write(),
            Some(PlanVerb::Apply(apply)) => apply.carry_out(),
            Some(PlanVerb::Check(check)) => check.carry_out(),
            Some(PlanVerb::Undo(undo)) => undo.carry_out(),
        }
    }

    fn write(self) -> Outcome {
        let has_files = matches!(self.form, Form::Libvirt | Form::Xl | Form::Systemd);
        if self.output.is_some() && !has_files {
            return Err(Failure::Usage(
                "--output: this form is one text. Use it with --as libvirt, xl or systemd".into(),
            ));
        }
        let (machine, planned) = self.options.plan()?;
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
            Some(directory) => write_files(&directory, files),
            None => text(&files.into_iter().map(|(_, text)| text + "\n").collect::<String>()),
        }
    }
}

fn text(text: &str) -> Outcome {
    show::text(text)?;
    Ok(ExitCode::SUCCESS)
}

fn write_files(directory: &std::path::Path, files: Vec<(String, String)>) -> Outcome {
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
