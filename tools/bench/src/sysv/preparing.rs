//! CPU time of those who prepare pages of a pool beside the program that is measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// CPU time by process, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct CpuTimes(BTreeMap<u32, u64>);

impl CpuTimes {
    /// Of every process that has the file of a pool mapped, this one left out. Those of other users
    /// cannot be seen without rights.
    pub fn of_users_of(file: &Path) -> Self {
        let Ok(entries) = fs::read_dir("/proc") else { return Self::default() };
        let own = std::process::id();
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let times =
            pids.filter(|&pid: &u32| pid != own && maps(pid, file)).map(|pid| (pid, spent(pid)));
        Self(times.collect())
    }

    /// What was spent since. One that has begun meanwhile counts in full; one that has ended does
    /// not count.
    pub fn since(&self, before: &Self) -> u64 {
        self.0
            .iter()
            .map(|(pid, now)| now.saturating_sub(before.0.get(pid).copied().unwrap_or(0)))
            .sum()
    }
}

fn maps(pid: u32, file: &Path) -> bool {
    let wanted = file.to_string_lossy();
    fs::read_to_string(format!("/proc/{pid}/maps"))
        .is_ok_and(|text| text.lines().any(|line| line.ends_with(&*wanted)))
}

/// Sum over the threads: the file of a process speaks of its first thread only.
fn spent(pid: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    threads
        .flatten()
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_meanwhile() {
        let before = CpuTimes([(10, 500), (11, 70)].into());
        let after = CpuTimes([(10, 800), (12, 40)].into());
        assert_eq!(after.since(&before), 340);
    }

    #[test]
    fn a_process_that_maps_the_file_is_seen() {
        // A child maps the very program that it runs.
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Once it has answered, the program runs.
        use std::io::{Read, Write};
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let program = fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
        let seen = CpuTimes::of_users_of(&program);
        assert!(seen.0.contains_key(&child.id()) && seen.since(&CpuTimes::default()) > 0);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
