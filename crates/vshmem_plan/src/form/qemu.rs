//! QEMU's own words (qemu(1): -smp, -object, -numa).
//! QEMU pins no thread itself, so each guest starts stopped, for the user to pin its threads first.

use crate::result::{Cell, Guest, Plan, Pool};

/// What the script begins with.
const HEAD: &str = "\
#!/bin/sh -e
# Each guest starts stopped (-S). query-cpus-fast at its QMP socket names the threads of its vCPUs:
# pin each with taskset -p -c CPU THREAD, then let the guest run with cont.
";

/// A shell script with a command for each guest. `emulated`: without hardware virtualisation.
#[must_use]
pub fn qemu(plan: &Plan, emulated: bool) -> String {
    let mut text = String::from(HEAD);
    for (number, guest) in plan.guests.iter().enumerate() {
        let words = arguments(plan, number, guest, emulated);
        text += &format!(
            "\n# {}: vCPUs 0 and on belong on CPUs {}; emulator threads on {}.\n",
            guest.name,
            list(&guest.vcpus),
            guest.emulator
        );
        text += "qemu-system-x86_64";
        for word in words {
            text += " \\\n  ";
            text += &word;
        }
        text += " \\\n  \"$@\" &\n";
    }
    text += "wait\n";
    text
}

/// The words with which QEMU is started for the guest with this number from 0. The guest starts
/// stopped, and answers QMP at `socket`.
#[must_use]
pub fn qemu_words(plan: &Plan, number: usize, emulated: bool, socket: &str) -> Vec<String> {
    let all = arguments(plan, number, &plan.guests[number], emulated);
    // No word of a plan has a space in it.
    let mut words: Vec<String> =
        all.iter().flat_map(|pair| pair.split(' ')).map(str::to_owned).collect();
    if let Some(place) = words.iter().position(|word| word == "-qmp") {
        words[place + 1] = format!("unix:{socket},server=on,wait=off");
    }
    words
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// An option and its value each.
fn arguments(plan: &Plan, number: usize, guest: &Guest, emulated: bool) -> Vec<String> {
    let topology = guest.topology;
    let (accelerator, cpu) = match (emulated, plan.topoext && topology.threads > 1) {
        // The emulated CPU is one of AMD's, whose threads are seen as cores.
        (true, _) => ("tcg", "max,vendor=GenuineIntel"),
        (false, true) => ("kvm", "host,topoext=on"),
        (false, false) => ("kvm", "host"),
    };
    let mut words = vec![
        format!("-name {},debug-threads=on -S", guest.name),
        format!("-qmp unix:/run/vshmem/{}.qmp,server=on,wait=off", guest.name),
        format!("-machine q35,accel={accelerator} -cpu {cpu}"),
        processors(guest, emulated),
        format!("-m {}M", guest.bytes() >> 20),
    ];
    for (cell, node) in guest.cells.iter().enumerate() {
        words.extend(memory(plan, cell, node));
    }
    for (cell, node) in guest.cells.iter().enumerate() {
        for (other, distance) in node.distances.iter().enumerate().filter(|(o, _)| *o != cell) {
            words.push(format!("-numa dist,src={cell},dst={other},val={distance}"));
        }
    }
    if let Some(credential) = plan.node_credential(number) {
        // A comma within a value is doubled.
        words.push(format!("-smbios type=11,value={}", credential.replace(',', ",,")));
    }
    for (place, (pool, cell)) in plan.pools_of(number).enumerate() {
        words.extend(device(place, pool, cell, guest.cells.len() > 1));
    }
    words
}

/// The emulation makes atomic operations for others only where there is room for two processors.
fn processors(guest: &Guest, emulated: bool) -> String {
    let topology = guest.topology;
    match guest.vcpus.len() {
        1 if emulated => "-smp 1,maxcpus=2".into(),
        count => format!(
            "-smp {count},sockets={},dies={},cores={},threads={}",
            topology.sockets, topology.dies, topology.cores, topology.threads
        ),
    }
}

/// A node of the guest, from a node of the host.
fn memory(plan: &Plan, number: usize, cell: &Cell) -> Vec<String> {
    let mut backend = format!(
        "-object memory-backend-memfd,id=m{number},size={}M,host-nodes={},policy=bind,prealloc=on",
        cell.bytes >> 20,
        cell.host_node
    );
    if plan.page_bytes > 4096 {
        backend += &format!(",hugetlb=on,hugetlbsize={}M", plan.page_bytes >> 20);
    }
    let cpus: Vec<String> =
        cell.vcpus.to_string().split(',').map(|range| format!("cpus={range}")).collect();
    vec![backend, format!("-numa node,nodeid={number},{},memdev=m{number}", cpus.join(","))]
}

/// A pool's device; on a bus of that node, where the guest has several.
fn device(place: usize, pool: &Pool, cell: u32, many: bool) -> Vec<String> {
    let memory = format!("pool{place}");
    let mut words = vec![format!(
        "-object memory-backend-file,id={memory},mem-path=/dev/shm/vshmem.{},size={}M,share=on",
        pool.name,
        pool.bytes >> 20
    )];
    let bus = if many {
        words.push(format!(
            "-device pxb-pcie,id=expander{place},bus=pcie.0,bus_nr={},numa_node={cell}",
            0x40 + 0x20 * place
        ));
        words.push(format!(
            "-device pcie-root-port,id=port{place},bus=expander{place},chassis={}",
            place + 1
        ));
        format!(",bus=port{place}")
    } else {
        String::new()
    };
    words.push(format!("-device ivshmem-plain,memdev={memory},master=on{bus}"));
    words
}
