//! PID namespaces below this one: containers, and steps of jobs.
//!
//! A PID namespace ends with its init: the kernel first kills and reaps all others in it. So a
//! pidfd of its init tells when no process of the domain is left.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use rustix::fs::stat;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::domain::{INITIAL_PID_NAMESPACE, pid_namespace};
use crate::process::{proc_is_own, start_in, status_words};

/// What was seen of a PID namespace.
#[derive(Debug)]
pub enum Sighting {
    /// It is there: a descriptor that becomes readable when it ends, and the start time of its init
    /// (0: unknown).
    There(OwnedFd, u64),
    /// It has ended.
    Gone,
    /// It may be one that is not below this one, or whose processes may not be looked at.
    Unknown,
}

/// Looks for PID namespaces, by their inodes.
#[must_use]
pub fn sight(namespaces: &BTreeSet<u32>) -> BTreeMap<u32, Sighting> {
    let search = Search::run(namespaces);
    let mut inits = search.inits;
    let unseen = || if search.is_complete { Sighting::Gone } else { Sighting::Unknown };
    let sighting = |&namespace| {
        let init = inits.remove(&namespace);
        (namespace, init.map_or_else(unseen, |(init, born)| Sighting::There(init, born)))
    };
    namespaces.iter().map(sighting).collect()
}

/// One look at every process that /proc shows.
struct Search {
    inits: BTreeMap<u32, (OwnedFd, u64)>,
    /// Whether a namespace of which no init was found does not exist.
    is_complete: bool,
}

impl Search {
    fn run(wanted: &BTreeSet<u32>) -> Self {
        let mut search = Self { inits: BTreeMap::new(), is_complete: false };
        // Otherwise its numbers mean others here.
        if !proc_is_own() {
            return search;
        }
        let Ok(entries) = std::fs::read_dir("/proc") else { return search };
        // All namespaces are below the initial one. Where /proc hides processes, it hides init
        // first.
        search.is_complete = pid_namespace().is_ok_and(|own| own == INITIAL_PID_NAMESPACE)
            && stat("/proc/1/status").is_ok();
        for entry in entries {
            let Ok(entry) = entry else {
                search.is_complete = false;
                break;
            };
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                search.look_at(pid, wanted);
            }
        }
        search
    }

    fn look_at(&mut self, pid: Pid, wanted: &BTreeSet<u32>) {
        match namespace_of(pid) {
            Ok(namespace) if wanted.contains(&namespace) && is_init(pid) => {
                // From the descriptor on the pid cannot mean another process.
                let init = pidfd_open(pid, PidfdFlags::empty());
                let born = start_in(format_args!("{}", pid.as_raw_nonzero())).unwrap_or(0);
                if namespace_of(pid) != Ok(namespace) || !is_init(pid) {
                    return;
                }
                match init {
                    Ok(init) => _ = self.inits.insert(namespace, (init, born)),
                    Err(_) => self.is_complete = false,
                }
            }
            // Another namespace, or a process that has ended meanwhile: no init that lives through
            // all of this look is missed.
            Ok(_) | Err(Errno::NOENT | Errno::SRCH) => {}
            // Its namespace may not be read. That matters only if the process may be the init of a
            // namespace below this one.
            Err(_) => self.is_complete &= !is_init(pid),
        }
    }
}

fn namespace_of(pid: Pid) -> Result<u32, Errno> {
    stat(format!("/proc/{}/ns/pid", pid.as_raw_nonzero())).map(|namespace| namespace.st_ino as u32)
}

/// Whether a process may be the init of a PID namespace below this one: its pid in the innermost of
/// its namespaces is 1. What cannot be read may be.
fn is_init(pid: Pid) -> bool {
    let status = match std::fs::read(format!("/proc/{}/status", pid.as_raw_nonzero())) {
        Ok(status) => status,
        Err(error) => {
            let gone = [Errno::NOENT, Errno::SRCH].map(|errno| Some(errno.raw_os_error()));
            return !gone.contains(&error.raw_os_error());
        }
    };
    // None in a kernel without PID namespaces.
    let pids = status_words(&status, "NSpid:").unwrap_or_default();
    pids.len() > 1 && pids.last().is_some_and(|innermost| innermost == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_namespace_has_no_init_below_it() {
        let own = pid_namespace().unwrap();
        let seen = sight(&BTreeSet::from([own]));
        assert!(!matches!(seen[&own], Sighting::There(..)));
    }
}
