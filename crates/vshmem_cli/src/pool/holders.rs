//! Processes of this machine that have a pool's file mapped and are no clients of it: virtual
//! machine monitors, whose guests have the pool as a device.

use vshmem_link::{MappedFile, Region, process_numbers};

use super::processes::command;

/// A process that has the file mapped.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its pid, as this process sees it.
    pub pid: u32,
    /// Its program.
    command: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.command, self.pid)
    }
}

/// Those whose maps may be read, `known` pids left out. Those of containers are among them: where
/// a container's processes are clients, their domain says so.
pub fn holders(file: &Region, known: &[u32]) -> Vec<Holder> {
    let mapped = MappedFile::new(file.device, file.inode);
    let mut found: Vec<Holder> = process_numbers()
        .filter(|pid| !known.contains(pid) && *pid != std::process::id())
        .filter(|pid| mapped.is_mapped_by(*pid))
        .map(|pid| Holder { pid, command: command(pid) })
        // Its server and other commands end with the pool.
        .filter(|holder| holder.command != "vshmem")
        .collect();
    found.sort_by_key(|holder| holder.pid);
    found
}
