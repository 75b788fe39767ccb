//! Containers of this machine that were given a pool's file, whether or not a program in them uses
//! it at this moment.
//!
//! They are found by the text of /proc/PID/mountinfo alone. No path of a container is opened: its
//! mounts are its user's, and a file system in user space can block a path lookup without end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use vshmem_link::{Region, process_numbers};

use super::processes::command;

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

/// Those whose mounts may be read: root reads all, others those of their own containers. `path` is
/// where the file lies here.
pub fn with_file(file: &Region, path: &Path) -> Vec<Container> {
    let Some(sought) = MountedFile::find(file, path) else { return Vec::new() };
    let own = mounts_of("self");
    // One process of each mount namespace: the first one.
    let mut namespaces: BTreeMap<PathBuf, u32> = BTreeMap::new();
    for pid in process_numbers() {
        let Some(namespace) = mounts_of(&pid.to_string()) else { continue };
        let first = namespaces.entry(namespace).or_insert(pid);
        *first = pid.min(*first);
    }
    let others = namespaces.into_iter().filter(|(namespace, _)| own.as_ref() != Some(namespace));
    let mut found: Vec<u32> = others
        .map(|(_, pid)| pid)
        .filter(|pid| sought.is_in(&mount_table(&pid.to_string())))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|pid| Container { pid, command: command(pid) }).collect()
}

fn mounts_of(pid: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

fn mount_table(pid: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default()
}

/// A line `ID PARENT DEVICE ROOT PLACE ...` of /proc/PID/mountinfo.
#[derive(Debug)]
struct Mount<'a> {
    device: Cow<'a, str>,
    /// What of its file system is mounted: its root, or a directory or file of it.
    root: PathBuf,
    /// Where.
    path: PathBuf,
}

impl Mount<'_> {
    fn all(table: &[u8]) -> impl Iterator<Item = Mount<'_>> {
        table.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut words = line.split(|byte| *byte == b' ').skip(2);
            let device = String::from_utf8_lossy(words.next()?);
            Some(Mount { device, root: path(words.next()?), path: path(words.next()?) })
        })
    }
}

/// A path as it is written there: spaces, tabs, line ends and backslashes are octal numbers.
fn path(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, behind @ ..] = rest {
        let octal = (*first == b'\\').then(|| behind.get(..3)).flatten();
        let number = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// A file by its file system and its path there, by which its mounts are known everywhere.
#[derive(Debug, PartialEq, Eq)]
struct MountedFile {
    device: String,
    path: PathBuf,
}

impl MountedFile {
    fn find(file: &Region, path: &Path) -> Option<Self> {
        let device = format!("{}:{}", major(file.device), minor(file.device));
        let path = path.canonicalize().ok()?;
        Self::by(device, &path, &mount_table("self"))
    }

    /// By the mount that the file is reached through here, the innermost of that file system.
    fn by(device: String, here: &Path, table: &[u8]) -> Option<Self> {
        let of_device = Mount::all(table).filter(|mount| mount.device == device);
        let through = of_device
            .filter(|mount| here.starts_with(&mount.path))
            .max_by_key(|mount| mount.path.components().count())?;
        let below = here.strip_prefix(&through.path).ok()?;
        let path =
            if below.as_os_str().is_empty() { through.root } else { through.root.join(below) };
        Some(Self { device, path })
    }

    /// Whether the file itself is mounted there.
    fn is_in(&self, table: &[u8]) -> bool {
        Mount::all(table).any(|mount| mount.device == self.device && mount.root == self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[u8] = b"24 20 0:24 / /dev/shm rw - tmpfs tmpfs rw\n\
        30 20 8:1 / / rw - ext4 /dev/vda rw\n\
        31 20 0:24 /jobs\\040here /srv/jobs rw - tmpfs tmpfs rw\n";

    fn job(path: &str) -> MountedFile {
        MountedFile::by("0:24".into(), Path::new(path), OWN).unwrap()
    }

    #[test]
    fn mounts_of_single_files_are_found() {
        let pool = job("/dev/shm/vshmem.job7");
        for (line, is) in [
            ("612 590 0:24 /vshmem.job7 /dev/shm/vshmem.job7 rw,nosuid - tmpfs tmpfs rw", true),
            ("612 590 0:24 /vshmem.job7 /anywhere/else rw,nosuid - tmpfs tmpfs rw", true),
            ("612 590 0:24 /vshmem.job8 /dev/shm/vshmem.job7 rw,nosuid - tmpfs tmpfs rw", false),
            ("612 590 0:24 /vshmem.job7//deleted /dev/shm/vshmem.job7 rw - tmpfs tmpfs rw", false),
            ("612 590 0:25 /vshmem.job7 /dev/shm/vshmem.job7 rw - tmpfs tmpfs rw", false),
            ("24 20 0:24 / /dev/shm rw - tmpfs tmpfs rw", false),
            ("", false),
        ] {
            assert_eq!(pool.is_in(line.as_bytes()), is, "{line}");
        }
    }

    #[test]
    fn a_file_is_known_by_its_path_in_its_file_system() {
        let path = |path| job(path).path;
        assert_eq!(path("/dev/shm/vshmem.job7"), Path::new("/vshmem.job7"));
        assert_eq!(path("/srv/jobs/vshmem.job7"), Path::new("/jobs here/vshmem.job7"));
        assert_eq!(MountedFile::by("0:25".into(), Path::new("/dev/shm/vshmem.job7"), OWN), None);
    }

    #[test]
    fn a_backslash_that_is_no_number_is_itself() {
        assert_eq!(path(b"/a\\134b\\9\\04"), Path::new("/a\\b\\9\\04"));
    }
}
