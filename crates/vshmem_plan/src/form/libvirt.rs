//! libvirt's domains (libvirt.org/formatdomain.html, "CPU Tuning", "NUMA Node Tuning", "Memory
//! Backing", "Shared memory device"). `numatune` counts the host's nodes, `cell` and the page's
//! nodeset those of the guest.

use std::fmt::Write;

use crate::number_set::NumberSet;
use crate::result::{Cell, Guest, Plan};

/// A file of domain XML for each guest, as (name, text). `emulated`: without hardware
/// virtualisation, so without the host's own CPU model.
#[must_use]
pub fn libvirt(plan: &Plan, emulated: bool) -> Vec<(String, String)> {
    let file = |(number, guest): (usize, &Guest)| {
        (format!("{}.xml", guest.name), domain(plan, number, guest, emulated))
    };
    plan.guests.iter().enumerate().map(file).collect()
}

fn domain(plan: &Plan, number: usize, guest: &Guest, emulated: bool) -> String {
    let kind = if emulated { "qemu" } else { "kvm" };
    let mut xml = String::new();
    let mut line = |indent: usize, text: String| {
        let _ = writeln!(xml, "{:indent$}{text}", "");
    };
    line(0, format!("<domain type='{kind}'>"));
    line(2, format!("<name>{}</name>", guest.name));
    line(2, format!("<memory unit='KiB'>{}</memory>", guest.bytes() >> 10));
    for text in memory_backing(plan, guest) {
        line(2, text);
    }
    line(
        2,
        match guest.vcpus.len() {
            // The emulation makes atomic operations for others only where there is room for two.
            1 if emulated => "<vcpu placement='static' current='1'>2</vcpu>".into(),
            count => format!("<vcpu placement='static'>{count}</vcpu>"),
        },
    );
    line(2, "<iothreads>1</iothreads>".into());
    line(2, "<cputune>".into());
    for (vcpu, cpu) in guest.vcpus.iter().enumerate() {
        line(4, format!("<vcpupin vcpu='{vcpu}' cpuset='{cpu}'/>"));
    }
    line(4, format!("<emulatorpin cpuset='{}'/>", guest.emulator));
    line(4, format!("<iothreadpin iothread='1' cpuset='{}'/>", guest.emulator));
    line(2, "</cputune>".into());
    line(2, "<numatune>".into());
    let nodes: NumberSet = guest.cells.iter().map(|cell| cell.host_node).collect();
    line(4, format!("<memory mode='strict' nodeset='{nodes}'/>"));
    for (cell, node) in guest.cells.iter().enumerate() {
        let node = node.host_node;
        line(4, format!("<memnode cellid='{cell}' mode='strict' nodeset='{node}'/>"));
    }
    line(2, "</numatune>".into());
    for text in firmware(plan, number) {
        line(2, text);
    }
    line(2, "<features>".into());
    line(4, "<acpi/>".into());
    line(2, "</features>".into());
    for text in cpu(plan, guest, emulated) {
        line(2, text);
    }
    line(2, "<devices>".into());
    for text in pool_devices(plan, number) {
        line(4, text);
    }
    line(4, "<!-- Add the guest's disks and network here: virsh edit -->".into());
    line(4, "<console type='pty'/>".into());
    line(2, "</devices>".into());
    line(0, "</domain>".into());
    xml
}

/// Huge pages if the plan has them; locked, and never merged with another guest's.
fn memory_backing(plan: &Plan, guest: &Guest) -> Vec<String> {
    let mut lines = vec!["<memoryBacking>".to_owned()];
    if plan.page_bytes > 4096 {
        let cells: NumberSet = (0..).zip(&guest.cells).map(|(cell, _)| cell).collect();
        lines.push("  <hugepages>".into());
        let kilobytes = plan.page_bytes >> 10;
        lines.push(format!("    <page size='{kilobytes}' unit='KiB' nodeset='{cells}'/>"));
        lines.push("  </hugepages>".into());
    }
    lines.push("  <nosharepages/>".into());
    lines.push("</memoryBacking>".into());
    lines
}

