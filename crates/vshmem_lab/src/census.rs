//! Which processes belong to a lab: those of its guests' users, which are given to nobody else, and those that
//! still carry its mark in their environment because they have not become the guest's user yet.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The environment variable that marks the host processes of a guest; its value is the guest's directory.
pub(crate) const MARK: &str = "VSHMEM_LAB_GUEST";

/// Living (not zombie) processes whose real user is in `uids`, or that are marked as started for a path under `dir`.
pub(crate) fn living(uids: &Range<u32>, dir: &Path) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| belongs(pid, uids, dir).unwrap_or(false))
        .collect()
}

fn belongs(pid: i32, uids: &Range<u32>, dir: &Path) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if field("State:")?.trim_start().starts_with(['Z', 'X']) {
        return Some(false);
    }
    let uid: u32 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
    if uids.contains(&uid) {
        return Some(true);
    }
    if uid != 0 {
        return Some(false);
    }
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    Some(environment.split(|&byte| byte == 0).any(|variable| {
        variable
            .strip_prefix(MARK.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|value| Path::new(&*String::from_utf8_lossy(value)).starts_with(dir))
    }))
}

/// Kills them all, over and over until none is left. On a timeout, those that are.
pub(crate) fn exterminate(uids: &Range<u32>, dir: &Path, within: Duration) -> Result<(), Vec<i32>> {
    let end = Instant::now() + within;
    loop {
        let left = living(uids, dir);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(left);
        }
        signal(&left, Signal::KILL);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to each.
pub(crate) fn signal(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid)) {
        // Gone already: as well.
        let _ = kill_process(pid, signal);
    }
}

/// When a process started, in clock ticks since boot: with its pid, its name for good.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}
