//! `vshmem plan check`: what runs, compared with a plan.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use vshmem_plan::Plan;
use vshmem_plan::check::{Finding, check};
use vshmem_plan::running::Running;

use super::apply::{RecordDirectory, is_name, not_applied};
use super::options;
use crate::again::again;
use crate::failure::{Failure, Outcome, failed};
use crate::show;
use vshmem_session::quoted;

/// Compare what runs with a plan.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// The applied plan.
    #[arg(default_value = "plan", conflicts_with = "plan")]
    name: String,
    /// What `vshmem plan --as json` wrote, instead of an applied plan.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Another directory than / for /proc, /sys and /run.
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  vshmem plan check
  vshmem plan check --plan plan.json --json

Looks at the affinity of each guest's threads, on which nodes its memory and the pools lie and in what
pages, at its cpuset, at settings of the kernel that break plans, and for guests that are missing or
were not planned. Run it as root. Exit code 1 when something is not as planned.";

impl Check {
    /// Looks.
    pub fn carry_out(self) -> Outcome {
        let plan = self.plan()?;
        let running = Running::read(&self.root, &plan).or_else(failed)?;
        let mut findings = check(&plan, &running);
        for remedy in findings.iter_mut().filter_map(|finding| finding.remedy.as_mut()) {
            *remedy = self.of_this_plan(remedy);
        }
        if self.json {
            show::json(&findings)?;
        } else {
            findings.iter().try_for_each(print)?;
        }
        let good = findings.iter().all(|finding| finding.good);
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Commands for the plan that was compared, and not for the one of no name.
    fn of_this_plan(&self, remedy: &str) -> String {
        let (mut undo, mut apply) = (String::new(), String::new());
        if let Some(file) = &self.plan {
            apply = format!(" --plan {}", quoted(&file.to_string_lossy()));
        } else if self.name != "plan" {
            (undo, apply) = (format!(" {}", self.name), format!(" --name {}", self.name));
        }
        remedy
            .replace("`sudo vshmem plan check`", &format!("`sudo {}`", again(&[], &[])))
            .replace("`vshmem plan undo`", &format!("`vshmem plan undo{undo}`"))
            .replace("`vshmem plan apply`", &format!("`vshmem plan apply{apply}`"))
            .replace(
                "`vshmem plan apply --to qemu`",
                &format!("`vshmem plan apply{apply} --to qemu`"),
            )
    }

    fn plan(&self) -> Result<Plan, Failure> {
        if let Some(file) = &self.plan {
            return options::read(file);
        }
        if !is_name(&self.name) {
            return Err(Failure::Usage(format!("{:?} is no name of a plan", self.name)));
        }
        let Some(records) = RecordDirectory::look(&self.root)? else {
            return failed(not_applied(&self.name, &[]));
        };
        match records.read(&self.name)? {
            Some(applied) => Ok(applied.plan),
            None => failed(records.unknown(&self.name)),
        }
    }
}

fn print(finding: &Finding) -> Result<(), Failure> {
    let mark = if finding.good { "ok   " } else { "WRONG" };
    let (what, found) = (show::sanitized(&finding.what), show::sanitized(&finding.found));
    let expected = finding.expected.as_ref();
    let expected = expected.map(|expected| format!("; planned: {expected}")).unwrap_or_default();
    show::line(format!("{mark} {what}: {found}{expected}"))?;
    match &finding.remedy {
        Some(remedy) => show::line(format!("      remedy: {}", show::sanitized(remedy))),
        None => Ok(()),
    }
}
