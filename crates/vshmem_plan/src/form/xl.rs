//! Xen's guests (xl.cfg(5)). Memory follows the domain's node affinity, which follows its CPUs.

use crate::result::{Cell, Guest, Plan};

/// A file for each guest, as (name, text).
#[must_use]
pub fn xl(plan: &Plan) -> Vec<(String, String)> {
    plan.guests.iter().map(|guest| (format!("{}.cfg", guest.name), domain(plan, guest))).collect()
}

fn domain(plan: &Plan, guest: &Guest) -> String {
    let cpus: Vec<String> = guest.vcpus.iter().map(|cpu| format!("\"{cpu}\"")).collect();
    let cells: Vec<String> = guest.cells.iter().map(vnode).collect();
    let mut text = format!(
        "name = \"{}\"\ntype = \"pvh\"\nmemory = {}\nvcpus = {}\ncpus = [{}]\n",
        guest.name,
        guest.bytes() >> 20,
        guest.vcpus.len(),
        cpus.join(", ")
    );
    if guest.cells.len() > 1 {
        text += &format!("vnuma = [{}]\n", cells.join(", "));
    }
    if !plan.pools.is_empty() {
        text += "# Each pool is a Xen domain of its own: vshmem pool create NAME --xen\n";
        text += "max_grant_frames = 64\n";
    }
    text += "# Add the guest's kernel, disks and network here.\n";
    text
}

fn vnode(cell: &Cell) -> String {
    let distances: Vec<String> = cell.distances.iter().map(u32::to_string).collect();
    format!(
        "[\"pnode={}\", \"size={}\", \"vcpus={}\", \"vdistances={}\"]",
        cell.host_node,
        cell.bytes >> 20,
        cell.vcpus,
        distances.join(",")
    )
}
