//! Which processes belong to a lab: those of its guests' users, which are given to no others, and
//! those that still carry its mark in their environment because they have not become the guest's
//! user yet.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::Result;

/// The environment variable that marks the host processes of a guest; its value is the guest's
/// directory.
pub(crate) const MARK: &str = "VSHMEM_LAB_GUEST";

/// The living (not zombie) processes of a guest or a lab.
#[derive(Debug, Default)]
pub(crate) struct GuestProcesses {
    /// Those that are the guests': their real user is one of the guests'.
    pub(crate) inmates: Vec<i32>,
    /// Those that started them, and those that have not become the guest's user yet.
    pub(crate) starters: Vec<i32>,
    /// Those of the inmates that no other traces: a User Mode Linux kernel traces its guest's
    /// programs.
    pub(crate) untraced: Vec<i32>,
}

impl GuestProcesses {
    /// Counts processes whose real user is in `uids`, or that are marked as started for a path
    /// under `dir`.
    pub(crate) fn take(uids: &Range<u32>, dir: &Path) -> Self {
        let mut guest_processes = GuestProcesses::default();
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return guest_processes;
        };
        for pid in
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        {
            match role(pid, uids, dir) {
                Some(Role::Inmate { traced }) => {
                    guest_processes.inmates.push(pid);
                    guest_processes.untraced.extend((!traced).then_some(pid));
                }
                Some(Role::Starter) => guest_processes.starters.push(pid),
                None => {}
            }
        }
        guest_processes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inmates.is_empty() && self.starters.is_empty()
    }

    /// Everyone who is to be signalled: a starter ends by itself when its guest has, and takes the
    /// remains with it, so it is left alone while there are inmates.
    pub(crate) fn targets(&self) -> &[i32] {
        if self.inmates.is_empty() { &self.starters } else { &self.inmates }
    }
}

enum Role {
    Inmate { traced: bool },
    Starter,
}

fn role(pid: i32, uids: &Range<u32>, dir: &Path) -> Option<Role> {
    let process = Process::new(pid).ok()?;
    let status = process.status().ok()?;
    if status.state.starts_with(['Z', 'X']) {
        return None;
    }
    if uids.contains(&status.ruid) {
        return Some(Role::Inmate { traced: status.tracerpid != 0 });
    }
    if status.ruid != 0 {
        return None;
    }
    let environment = process.environ().ok()?;
    let marked =
        environment.get(OsStr::new(MARK)).is_some_and(|mark| Path::new(mark).starts_with(dir));
    marked.then_some(Role::Starter)
}

/// Starters get this long to end by themselves.
const COURTESY: Duration = Duration::from_millis(500);

/// Kills them all, over and over until none is left. On a timeout, those that are.
pub(crate) fn exterminate(uids: &Range<u32>, dir: &Path, within: Duration) -> Result<(), Vec<i32>> {
    let end = Instant::now() + within;
    let mut alone_since = None;
    loop {
        let left = GuestProcesses::take(uids, dir);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err([left.inmates, left.starters].concat());
        }
        if !left.inmates.is_empty() {
            alone_since = None;
            signal(&left.inmates, Signal::KILL);
        } else if alone_since.get_or_insert_with(Instant::now).elapsed() > COURTESY {
            signal(&left.starters, Signal::KILL);
        }
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
    Some(Process::new(pid).ok()?.stat().ok()?.starttime)
}

/// Whether a process is stopped, by a signal or by a debugger.
pub(crate) fn is_stopped(pid: i32) -> bool {
    let stat = Process::new(pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// Whether a process that started then is still there, and no zombie.
pub(crate) fn is_living(pid: i32, start: u64) -> bool {
    let stat = Process::new(pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.starttime == start && stat.state != 'Z')
}
