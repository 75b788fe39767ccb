//! Containers or services in place of guests: a slice for each, by systemd.resource-control(5).

use crate::number_set::NumberSet;
use crate::result::Plan;

/// A slice for each guest, as (name, text).
#[must_use]
pub fn systemd(plan: &Plan) -> Vec<(String, String)> {
    let slice = |guest: &crate::result::Guest| {
        let nodes: NumberSet = guest.cells.iter().map(|cell| cell.host_node).collect();
        let text = format!(
            "# Run a program in it: systemd-run --slice={name}.slice --scope vshmem run --pool NAME PROGRAM\n\
             [Unit]\nDescription=CPUs {cpus} and the memory of node {nodes}\n\n\
             [Slice]\nAllowedCPUs={cpus}\nAllowedMemoryNodes={nodes}\nMemoryMax={bytes}\n",
            name = guest.name,
            cpus = guest.cpus(),
            bytes = guest.bytes()
        );
        (format!("{}.slice", guest.name), text)
    };
    plan.guests.iter().map(slice).collect()
}
