//! What a plan writes into the kernel's files: only what is not so already.

mod host;

use std::fs;
use std::path::Path;
use std::process::Command;

use host::{Host, two_guests};
use vshmem_plan::settings::settings;

const PAGES: &str = "hugepages/hugepages-2048kB";

fn reserve(host: &Host, node: u32, all: u64, free: u64) {
    let directory = format!("/sys/devices/system/node/node{node}/{PAGES}");
    host.write(&format!("{directory}/nr_hugepages"), &all.to_string());
    host.write(&format!("{directory}/free_hugepages"), &free.to_string());
}

#[test]
fn only_what_is_not_so_already_is_written() {
    let plan = two_guests();
    let host = Host::of(&plan);
    let needed = |guest: usize| plan.guests[guest].bytes() >> 21;
    // One node has what is needed; of the other's 100, 60 are in use.
    reserve(&host, 0, needed(0), needed(0));
    reserve(&host, 1, 100, 40);
    let found = settings(&plan, host.root()).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = (needed(1) + 60).to_string();
    assert_eq!((&*found[0].found, &found[0].value), ("100", &expected));
    assert!(found[0].file.ends_with(format!("node1/{PAGES}/nr_hugepages")));
    // Three of the free ones are promised: of either node.
    host.write(&format!("/sys/kernel/mm/{PAGES}/resv_hugepages"), "3");
    let found = settings(&plan, host.root()).unwrap();
    let values: Vec<_> = found.iter().map(|setting| setting.value.clone()).collect();
    assert_eq!(values, [needed(0) + 3, needed(1) + 63].map(|number| number.to_string()));
}

/// The commands write what [`settings`] finds, and what undoes them brings back what was there.
#[test]
fn steps_by_hand_are_the_settings() {
    let plan = two_guests();
    let host = Host::of(&plan);
    let needed = plan.guests[0].bytes() >> 21;
    reserve(&host, 0, needed + 2, needed + 2);
    reserve(&host, 1, 100, 40);
    host.write(&format!("/sys/kernel/mm/{PAGES}/resv_hugepages"), "3");
    host.write("/proc/sys/kernel/numa_balancing", "1");
    host.write("/sys/kernel/mm/ksm/run", "1");
    host.write("/run/none", "");
    for (cpu, known) in plan.guest_cpus().iter().zip(["performance powersave", "powersave"]) {
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
        host.write(&format!("{directory}/scaling_governor"), "powersave");
        host.write(&format!("{directory}/scaling_available_governors"), known);
    }
    let read = |file: &Path| {
        let text = fs::read_to_string(host.root().join(file.strip_prefix("/").unwrap())).unwrap();
        text.trim().to_owned()
    };
    let run = |commands: Vec<&str>| {
        let root = host.root().display();
        let commands = commands.into_iter().filter(|command| !command.contains("pool")).map(|c| {
            let places = ["/sys/", "/proc/", "/run/"].into_iter();
            let words = places.flat_map(|place| [" ", ">", "<"].map(|before| (before, place)));
            words.fold(c.to_owned(), |command, (before, place)| {
                command.replace(&format!("{before}{place}"), &format!("{before}{root}{place}"))
            })
        });
        let script = commands.collect::<Vec<_>>().join("\n");
        Command::new("sh").args(["-c", &script]).status().unwrap();
    };
    let wanted = settings(&plan, host.root()).unwrap();
    assert_eq!(wanted.len(), 5, "{wanted:?}");
    run(plan.steps.iter().map(|step| &*step.command).collect());
    for setting in &wanted {
        assert_eq!(read(&setting.file), setting.value, "{setting:?}");
    }
    run(plan.steps.iter().rev().map(|step| &*step.undo).collect());
    for setting in &wanted {
        assert_eq!(read(&setting.file), setting.found, "{setting:?}");
    }
    assert_eq!(settings(&plan, host.root()).unwrap(), wanted);
    assert_eq!(fs::read_dir(host.root().join("run")).unwrap().count(), 1);
}

#[test]
fn what_breaks_a_plan_is_switched_off() {
    let plan = two_guests();
    let host = Host::of(&plan);
    reserve(&host, 0, 1 << 20, 1 << 20);
    reserve(&host, 1, 1 << 20, 1 << 20);
    host.write("/proc/sys/kernel/numa_balancing", "1");
    host.write("/sys/kernel/mm/ksm/run", "1");
    let cpu = plan.guests[0].vcpus[0];
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
    host.write(&format!("{directory}/scaling_governor"), "powersave");
    let written = |host: &Host| -> Vec<(String, String)> {
        let all = settings(&plan, host.root()).unwrap();
        all.into_iter().map(|setting| (setting.found, setting.value)).collect()
    };
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(written(&host), [pair("1", "0"), pair("1", "0"), pair("powersave", "performance")]);
    // A driver that has no such governor keeps its own.
    host.write(&format!("{directory}/scaling_available_governors"), "powersave schedutil");
    assert_eq!(written(&host), [pair("1", "0"), pair("1", "0")]);
}

#[test]
fn huge_pages_that_the_kernel_does_not_have_are_a_sentence() {
    let plan = two_guests();
    let host = Host::of(&plan);
    let said = settings(&plan, host.root()).unwrap_err();
    assert!(said.contains("node 0") && said.contains("`ls /sys/devices"), "{said}");
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let plan = two_guests();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<vshmem_plan::Plan>(&text).unwrap(), plan);
    let odd = text.replace("\"cpus\":\"", "\"cpus\":\"x");
    assert!(serde_json::from_str::<vshmem_plan::Plan>(&odd).is_err());
}
