//! Containers of this machine that were given a pool's file, whether or not a program in them uses
//! it at this moment.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{major, minor};
use vshmem_link::Region;

use super::processes::{command, pids};

/// A container that has the pool's file mounted.
#[derive(Debug, PartialEq, Eq)]
pub struct Container {
    /// One of its processes, by its pid here.
    pid: u32,
    /// That one's program.
    command: String,
}

impl std::fmt::Display for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "that of process {} ({})", self.pid, self.command)
    }
}

/// Those whose mounts may be read: root reads all, others those of their own containers.
pub fn with_file(file: &Region) -> Vec<Container> {
    let mounted = MountedAs::of(file);
    let own = mounts_of("self");
    // One process of each mount namespace: the first one.
    let mut namespaces: BTreeMap<PathBuf, u32> = BTreeMap::new();
    for pid in pids() {
        let Some(namespace) = mounts_of(&pid.to_string()) else { continue };
        let first = namespaces.entry(namespace).or_insert(pid);
        *first = pid.min(*first);
    }
    let others = namespaces.into_iter().filter(|(namespace, _)| own.as_ref() != Some(namespace));
    let mut found: Vec<u32> =
        others.map(|(_, pid)| pid).filter(|pid| mounted.is_in_namespace_of(*pid)).collect();
    found.sort_unstable();
    found.into_iter().map(|pid| Container { pid, command: command(pid) }).collect()
}

fn mounts_of(pid: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

/// How a mount of the file itself is known in /proc/PID/mountinfo.
struct MountedAs {
    device: String,
    inode: u64,
}

impl MountedAs {
    fn of(file: &Region) -> Self {
        let device = format!("{}:{}", major(file.device), minor(file.device));
        Self { device, inode: file.inode }
    }

    fn is_in_namespace_of(&self, pid: u32) -> bool {
        // Paths of other mounts may be any bytes.
        let mounts = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mounts = String::from_utf8_lossy(&mounts);
        let place_here = |place: &str| format!("/proc/{pid}/root{place}");
        mounts.lines().filter_map(|line| self.place(line)).any(|place| {
            std::fs::metadata(place_here(place)).is_ok_and(|meta| meta.ino() == self.inode)
        })
    }

    /// Where a part of the file's file system, and not all of it, is mounted, by a line
    /// `ID PARENT DEVICE ROOT PLACE ...`.
    fn place<'a>(&self, line: &'a str) -> Option<&'a str> {
        let mut words = line.split(' ').skip(2);
        let (device, root, place) = (words.next()?, words.next()?, words.next()?);
        (device == self.device && root != "/").then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_single_files_are_found() {
        let mounted = MountedAs { device: "0:24".into(), inode: 7 };
        for (line, place) in [
            ("612 590 0:24 /vshmem.job7 /dev/shm/vshmem.job7 rw,nosuid - tmpfs tmpfs rw", true),
            ("612 590 0:25 /vshmem.job7 /dev/shm/vshmem.job7 rw - tmpfs tmpfs rw", false),
            ("24 20 0:24 / /dev/shm rw - tmpfs tmpfs rw", false),
            ("", false),
        ] {
            assert_eq!(mounted.place(line), place.then_some("/dev/shm/vshmem.job7"), "{line}");
        }
    }
}
