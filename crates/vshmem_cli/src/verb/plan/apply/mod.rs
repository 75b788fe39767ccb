//! `vshmem plan apply`: the host's settings, the pools and the guests of a plan. Each change is
//! recorded before it is made, so that `undo` finds it whenever this process ends.

mod applied_plan;
mod journal;
mod libvirt;
mod pool;
mod process;
mod qemu;
mod record_directory;
mod shared_setting;
mod target;
mod undo_changes;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use vshmem_plan::running::Running;
use vshmem_plan::settings::{Setting, settings};
use vshmem_plan::{NumberSet, Plan};

use super::options::{self, Options};
use crate::again::again;
use crate::failure::{Failure, Outcome, failed};
use crate::{show, uuid};

pub use record_directory::{RecordDirectory, is_name, not_applied};
pub use undo_changes::undo_changes;

use applied_plan::Change;
use journal::{Journal, crash_point, tell};
use target::Target;

/// Carry a plan out: the host's settings, the pools, the guests.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Apply {
    /// What `vshmem plan --as json` wrote, instead of the options that say what to plan.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Who runs the guests.
    #[arg(long, value_enum)]
    to: TargetKind,
    /// Name of the applied plan, for `check` and `undo`.
    #[arg(long, default_value = "plan")]
    name: String,
    /// Print what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// For machines without hardware virtualisation.
    #[arg(long)]
    emulated: bool,
    /// The group that may use the pools, such as the one of libvirt's QEMU.
    #[arg(long, value_name = "GROUP")]
    pool_group: Option<String>,
    /// Where `vshmem plan --as libvirt --output DIR` wrote the domains, with the disks and networks
    /// that were added (libvirt).
    #[arg(long, value_name = "DIR")]
    domains: Option<PathBuf>,
    /// Address of libvirt.
    #[arg(long, value_name = "URI", default_value = "qemu:///system")]
    connect: String,
    /// Another directory than / for /proc, /sys and /run.
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
    /// Further arguments for QEMU: disks, networks, a kernel. `{guest}` is the guest's name.
    #[arg(last = true, value_name = "QEMU-ARGS")]
    words: Vec<String>,
}

/// Who runs the guests, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TargetKind {
    /// libvirt, by virsh.
    Libvirt,
    /// QEMU, each guest started stopped and its threads pinned.
    Qemu,
    /// You: only the host's settings and the pools are made.
    Host,
}

const EXAMPLES: &str = "\
Examples:
  vshmem plan apply --guests 2 --pool 1G --to qemu --dry-run
  vshmem plan apply --pool 1G --to qemu -- -drive file=/srv/{guest}.qcow2,if=virtio
  vshmem plan apply --plan plan.json --to libvirt --domains plans --pool-group kvm
  vshmem plan check
  vshmem plan undo

Run it as root. What was there is kept in /run/vshmem/plan/NAME.json before it is changed; if a step
fails, those before it are undone.";

