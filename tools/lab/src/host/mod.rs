//! What a lab is on the host: its directory and what is written there, its processes, its users'
//! rights, and the host's tools.

pub(crate) mod admission;
pub(crate) mod directory;
pub(crate) mod guest_processes;
pub(crate) mod json;
pub(crate) mod log;
pub(crate) mod record;
pub(crate) mod sweep;
pub(crate) mod tool;
