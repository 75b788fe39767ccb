//! Xen: one emulated machine with the distribution's hypervisor. Its control domain, dom0, is the
//! guest that has a process on the host; it runs on the host's files, as a QEMU guest does, with
//! Xen's tools laid over them. The other guests are domains that dom0 makes; they run on what an
//! initial file system holds.

pub(super) mod description;
mod machine;
pub(super) mod root;

pub(crate) use machine::Xen;