/// The machine, and what it is told about where it lies.
fn firmware(plan: &Plan, guest: usize) -> Vec<String> {
    let machine = "  <type arch='x86_64' machine='q35'>hvm</type>";
    match plan.node_credential(guest) {
        None => vec!["<os>", machine, "</os>"].into_iter().map(str::to_owned).collect(),
        Some(credential) => vec![
            "<sysinfo type='smbios'>".to_owned(),
            "  <oemStrings>".to_owned(),
            format!("    <entry>{credential}</entry>"),
            "  </oemStrings>".to_owned(),
            "</sysinfo>".to_owned(),
            "<os>".to_owned(),
            machine.to_owned(),
            "  <smbios mode='sysinfo'/>".to_owned(),
            "</os>".to_owned(),
        ],
    }
}

fn cpu(plan: &Plan, guest: &Guest, emulated: bool) -> Vec<String> {
    let mut topology = guest.topology;
    if emulated && guest.vcpus.len() == 1 {
        // The place of the second one, which is not there.
        topology.sockets = 2;
    }
    let mut lines = vec![if emulated {
        "<cpu mode='maximum'>".to_owned()
    } else {
        "<cpu mode='host-passthrough' migratable='off'>".to_owned()
    }];
    lines.push(format!(
        "  <topology sockets='{}' dies='{}' cores='{}' threads='{}'/>",
        topology.sockets, topology.dies, topology.cores, topology.threads
    ));
    if !emulated {
        lines.push("  <cache mode='passthrough'/>".into());
        if plan.topoext && topology.threads > 1 {
            lines.push("  <feature policy='require' name='topoext'/>".into());
        }
    }
    lines.push("  <numa>".into());
    for (number, cell) in guest.cells.iter().enumerate() {
        lines.extend(numa_cell(number, cell));
    }
    lines.push("  </numa>".into());
    lines.push("</cpu>".into());
    lines
}

fn numa_cell(number: usize, cell: &Cell) -> Vec<String> {
    let mut lines = vec![format!(
        "    <cell id='{number}' cpus='{}' memory='{}' unit='KiB'>",
        cell.vcpus,
        cell.bytes >> 10
    )];
    lines.push("      <distances>".into());
    for (other, distance) in cell.distances.iter().enumerate() {
        lines.push(format!("        <sibling id='{other}' value='{distance}'/>"));
    }
    lines.push("      </distances>".into());
    lines.push("    </cell>".into());
    lines
}

/// The pools of a guest. Where it has several nodes, each pool's device hangs on a bus of the node
/// that is nearest to the pool's pages.
fn pool_devices(plan: &Plan, guest: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let many = plan.guests[guest].cells.len() > 1;
    for (place, (pool, cell)) in plan.pools_of(guest).enumerate() {
        let (expander, port) = (2 * place + 1, 2 * place + 2);
        if many {
            lines.push("<controller type='pci' index='0' model='pcie-root'/>".to_owned());
            lines.push(format!(
                "<controller type='pci' index='{expander}' model='pcie-expander-bus'>"
            ));
            lines.push(format!("  <target busNr='{}'>", 0x40 + 0x20 * place));
            lines.push(format!("    <node>{cell}</node>"));
            lines.push("  </target>".into());
            lines.push("</controller>".into());
            lines.push(format!("<controller type='pci' index='{port}' model='pcie-root-port'>"));
            lines.push(format!(
                "  <address type='pci' domain='0x0000' bus='0x{expander:02x}' slot='0x00' function='0x0'/>"
            ));
            lines.push("</controller>".into());
        }
        lines.push(format!("<shmem name='vshmem.{}'>", pool.name));
        lines.push("  <model type='ivshmem-plain'/>".into());
        lines.push(format!("  <size unit='M'>{}</size>", pool.bytes >> 20));
        if many {
            lines.push(format!(
                "  <address type='pci' domain='0x0000' bus='0x{port:02x}' slot='0x00' function='0x0'/>"
            ));
        }
        lines.push("</shmem>".into());
    }
    lines
}
