//! Processes of this machine that have a pool's file mapped and are no clients of it: virtual
//! machine monitors, whose guests have the pool as a device.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use rustix::fs::{major, minor};
use vshmem_link::Region;

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
    let mapped = MappedAs::of(file);
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Holder> = pids
        .filter(|pid| !known.contains(pid) && *pid != std::process::id())
        .filter(|pid| mapped.is_in(&Path::new("/proc").join(pid.to_string()).join("maps")))
        .map(|pid| Holder { pid, command: command(pid) })
        // Its server and other commands end with the pool.
        .filter(|holder| holder.command != "vshmem")
        .collect();
    found.sort_by_key(|holder| holder.pid);
    found
}

/// How a mapping of the file is shown in /proc/PID/maps: device and inode.
struct MappedAs {
    device: String,
    inode: String,
}

impl MappedAs {
    fn of(file: &Region) -> Self {
        let device = format!("{:02x}:{:02x}", major(file.device), minor(file.device));
        Self { device, inode: file.inode.to_string() }
    }

    fn is_in(&self, maps: &Path) -> bool {
        let Ok(file) = File::open(maps) else { return false };
        self.is_among(BufReader::new(file))
    }

    /// Whether it is in one of the lines. The paths in them may be of any bytes.
    fn is_among(&self, maps: impl BufRead) -> bool {
        let mut lines = maps.split(b'\n').map_while(Result::ok);
        lines.any(|line| self.is_line(&String::from_utf8_lossy(&line)))
    }

    /// `ADDRESSES MODE OFFSET DEVICE INODE PATH`
    fn is_line(&self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace().skip(3);
        words.next() == Some(&self.device) && words.next() == Some(&self.inode)
    }
}

fn command(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    crate::show::clean(name.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_known_by_device_and_inode() {
        let mapped = MappedAs { device: "00:18".into(), inode: "77".into() };
        for (line, is) in [
            ("7f00-7f01 rw-s 00000000 00:18 77   /dev/shm/vshmem.job7", true),
            ("7f00-7f01 rw-s 00000000 00:18 77   /dev/shm/vshmem.job7 (deleted)", true),
            ("7f00-7f01 rw-s 00000000 00:19 77   /tmp/x", false),
            ("7f00-7f01 rw-s 00000000 00:18 78", false),
            ("7f00-7f01 rw-p 00000000 00:00 0 ", false),
        ] {
            assert_eq!(mapped.is_line(line), is, "{line}");
        }
    }

    #[test]
    fn a_path_that_is_no_text_hides_no_mapping_behind_it() {
        let mapped = MappedAs { device: "00:18".into(), inode: "77".into() };
        let maps =
            b"7f00-7f01 r--p 0 00:19 5   /tmp/\xff\n7f02-7f03 rw-s 0 00:18 77   /dev/shm/x\n";
        assert!(mapped.is_among(&maps[..]));
    }
}
