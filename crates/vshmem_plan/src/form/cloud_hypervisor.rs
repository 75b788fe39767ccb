//! Cloud Hypervisor's words (its own pages on CPUs and memory). Not tried here.

use crate::result::{Guest, Plan};

/// A shell script with a command for each guest.
#[must_use]
pub fn cloud_hypervisor(plan: &Plan) -> String {
    let mut text = String::from("#!/bin/sh -e\n");
    for (number, guest) in plan.guests.iter().enumerate() {
        text += &format!("\n# {}\ncloud-hypervisor", guest.name);
        for word in arguments(plan, number, guest) {
            text += " \\\n  ";
            text += &word;
        }
        text += " \\\n  \"$@\" &\n";
    }
    text += "wait\n";
    text
}

fn arguments(plan: &Plan, number: usize, guest: &Guest) -> Vec<String> {
    let topology = guest.topology;
    let affinity: Vec<String> =
        guest.vcpus.iter().enumerate().map(|(vcpu, cpu)| format!("{vcpu}@[{cpu}]")).collect();
    let mut words = vec![
        format!(
            "--cpus boot={},topology={}:{}:{}:{},affinity=[{}]",
            guest.vcpus.len(),
            topology.threads,
            topology.cores,
            topology.dies,
            topology.sockets,
            affinity.join(",")
        ),
        "--memory size=0".to_owned(),
    ];
    let zones = guest.cells.iter().enumerate().map(|(cell, node)| {
        let mut zone = format!(
            "id=m{cell},size={}M,shared=on,host_numa_node={}",
            node.bytes >> 20,
            node.host_node
        );
        if plan.page_bytes > 4096 {
            zone += &format!(",hugepages=on,hugepage_size={}M", plan.page_bytes >> 20);
        }
        zone
    });
    words.push(format!("--memory-zone {}", zones.collect::<Vec<_>>().join(" ")));
    let nodes = guest.cells.iter().enumerate().map(|(cell, node)| {
        let distances = node.distances.iter().enumerate().filter(|(other, _)| *other != cell);
        let distances: Vec<String> =
            distances.map(|(other, distance)| format!("{other}@{distance}")).collect();
        format!(
            "guest_numa_id={cell},cpus=[{}],distances=[{}],memory_zones=[m{cell}]",
            node.vcpus,
            distances.join(",")
        )
    });
    words.push(format!("--numa {}", nodes.collect::<Vec<_>>().join(" ")));
    // A comma would begin another string.
    if let Some(credential) = plan.node_credential(number).filter(|words| !words.contains(',')) {
        words.push(format!("--platform oem_strings=[{credential}]"));
    }
    for (pool, _) in plan.pools_of(number) {
        words.push(format!("--pmem file=/dev/shm/vshmem.{}", pool.name));
    }
    words
}
