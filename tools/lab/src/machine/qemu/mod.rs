//! QEMU: a whole machine with the distribution's own kernel, on the host's files (9p, under an
//! overlay in the guest's memory). The pool is a PCI device (ivshmem) or an nvdimm.

pub(super) mod acceleration;
pub(super) mod image;
pub(super) mod kernel;
mod machine;
pub(super) mod needs;
pub(super) mod ramdisk;
pub(super) mod server;
pub(super) mod words;

pub use acceleration::kvm_boots_guests;
pub(crate) use machine::Qemu;
