//! Whether a process of this domain lives.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use vshmem_ipc::DomainRow;
use vshmem_link::{domain_facts, process_facts};
use vshmem_wire::DomainState;

/// How a process stands.
#[derive(Debug)]
pub enum Life {
    /// It has ended, or another one has its pid by now.
    Over,
    /// It lives; the descriptor becomes readable when it ends.
    Watched(OwnedFd),
    /// It lives as far as can be seen, and no descriptor can be had.
    Unwatched,
}

impl Life {
    /// Looks at a process by pid and start time (0: unknown).
    pub fn of(pid: u32, start: u64) -> Self {
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return Self::Over;
        };
        // The descriptor first: from then on the pid cannot mean anybody else.
        let handle = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(Errno::SRCH) => return Self::Over,
            Err(_) => None,
        };
        // 0 where /proc hides the processes of other users: then the pid has to do.
        let now = process_facts(Some(pid)).start;
        if start != 0 && now != 0 && now != start {
            return Self::Over;
        }
        match handle {
            Some(handle) if ended(&handle) => Self::Over,
            Some(handle) => Self::Watched(handle),
            None if rustix::process::test_kill_process(raw) == Err(Errno::SRCH) => Self::Over,
            None => Self::Unwatched,
        }
    }

    /// Whether it lives.
    pub fn goes_on(&self) -> bool {
        !matches!(self, Self::Over)
    }
}

fn ended(handle: &OwnedFd) -> bool {
    let mut look = [PollFd::new(handle, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut look, Some(&at_once)) == Ok(1)
}

/// Name of the program that a process runs.
pub fn command_name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Whether a domain is the one that this process runs in.
pub fn is_here(row: &DomainRow) -> bool {
    let facts = domain_facts();
    let mut boot = [0; 4];
    for (word, bytes) in boot.iter_mut().zip(facts.boot_id.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    row.state == DomainState::Alive && row.boot == boot && row.pid_namespace == facts.pid_namespace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_its_namesakes_do_not() {
        let me = process_facts(None);
        assert!(Life::of(me.pid, me.start).goes_on());
        assert!(Life::of(me.pid, 0).goes_on());
        assert!(!Life::of(me.pid, me.start + 1).goes_on());
        assert!(!Life::of(0, 0).goes_on());
        assert!(!Life::of(u32::MAX, 0).goes_on());
    }

    #[test]
    fn a_zombie_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while Life::of(pid, 0).goes_on() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