impl Apply {
    /// Applies it.
    pub fn carry_out(self) -> Outcome {
        self.require_consistent_options()?;
        let plan = match &self.plan {
            Some(file) => options::read(file)?,
            None => self.options.plan()?.1,
        };
        require_names(&self.name, &plan)?;
        let target = self.target();
        if self.dry_run {
            let (running, settings) = self.look(&plan)?;
            require_fit(&plan, &running)?;
            let guests = self.root.join("run/vshmem/plan").join(&self.name);
            for step in self.steps(&plan, &settings, &target, &guests) {
                show::line(step)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let records = RecordDirectory::open(&self.root)?;
        records.lock()?;
        if records.read(&self.name)?.is_some() {
            return failed(format!(
                "plan {0}: it is applied already, or was begun. `vshmem plan undo {0}` undoes it, `vshmem plan check {0}` compares it with what runs",
                self.name
            ));
        }
        // Only now: another plan may have been at work.
        let (running, settings) = self.look(&plan)?;
        require_fit(&plan, &running)?;
        plan.pools.iter().try_for_each(pool::require_free)?;
        target.require_free(&records, &plan, &running)?;
        let mut journal = Journal::begin(&records, &self.name, plan)?;
        if let Err(failure) = self.make_changes(&mut journal, &settings, &target) {
            return self.undo_begun(&records, journal, &failure);
        }
        show::line(format!(
            "plan {0}: applied. `vshmem plan check {0}` compares it with what runs, `vshmem plan undo {0}` undoes it",
            self.name
        ))?;
        Ok(ExitCode::SUCCESS)
    }

    /// What runs, and what is to be changed.
    fn look(&self, plan: &Plan) -> Result<(Running, Vec<Setting>), Failure> {
        let running = Running::read(&self.root, plan).or_else(failed)?;
        Ok((running, settings(plan, &self.root).or_else(failed)?))
    }

    fn require_consistent_options(&self) -> Result<(), Failure> {
        if !self.words.is_empty() && self.to != TargetKind::Qemu {
            return Err(Failure::Usage(
                "words after -- are for QEMU. Use them with --to qemu".into(),
            ));
        }
        if self.domains.is_some() && self.to != TargetKind::Libvirt {
            return Err(Failure::Usage("--domains: use it with --to libvirt".into()));
        }
        Ok(())
    }

    fn target(&self) -> Target {
        let emulated = self.emulated;
        match self.to {
            TargetKind::Host => Target::Host,
            TargetKind::Qemu => Target::Qemu(qemu::Start { emulated, words: self.words.clone() }),
            TargetKind::Libvirt => Target::Libvirt(libvirt::Start {
                emulated,
                connect: self.connect.clone(),
                domains: self.domains.clone(),
            }),
        }
    }

    fn make_changes(
        &self,
        journal: &mut Journal<'_>,
        settings: &[Setting],
        target: &Target,
    ) -> Result<(), Failure> {
        for setting in settings {
            write_setting(journal, &self.root, setting)?;
        }
        for pool in journal.applied.plan.pools.clone() {
            // Another process may make a pool of that name meanwhile: it has another UUID.
            let uuid = uuid::shown(&uuid::random()?);
            journal.record(Change::Pool { name: pool.name.clone(), uuid: uuid.clone() })?;
            pool::make(journal.records, &pool, self.pool_group.as_deref(), &uuid)?;
            crash_point();
            tell(format!("pool {}: made", pool.name));
        }
        for number in 0..journal.applied.plan.guests.len() {
            target.start_guest(journal, number)?;
        }
        journal.complete()
    }

    /// A step failed: what was done is undone.
    fn undo_begun(
        &self,
        records: &RecordDirectory,
        journal: Journal<'_>,
        failure: &Failure,
    ) -> Outcome {
        let undone = undo_changes(records, &self.root, journal.applied, |_| ());
        match undone {
            Ok(()) => failed(format!("{failure}. What was done for the plan has been undone")),
            Err(further) => failed(format!("{failure}. Undoing what was done: {further}")),
        }
    }

    /// What would be done, as commands.
    fn steps(
        &self,
        plan: &Plan,
        settings: &[Setting],
        target: &Target,
        directory: &Path,
    ) -> Vec<String> {
        let mut steps: Vec<String> = settings
            .iter()
            .map(|setting| {
                let Setting { value, file, purpose, found } = setting;
                format!("echo {value} >{}  # was {found}: {purpose}", file.display())
            })
            .collect();
        let pools = plan.pools.iter().map(|pool| pool::words(pool, self.pool_group.as_deref()));
        steps.extend(pools.map(|words| format!("vshmem {}", words.join(" "))));
        for number in 0..plan.guests.len() {
            steps.extend(target.steps(plan, number, directory));
        }
        steps
    }
}

/// Writes a value, and looks whether the kernel took it.
fn write_setting(journal: &mut Journal<'_>, root: &Path, setting: &Setting) -> Result<(), Failure> {
    let Setting { file, found, value, purpose } = setting;
    journal.record(Change::Setting {
        file: file.clone(),
        found: found.clone(),
        value: value.clone(),
    })?;
    let now = undo_changes::write(root, file, value);
    crash_point();
    match now {
        Ok(now) if now == *value => {
            tell(format!("{}: {value}, was {found}", file.display()));
            Ok(())
        }
        Ok(now) if file.ends_with("nr_hugepages") => failed(format!(
            "{purpose}: the kernel found {now} of {value}, as memory is fragmented. `echo 1 >/proc/sys/vm/compact_memory` may help; reserving them at boot does: `hugepages=N` on the kernel's command line"
        )),
        Ok(now) => failed(format!(
            "{}: it is {now} after {value} was written: something else, such as tuned, sets it. End that and apply the plan again",
            file.display()
        )),
        Err(error) => failed(format!(
            "{}: cannot write {value}: {error}. Run this as root: `sudo {}`",
            file.display(),
            again(&[], &[])
        )),
    }
}

fn require_names(name: &str, plan: &Plan) -> Result<(), Failure> {
    let guests = plan.guests.iter().map(|guest| &guest.name);
    let pools = plan.pools.iter().map(|pool| &pool.name);
    for name in guests.clone().chain(pools.clone()).map(String::as_str).chain([name]) {
        if !is_name(name) {
            return Err(Failure::Usage(format!(
                "{name:?} is no name for a plan, a guest or a pool. Use at most 32 of a-z, A-Z, 0-9, - and _"
            )));
        }
    }
    require_distinct("guests", guests)?;
    require_distinct("pools", pools)
}

fn require_distinct<'a>(
    what: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Failure::Usage(format!(
                "the plan has two {what} of the name {name}. Change one of the names in its file"
            )));
        }
    }
    Ok(())
}

/// Refuses a plan for another machine than this one.
pub fn require_this_machine(plan: &Plan) -> Result<(), Failure> {
    let running = Running::read(Path::new("/"), plan).or_else(failed)?;
    require_fit(plan, &running)
}

/// Refuses a plan for another machine.
fn require_fit(plan: &Plan, running: &Running) -> Result<(), Failure> {
    let mut cpus = plan.guest_cpus();
    plan.guests.iter().for_each(|guest| cpus.insert_all(&guest.emulator));
    let mut nodes = plan.home_nodes();
    plan.pools.iter().for_each(|pool| nodes.insert_all(&pool.nodes));
    for (what, wanted, there) in [("CPUs", &cpus, &running.cpus), ("nodes", &nodes, &running.nodes)]
    {
        let missing: NumberSet = wanted.iter().filter(|number| !there.contains(*number)).collect();
        if !missing.is_empty() {
            return failed(format!(
                "the plan is for another machine: it uses {what} {missing}, and this one has {there}. `vshmem plan` makes one for this machine"
            ));
        }
    }
    Ok(())
}
