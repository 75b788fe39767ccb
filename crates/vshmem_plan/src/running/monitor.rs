//! The processes of QEMU, and their threads. QEMU names the threads of vCPUs when it was started
//! with `debug-threads=on`, which libvirt and this project's plans do.

use std::fs;
use std::path::{Path, PathBuf};

use super::control_group::ControlGroup;
use super::memory::{self, Mapping};
use crate::number_set::NumberSet;
use crate::settings::{below, read};

/// A process of QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitor {
    /// Its pid.
    pub pid: u32,
    /// What it calls its guest (`-name`); may be empty.
    pub guest: String,
    /// Whether libvirt started it.
    pub of_libvirt: bool,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its memory, or a sentence why that is not known.
    pub mappings: Result<Vec<Mapping>, String>,
    /// What its control group leaves it. `None`: not known.
    pub control_group: Option<ControlGroup>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its number in the operating system.
    pub id: u32,
    /// What it is for.
    pub role: Role,
    /// The CPUs that it may run on.
    pub cpus: NumberSet,
}

/// What a thread is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is this vCPU.
    Vcpu(u32),
    /// It is all vCPUs in turn.
    AllVcpus,
    /// It is none.
    Emulator,
}

/// All there are, by pid.
pub(super) fn all(root: &Path) -> Result<Vec<Monitor>, String> {
    let entries = fs::read_dir(below(root, Path::new("/proc")))
        .map_err(|error| format!("/proc: cannot read it: {error}"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut pids: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    // A process that ends meanwhile is none.
    Ok(pids.into_iter().filter_map(|pid| of(root, pid)).collect())
}

fn of(root: &Path, pid: u32) -> Option<Monitor> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let line = fs::read(below(root, &process.join("cmdline"))).ok()?;
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let program = Path::new(words.first()?).file_name()?.to_str()?.to_owned();
    if !program.starts_with("qemu-system-") && !matches!(&*program, "qemu-kvm" | "kvm") {
        return None;
    }
    let threads = threads(root, &process);
    if threads.is_empty() {
        return None;
    }
    let name = words.iter().skip_while(|word| *word != "-name").nth(1);
    let name = name.map_or("", String::as_str).split(',').next().unwrap_or_default();
    Some(Monitor {
        pid,
        guest: name.strip_prefix("guest=").unwrap_or(name).to_owned(),
        of_libvirt: name.starts_with("guest="),
        threads,
        mappings: memory::of(root, &process),
        control_group: ControlGroup::of(root, &process),
    })
}

/// The threads of a process; none when it has ended.
pub(super) fn threads(root: &Path, process: &Path) -> Vec<Thread> {
    let tasks = process.join("task");
    let entries = fs::read_dir(below(root, &tasks)).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut threads: Vec<Thread> =
        numbers.filter_map(|id| thread(root, &tasks.join(u32::to_string(&id)), id)).collect();
    threads.sort_unstable_by_key(|thread| thread.id);
    threads
}

fn thread(root: &Path, task: &Path, id: u32) -> Option<Thread> {
    let name = read(root, &task.join("comm")).ok()??;
    let status = read(root, &task.join("status")).ok()??;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(Thread { id, role: role(&name), cpus: NumberSet::from_list(cpus)? })
}

/// By the name that QEMU gives a thread: `CPU 3/KVM`, `ALL CPUs/TCG`.
fn role(name: &str) -> Role {
    let vcpu = || name.strip_prefix("CPU ")?.split_once('/')?.0.parse().ok();
    match name.starts_with("ALL CPUs/") {
        true => Role::AllVcpus,
        false => vcpu().map_or(Role::Emulator, Role::Vcpu),
    }
}
