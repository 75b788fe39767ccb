//! Facts about this domain and this process that a pool's tables hold.

/// What tells this domain from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainFacts {
    /// Boot id of the kernel.
    pub boot_id: [u8; 16],
    /// Inode of the PID namespace.
    pub pid_namespace: u32,
    /// Name for people.
    pub name: String,
    /// Whether the name was given by whoever runs the domain.
    pub named: bool,
}

/// Written by whoever runs the domain: its name.
const NAME_FILE: &str = "/run/vshmem/domain";
/// Inode of the initial PID namespace (include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: u32 = 0xEFFF_FFFC;

/// Reads the facts.
#[must_use]
pub fn domain_facts() -> DomainFacts {
    let text = read_line("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> =
        text.bytes().filter_map(|c| (c as char).to_digit(16)).map(|d| d as u8).collect();
    let mut boot_id = [0; 16];
    for (byte, pair) in boot_id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    let pid_namespace = rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino as u32);
    let given = read_line(NAME_FILE).map(|name| name.trim().to_owned());
    let (name, named) = match given.filter(|name| !name.is_empty()) {
        Some(name) => (name, true),
        None => {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            if pid_namespace == INITIAL_PID_NAMESPACE || pid_namespace == 0 {
                (host, false)
            } else {
                (format!("{host}:{pid_namespace}"), false)
            }
        }
    };
    DomainFacts { boot_id, pid_namespace, name: cut(&name), named }
}

/// Reads a short file by system calls alone: a program may have put its own `stat` in front of libc's
/// that makes System V calls itself (fakeroot), and we are on the way to answering the first.
fn read_line(path: &str) -> Option<String> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = [0u8; 256];
    let length = rustix::io::read(&file, &mut bytes).ok()?;
    String::from_utf8(bytes[..length].to_vec()).ok()
}

fn cut(name: &str) -> String {
    let mut end = name.len().min(31);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

/// What tells this process from others that have had its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot (proc(5), field 22), 0 when unknown.
    pub start: u64,
    /// User id.
    pub uid: u32,
}

/// Reads the facts of a process; `None`: this one. Makes no use of the heap, so that it can be
/// called after fork.
#[must_use]
pub fn process_facts(pid: Option<u32>) -> ProcessFacts {
    let me = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let pid_or_me = pid.unwrap_or(me);
    ProcessFacts {
        pid: pid_or_me,
        start: start_of(pid).unwrap_or(0),
        uid: rustix::process::getuid().as_raw(),
    }
}

/// Whether there is a process of this pid in this PID namespace. One that has ended and that nobody
/// has waited for is none. Makes no use of the heap.
#[must_use]
pub fn process_exists(pid: u32) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open, test_kill_process};
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&at_once)) != Ok(1)
        }
        Err(rustix::io::Errno::SRCH) => false,
        // No descriptor to be had.
        Err(_) => !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)),
    }
}

fn start_of(pid: Option<u32>) -> Option<u64> {
    use rustix::fs::{Mode, OFlags};
    let mut path = stat_path(pid)?;
    let path = std::ffi::CStr::from_bytes_until_nul(path.as_mut()).ok()?;
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = [0u8; 1024];
    let length = rustix::io::read(&file, &mut bytes).ok()?;
    let stat = &bytes[..length];
    // The name in field 2 may hold anything, parentheses included; fields are counted behind it.
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 2;
    let field = stat.get(behind..)?.split(|&byte| byte == b' ').nth(19)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// `/proc/PID/stat`, without the heap.
fn stat_path(pid: Option<u32>) -> Option<[u8; 32]> {
    use std::io::Write;
    let mut path = [0u8; 32];
    let mut rest = &mut path[..31];
    match pid {
        Some(pid) => write!(rest, "/proc/{pid}/stat").ok()?,
        None => write!(rest, "/proc/self/stat").ok()?,
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time() {
        let facts = process_facts(None);
        assert_eq!(facts.pid, std::process::id());
        assert!(facts.start > 0);
        assert_eq!(process_facts(Some(facts.pid)).start, facts.start);
    }

    #[test]
    fn the_domain_has_a_boot_id_and_a_name() {
        let facts = domain_facts();
        assert_ne!(facts.boot_id, [0; 16]);
        assert!(!facts.name.is_empty());
    }
}
