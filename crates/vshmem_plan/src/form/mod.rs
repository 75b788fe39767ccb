//! A plan in the words of who carries it out.

mod cloud_hypervisor;
mod libvirt;
mod picture;
mod qemu;
mod svg;
mod systemd;
mod text;
mod text_picture;
mod xl;

pub use cloud_hypervisor::cloud_hypervisor;
pub use libvirt::libvirt;
pub use qemu::{qemu, qemu_words};
pub use svg::svg;
pub use systemd::systemd;
pub use text::text;
pub use xl::xl;

/// A size as `vshmem pool create --size` takes it: exact, in the largest unit that allows it.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let whole = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or(bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// `node 0`, `nodes 0-1`.
fn nodes(nodes: &crate::NumberSet) -> String {
    format!("node{} {nodes}", if nodes.len() == 1 { "" } else { "s" })
}
