//! A guest's process: whether it is there, its threads, its control group.

use super::Finding;
use crate::number_set::NumberSet;
use crate::result::{Guest, Plan};
use crate::running::{Monitor, Role, Running, Thread};

/// No process calls its guest so.
pub(super) fn missing(guest: &Guest) -> Finding {
    let name = &guest.name;
    Finding::wrong(
        name,
        "no process of QEMU runs it",
        "running",
        format!(
            "`virsh start {name}`, or, where `vshmem plan apply --to qemu` started it, `vshmem plan undo` and apply the plan anew"
        ),
    )
}

/// More than one process calls its guest so.
pub(super) fn several(guest: &Guest, found: &[&Monitor]) -> Finding {
    let pids: Vec<String> = found.iter().map(|monitor| monitor.pid.to_string()).collect();
    Finding::wrong(
        &guest.name,
        format!("{} processes call their guest so: {}", found.len(), pids.join(", ")),
        "one",
        format!("end those that are not meant: `ps -f -p {}`", pids.join(",")),
    )
}

/// Where its threads may run.
pub(super) fn threads(guest: &Guest, monitor: &Monitor) -> Vec<Finding> {
    let mut findings = vcpus(guest, monitor);
    findings.push(emulator(guest, monitor));
    findings
}

/// A line for all vCPUs if they are as planned, else one for each that is not.
fn vcpus(guest: &Guest, monitor: &Monitor) -> Vec<Finding> {
    let of = |role| monitor.threads.iter().find(|thread| thread.role == role);
    let mut wrong = Vec::new();
    if let Some(thread) = of(Role::AllVcpus) {
        wrong.extend(vcpu(guest, monitor, None, thread, &guest.cpus()));
    } else {
        for (number, cpu) in (0..).zip(&guest.vcpus) {
            match of(Role::Vcpu(number)) {
                Some(thread) => {
                    let planned = [*cpu].into_iter().collect();
                    wrong.extend(vcpu(guest, monitor, Some(number), thread, &planned));
                }
                None => wrong.push(no_such_vcpu(guest, monitor, number)),
            }
        }
    }
    wrong.extend(too_many(guest, monitor));
    if wrong.is_empty() {
        let found = format!("{} on CPUs {}, each on its own", guest.vcpus.len(), guest.cpus());
        wrong.push(Finding::good(format!("{} vCPUs", guest.name), found));
    }
    wrong
}

fn vcpu(
    guest: &Guest,
    monitor: &Monitor,
    number: Option<u32>,
    thread: &Thread,
    planned: &NumberSet,
) -> Option<Finding> {
    if thread.cpus == *planned {
        return None;
    }
    let what = number.map_or("vCPUs, all in one thread".into(), |n: u32| format!("vCPU {n}"));
    let remedy = match (monitor.of_libvirt, number) {
        (true, Some(number)) => {
            format!("`virsh vcpupin {} {number} {planned} --live`", guest.name)
        }
        _ => format!("`taskset -p -c {planned} {}`", thread.id),
    };
    Some(Finding::wrong(
        format!("{} {what}", guest.name),
        format!("thread {} runs on CPUs {}", thread.id, thread.cpus),
        format!("on {planned}"),
        remedy,
    ))
}

fn no_such_vcpu(guest: &Guest, monitor: &Monitor, number: u32) -> Finding {
    Finding::wrong(
        format!("{} vCPU {number}", guest.name),
        format!("process {} has no thread of that name", monitor.pid),
        format!("{} vCPUs", guest.vcpus.len()),
        format!(
            "start the guest as planned, and QEMU with `-name {},debug-threads=on`: `ps -L -o tid,comm -p {}` shows the threads",
            guest.name, monitor.pid
        ),
    )
}

