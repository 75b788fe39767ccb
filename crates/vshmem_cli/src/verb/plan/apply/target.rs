//! Who runs the guests.

use std::path::Path;

use vshmem_plan::Plan;
use vshmem_plan::running::Running;

use super::journal::{Journal, tell};
use super::record_directory::RecordDirectory;
use super::{libvirt, qemu};
use crate::failure::{Failure, failed};
use vshmem_session::quoted;

/// Who runs the guests.
#[derive(Debug)]
pub enum Target {
    /// The user.
    Host,
    /// QEMU.
    Qemu(qemu::Start),
    /// libvirt.
    Libvirt(libvirt::Start),
}

impl Target {
    /// Refuses names that are taken.
    pub fn require_free(
        &self,
        records: &RecordDirectory,
        plan: &Plan,
        running: &Running,
    ) -> Result<(), Failure> {
        if matches!(self, Self::Host) {
            return Ok(());
        }
        for (number, guest) in plan.guests.iter().enumerate() {
            if let Some(monitor) = running.named(&guest.name).next() {
                let (name, pid) = (&guest.name, monitor.pid);
                return failed(format!(
                    "{name}: process {pid} runs a guest of that name already. `ps -f -p {pid}` shows it"
                ));
            }
            if let Self::Libvirt(start) = self {
                start.require_free(records, plan, number)?;
            }
        }
        Ok(())
    }

    /// Starts the guest with this number from 0.
    pub fn start_guest(&self, journal: &mut Journal<'_>, number: usize) -> Result<(), Failure> {
        match self {
            Self::Host => return Ok(()),
            Self::Qemu(start) => start.start_guest(journal, number)?,
            Self::Libvirt(start) => start.start_guest(journal, number)?,
        }
        let guest = &journal.applied.plan.guests[number];
        let (name, cpus, emulator) = (&guest.name, guest.cpus(), &guest.emulator);
        tell(format!("{name}: runs on CPUs {cpus}, its emulator on {emulator}"));
        Ok(())
    }

    /// What is done for a guest, as commands. `directory`: where its socket would be.
    pub fn steps(&self, plan: &Plan, number: usize, directory: &Path) -> Vec<String> {
        let guest = &plan.guests[number];
        match self {
            Self::Host => Vec::new(),
            Self::Libvirt(start) => libvirt::steps(start, guest),
            Self::Qemu(start) => {
                let words = start.words(plan, number, directory);
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                let words = words.join(" ");
                let emulator = &guest.emulator;
                let mut steps = vec![format!("taskset -c {emulator} qemu-system-x86_64 {words} &")];
                for (vcpu, cpu) in guest.vcpus.iter().enumerate() {
                    steps.push(format!(
                        "taskset -p -c {cpu} THREAD  # of {}'s vCPU {vcpu}, by query-cpus-fast",
                        guest.name
                    ));
                }
                steps.push(format!("# {}: cont", guest.name));
                steps
            }
        }
    }
}
