//! Processes that a plan started.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use vshmem_link::{is_same_start, process_start};

use crate::failure::{Failure, failed};

/// How long a machine monitor may take to close its files.
const CLOSING: Duration = Duration::from_secs(20);

/// Ends a process that started then, and waits until it has ended. One that is gone is as well.
pub fn end(pid: u32, start: u64) -> Result<(), Failure> {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let handle = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return failed(format!("process {pid}: cannot look at it: {error}")),
    };
    // Of two processes with that pid, this is the one behind the handle.
    let found = process_start(pid);
    if start == 0 || found == 0 || !is_same_start(found, start) {
        return Ok(());
    }
    for signal in [Signal::TERM, Signal::KILL] {
        match pidfd_send_signal(&handle, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return failed(format!("process {pid}: cannot end it: {error}")),
        }
        if has_ended_within(&handle, CLOSING) {
            return Ok(());
        }
    }
    failed(format!("process {pid}: it does not end. `ps -o stat,wchan -p {pid}` shows its state"))
}

fn has_ended_within(handle: &OwnedFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            answer => return answer == Ok(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_the_process_that_is_meant_is_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let (pid, start) = (child.id(), process_start(child.id()));
        // One that had this pid earlier.
        end(pid, start - 50).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        end(pid, start).unwrap();
        assert!(child.wait().unwrap().code().is_none());
        end(pid, start).unwrap();
    }
}
