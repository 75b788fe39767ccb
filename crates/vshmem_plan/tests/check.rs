//! A plan against a host that runs it, as it should be and with each of the faults that break plans
//! in practice. The host's files are made up: where there is one node, no memory is on another.

mod host;

use std::fs;

use host::{FIRST, Host, WORKER, two_guests};
use vshmem_plan::check::{Finding, check};
use vshmem_plan::running::Running;
use vshmem_plan::{NumberSet, Plan};

fn findings(plan: &Plan, host: &Host) -> Vec<Finding> {
    check(plan, &Running::read(host.root(), plan).unwrap())
}

/// The only thing that is wrong has all of these words in its line.
fn is_found(plan: &Plan, host: &Host, words: &[&str]) {
    let all = findings(plan, host);
    let wrong: Vec<_> = all.into_iter().filter(|finding| !finding.good).collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    let line = format!("{:?}", wrong[0]);
    assert!(wrong[0].expected.is_some() && wrong[0].remedy.is_some(), "{line}");
    for word in words {
        assert!(line.contains(word), "no {word:?} in {line}");
    }
}

fn as_planned() -> (Plan, Host) {
    let plan = two_guests();
    let host = Host::of(&plan);
    (plan, host)
}

#[test]
fn a_host_that_runs_the_plan_is_as_planned() {
    let (plan, host) = as_planned();
    let all = findings(&plan, &host);
    assert!(all.iter().all(|finding| finding.good), "{all:?}");
    let text = format!("{all:?}");
    for part in ["guest2 huge pages", "pool job1", "guest1 emulator threads", "governor"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_vcpu_with_another_affinity_is_found() {
    let (plan, host) = as_planned();
    host.thread(FIRST, FIRST + 4, "CPU 3/KVM", &plan.guests[1].cpus());
    let cpu = plan.guests[0].vcpus[3];
    let remedy = format!("`taskset -p -c {cpu} {}`", FIRST + 4);
    is_found(&plan, &host, &["guest1 vCPU 3", &format!("on {cpu}"), &remedy]);
}

#[test]
fn an_emulator_thread_on_a_guests_core_is_found() {
    let (plan, host) = as_planned();
    host.thread(FIRST + 100, FIRST + 100 + WORKER, "worker", &plan.guests[0].cpus());
    let thread = (FIRST + 100 + WORKER).to_string();
    is_found(&plan, &host, &["guest2 emulator threads", "1 of 2", &thread]);
}

#[test]
fn memory_on_another_node_is_found_with_the_share_that_leaked() {
    let (plan, host) = as_planned();
    let bytes = plan.guests[0].cells[0].bytes;
    let quarter = (bytes / 4) >> 21 << 21;
    host.memory(FIRST, bytes, &[(0, bytes - quarter), (1, quarter)], 2048, 1);
    let remedy = format!("`migratepages {FIRST} 1 0`");
    is_found(&plan, &host, &["guest1 memory", "; 2", "% lies on another node", &remedy]);
}

#[test]
fn pages_of_the_usual_size_are_found() {
    let (plan, host) = as_planned();
    let bytes = plan.guests[0].cells[0].bytes;
    host.memory(FIRST, bytes, &[(0, bytes)], 4, 1);
    is_found(&plan, &host, &["guest1 huge pages", "pages of 4K", "pages of 2M"]);
}

#[test]
fn numa_balancing_is_found() {
    let (plan, host) = as_planned();
    host.write("/proc/sys/kernel/numa_balancing", "1");
    is_found(&plan, &host, &["NUMA balancing", "`echo 0 >/proc/sys/kernel/numa_balancing`"]);
}

#[test]
fn merging_of_pages_is_found() {
    let (plan, host) = as_planned();
    host.write("/sys/kernel/mm/ksm/run", "1");
    is_found(&plan, &host, &["KSM", "`echo 0 >/sys/kernel/mm/ksm/run`"]);
    // Merged pages were taken apart, and no more are merged.
    host.write("/sys/kernel/mm/ksm/run", "2");
    assert!(findings(&plan, &host).iter().all(|finding| finding.good));
}

#[test]
fn a_cpuset_that_is_too_narrow_is_found() {
    let (plan, host) = as_planned();
    // In the group of the machine itself, which the other guest's is not.
    let group = "/sys/fs/cgroup/machine.slice/guest.scope";
    host.write(&format!("{group}/cpuset.cpus.effective"), "0-40");
    host.write(&format!("{group}/cpuset.mems.effective"), "0-1");
    host.write(&format!("/proc/{FIRST}/cgroup"), "0::/machine.slice");
    is_found(&plan, &host, &["guest2 cpuset", "CPUs 0-40", "guest.scope/cpuset.cpus"]);
}

#[test]
fn the_older_form_of_control_groups_is_read() {
    let (plan, host) = as_planned();
    host.write(&format!("/proc/{FIRST}/cgroup"), "3:cpuset:/machine\n0::/machine.slice");
    host.write("/sys/fs/cgroup/cpuset/machine/cpuset.effective_cpus", "0-63");
    host.write("/sys/fs/cgroup/cpuset/machine/cpuset.effective_mems", "1");
    is_found(&plan, &host, &["guest1 cpuset", "nodes 1", "cpuset/machine/cpuset.mems"]);
}

#[test]
fn a_governor_that_saves_power_is_found() {
    let (plan, host) = as_planned();
    let cpu = plan.guests[1].vcpus[2];
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    host.write(&file, "powersave");
    let found = format!("powersave on CPUs {cpu}");
    is_found(&plan, &host, &["governor", &found, "echo performance"]);
}

#[test]
fn a_cpu_that_cannot_be_kept_at_its_highest_frequency_is_as_planned() {
    let (plan, host) = as_planned();
    let directory = format!("/sys/devices/system/cpu/cpu{}/cpufreq", plan.guests[1].vcpus[2]);
    host.write(&format!("{directory}/scaling_governor"), "powersave");
    host.write(&format!("{directory}/scaling_available_governors"), "powersave schedutil");
    assert!(findings(&plan, &host).iter().all(|finding| finding.good));
}

#[test]
fn a_missing_guest_is_found() {
    let (plan, host) = as_planned();
    fs::remove_dir_all(host.root().join(format!("proc/{}", FIRST + 100))).unwrap();
    is_found(&plan, &host, &["guest2", "no process", "`virsh start guest2`"]);
}

#[test]
fn a_pool_on_another_node_is_found() {
    let (plan, host) = as_planned();
    for (pid, guest) in [(FIRST, &plan.guests[0]), (FIRST + 100, &plan.guests[1])] {
        let cell = &guest.cells[0];
        host.memory(pid, cell.bytes, &[(cell.host_node, cell.bytes)], 2048, 0);
    }
    let remedy = format!("`migratepages {FIRST} 0 1`");
    is_found(&plan, &host, &["pool job1", "16 MiB on node 0; 100 %", "on nodes 1", &remedy]);
}

#[test]
fn a_guest_that_was_not_planned_is_found() {
    let (plan, host) = as_planned();
    let mut third = plan.guests[0].clone();
    third.name = "another".into();
    host.start(5000, &third);
    is_found(&plan, &host, &["other guests", "another (process 5000)", "taskset -a"]);
    // A host without CPUs of its own has none to put it on, and it is not the plan's to end.
    let mut narrow = plan.clone();
    narrow.host.cpus = NumberSet::default();
    is_found(&narrow, &host, &["other guests", "plan again with --host-cpus"]);
    // On the host's own CPUs it harms nobody.
    third.vcpus = vec![0];
    fs::remove_dir_all(host.root().join("proc/5000")).unwrap();
    host.start(5000, &third);
    assert!(findings(&plan, &host).iter().all(|finding| finding.good));
}

#[test]
fn guests_of_libvirt_have_its_remedies() {
    let (plan, host) = as_planned();
    let line = "/usr/bin/qemu-system-x86_64\0-name\0guest=guest1,debug-threads=on\0";
    host.write(&format!("/proc/{FIRST}/cmdline"), line);
    host.thread(FIRST, FIRST + 1, "CPU 0/KVM", &plan.host.cpus);
    let cpu = plan.guests[0].vcpus[0];
    is_found(&plan, &host, &[&format!("`virsh vcpupin guest1 0 {cpu} --live`")]);
}

#[test]
fn files_that_are_no_such_files_are_no_crash() {
    let (plan, host) = as_planned();
    for file in ["numa_maps", "maps", "cgroup"] {
        host.write(&format!("/proc/{FIRST}/{file}"), "x\u{fffd} y:z N=\nffffffffffffffffffff 1");
    }
    host.write(&format!("/proc/{FIRST}/task/{}/status", FIRST + 2), "Cpus_allowed_list:\t5-1");
    assert!(findings(&plan, &host).iter().any(|finding| !finding.good));
}