fn too_many(guest: &Guest, monitor: &Monitor) -> Option<Finding> {
    let planned = guest.vcpus.len();
    let more = monitor
        .threads
        .iter()
        .filter(|thread| matches!(thread.role, Role::Vcpu(number) if number as usize >= planned));
    let more = more.count();
    (more > 0).then(|| {
        Finding::wrong(
            format!("{} vCPUs", guest.name),
            (planned + more).to_string(),
            planned.to_string(),
            format!("start the guest as planned: `ps -f -p {}` shows how it was", monitor.pid),
        )
    })
}

/// The threads that are no vCPUs: a line for all.
fn emulator(guest: &Guest, monitor: &Monitor) -> Finding {
    let what = format!("{} emulator threads", guest.name);
    let threads = monitor.threads.iter().filter(|thread| thread.role == Role::Emulator);
    let (good, wrong): (Vec<_>, Vec<_>) =
        threads.partition(|thread| guest.emulator.contains_all(&thread.cpus));
    let Some(first) = wrong.first() else {
        return Finding::good(what, format!("{} on CPUs {}", good.len(), guest.emulator));
    };
    let list: Vec<String> = wrong.iter().map(|thread| thread.id.to_string()).collect();
    let remedy = if monitor.of_libvirt {
        format!("`virsh emulatorpin {} {} --live`", guest.name, guest.emulator)
    } else {
        format!(
            "`for thread in {}; do taskset -p -c {} $thread; done`",
            list.join(" "),
            guest.emulator
        )
    };
    Finding::wrong(
        what,
        format!("{} of {} may run on CPUs {}", wrong.len(), good.len() + wrong.len(), first.cpus),
        format!("on {}", guest.emulator),
        remedy,
    )
}

/// Whether the process may use what the plan gives it.
pub(super) fn control_group(guest: &Guest, monitor: &Monitor) -> Finding {
    let what = format!("{} cpuset", guest.name);
    let Some(group) = &monitor.control_group else {
        return Finding::good(what, "no control group limits it");
    };
    let mut cpus = guest.cpus();
    cpus.insert_all(&guest.emulator);
    let nodes = guest.nodes();
    if group.cpus.contains_all(&cpus) && group.nodes.contains_all(&nodes) {
        return Finding::good(what, format!("CPUs {}, nodes {}", group.cpus, group.nodes));
    }
    let (mut all_cpus, mut all_nodes) = (group.cpus.clone(), group.nodes.clone());
    all_cpus.insert_all(&cpus);
    all_nodes.insert_all(&nodes);
    let place = group.directory.display();
    Finding::wrong(
        what,
        format!("{place} leaves it CPUs {} and nodes {}", group.cpus, group.nodes),
        format!("CPUs {cpus} and nodes {nodes}"),
        format!("`echo {all_cpus} >{place}/cpuset.cpus; echo {all_nodes} >{place}/cpuset.mems`"),
    )
}

/// Guests that are not in the plan and may run on its guests' CPUs.
pub(super) fn others(plan: &Plan, running: &Running) -> Finding {
    const WHAT: &str = "other guests";
    let cpus = plan.guest_cpus();
    let strangers = running.monitors.iter().filter(|monitor| {
        !plan.guests.iter().any(|guest| guest.name == monitor.guest)
            && monitor.threads.iter().any(|thread| thread.cpus.meets(&cpus))
    });
    let strangers: Vec<_> = strangers.collect();
    let Some(first) = strangers.first() else {
        return Finding::good(WHAT, format!("none on CPUs {cpus}"));
    };
    let name = |monitor: &&Monitor| match monitor.guest.as_str() {
        "" => format!("process {}", monitor.pid),
        name => format!("{name} (process {})", monitor.pid),
    };
    let names: Vec<String> = strangers.iter().map(name).collect();
    let remedy = if plan.host.cpus.is_empty() {
        "plan again with --host-cpus, which keeps CPUs for it, or shut it down".into()
    } else {
        format!("keep it off these CPUs: `taskset -a -p -c {} {}`", plan.host.cpus, first.pid)
    };
    let found = format!("{} may run on CPUs {cpus}: {}", strangers.len(), names.join(", "));
    Finding::wrong(WHAT, found, "none", remedy)
}
