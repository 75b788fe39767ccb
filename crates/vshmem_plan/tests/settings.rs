//! What a plan writes into the kernel's files: only what is not so already.

mod host;

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
