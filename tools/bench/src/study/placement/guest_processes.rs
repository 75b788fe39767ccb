//! Guests of a lab as processes of this machine, by their users: each has one of its own.

use std::collections::BTreeMap;
use std::fs;

use vshmem_plan::NumberSet;
use vshmem_plan::running::{Role, mappings_of, threads_of};

use super::Share;
use super::pages::{Kind, Pages, kind};
use super::pinned::move_thread;
use crate::error::Result;

/// Moves a guest's threads to its share of the machine.
pub(crate) fn pin(uid: u32, share: &Share) -> Result<()> {
    for process in processes_of(uid) {
        let threads = threads_of(process);
        let knows_vcpus = threads.iter().any(|thread| thread.role != Role::Emulator);
        for thread in &threads {
            let cpus = match thread.role {
                Role::Vcpu(number) => one(share.cpus[number as usize % share.cpus.len()]),
                Role::AllVcpus => one(share.cpus[0]),
                Role::Emulator if knows_vcpus && !share.emulator.is_empty() => {
                    share.emulator.clone()
                }
                // User Mode Linux is one CPU, with a process for each process in it. Other monitors
                // do not tell which of their threads the vCPUs are.
                Role::Emulator if is_user_mode(process) => one(share.cpus[0]),
                Role::Emulator => share.cpus.iter().copied().collect(),
            };
            move_thread(Some(thread.id), &cpus)?;
        }
    }
    Ok(())
}

fn one(cpu: u32) -> NumberSet {
    [cpu].into_iter().collect()
}

/// Where a guest's memory lies: that of its largest process, which is the monitor or the kernel.
/// `None`: it has ended, or the kernel does not tell.
pub(crate) fn count(name: String, uid: u32, share: &Share) -> Option<Pages> {
    let of_process = |process: u32| {
        let mappings = mappings_of(process).ok()?;
        let mut pages =
            Pages { of: name.clone(), planned: share.nodes.clone(), by_node: BTreeMap::new() };
        for mapping in mappings.iter().filter(|mapping| !mapping.executable) {
            // The pool is no guest's.
            let is_pool = mapping.file.contains("/vshmem.");
            if !is_pool && matches!(kind(mapping), Some(Kind::Own | Kind::Shared)) {
                pages.add(&mapping.bytes_by_node);
            }
        }
        Some(pages)
    };
    processes_of(uid).into_iter().filter_map(of_process).max_by_key(Pages::bytes)
}

/// Its processes that run programs of this machine.
fn processes_of(uid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_its = |process: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        uids.is_some_and(|uids| uids.split_whitespace().next() == Some(&uid.to_string()))
    };
    numbers.filter(is_its).collect()
}

fn is_user_mode(process: u32) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    !line.starts_with(b"qemu-system-") && !line.windows(13).any(|part| part == b"/qemu-system-")
}
