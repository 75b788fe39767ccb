//! Processes of this PID namespace: what distinguishes one from others that have had its pid, and
//! whether it lives.
//!
//! Two processes that ask about a third must get the same answer though each may be in a time
//! namespace of its own, which shifts the start times that /proc shows it, and though /proc may be
//! that of an outer PID namespace, where pids mean others. So a process is named by a pidfd, its
//! entry in /proc is found by way of that, and its start time is given as the initial time
//! namespace has it. Makes no use of the heap: it is called after fork, and in signal handlers.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, open, readlinkat_raw, stat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};

/// What tells this process from others that have had its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot (proc(5), field 22), as in the initial time namespace;
    /// 0 when unknown.
    pub start: u64,
    /// User id.
    pub uid: u32,
}

/// Reads the facts of this process.
#[must_use]
pub fn process_facts() -> ProcessFacts {
    ProcessFacts {
        pid: rustix::process::getpid().as_raw_nonzero().get() as u32,
        start: start_in(format_args!("self")).unwrap_or(0),
        uid: rustix::process::getuid().as_raw(),
    }
}

/// Start time of a process of this PID namespace, as in [`ProcessFacts`].
#[must_use]
pub fn process_start(pid: u32) -> u64 {
    let find = || {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        start_of(pid, pidfd_open(pid, PidfdFlags::empty()).ok().as_ref())
    };
    find().unwrap_or(0)
}

/// Whether two start times may be those of one process. What is unknown says nothing; where a time
/// namespace is shifted by a part of a tick, the two may be one apart.
#[must_use]
pub fn is_same_start(one: u64, other: u64) -> bool {
    one == 0 || other == 0 || one.abs_diff(other) <= 1
}

/// State of a process.
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
    /// Looks at a process of this PID namespace by pid and start time (0: unknown). One that has
    /// ended and that has not been waited for is over.
    #[must_use]
    pub fn of(pid: u32, start: u64) -> Self {
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return Self::Over;
        };
        // The descriptor first: from then on the pid cannot mean another process.
        let handle = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(Errno::SRCH) => return Self::Over,
            Err(_) => None,
        };
        // Unknown where /proc does not show it: then the pid has to do.
        let now = if start == 0 { None } else { start_of(raw, handle.as_ref()) };
        match handle {
            Some(handle) if has_ended(&handle) => Self::Over,
            _ if now.is_some_and(|now| !is_same_start(now, start)) => Self::Over,
            Some(handle) => Self::Watched(handle),
            None if test_kill_process(raw) == Err(Errno::SRCH) => Self::Over,
            None => Self::Unwatched,
        }
    }

    /// Whether it lives.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        !matches!(self, Self::Over)
    }
}

/// Whether there is a process of this pid in this PID namespace.
#[must_use]
pub fn process_exists(pid: u32) -> bool {
    Life::of(pid, 0).goes_on()
}

/// The numbers that /proc shows processes under, as this process sees them.
pub fn process_numbers() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The words behind a name, colon and all, in a `status` of /proc.
#[must_use]
pub fn status_words(status: &[u8], name: &str) -> Option<Vec<String>> {
    let status = String::from_utf8_lossy(status);
    let words = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(words.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Name of the program that a process of this PID namespace runs.
#[must_use]
pub fn command_name(pid: u32) -> Option<String> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let handle = pidfd_open(raw, PidfdFlags::empty()).ok();
    let entry = entry_of(raw, handle.as_ref())?;
    let name = std::fs::read_to_string(format!("/proc/{entry}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Whether the process of a pidfd has ended.
pub(crate) fn has_ended(handle: &OwnedFd) -> bool {
    let mut look = [PollFd::new(handle, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut look, Some(&at_once)) == Ok(1)
}

/// Whether the pids in /proc are those of this PID namespace: it may be mounted for one around it.
#[must_use]
pub fn proc_is_own() -> bool {
    let mut link = [0u8; 16];
    let Ok(length) = readlinkat_raw(CWD, c"/proc/self", &mut link[..]) else { return false };
    let me = rustix::process::getpid().as_raw_nonzero().get();
    number(&link[..length]) == Some(me)
}

fn start_of(pid: Pid, handle: Option<&OwnedFd>) -> Option<u64> {
    start_in(format_args!("{}", entry_of(pid, handle)?))
}

/// The number under which /proc shows a process. /proc may be that of an outer PID namespace.
fn entry_of(pid: Pid, handle: Option<&OwnedFd>) -> Option<i32> {
    let Some(handle) = handle else {
        return proc_is_own().then(|| pid.as_raw_nonzero().get());
    };
    let mut text = [0; 512];
    let text = read(format_args!("thread-self/fdinfo/{}", handle.as_raw_fd()), &mut text)?;
    // 0 or -1 where /proc does not show it.
    number(value(text, b"Pid:")?).filter(|&pid: &i32| pid > 0)
}

/// Start time of the process behind an entry of /proc, as in the initial time namespace.
pub(crate) fn start_in(entry: std::fmt::Arguments<'_>) -> Option<u64> {
    let mut text = [0; 1024];
    let stat = read(format_args!("{entry}/stat"), &mut text)?;
    // The name in field 2 may hold anything, parentheses included; fields are counted behind it.
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 2;
    let field = stat.get(behind..)?.split(|&byte| byte == b' ').nth(19)?;
    let shown: u64 = number(field)?;
    let nanos = i128::from(shown) * TICK_NANOS - boot_time_shift()?;
    u64::try_from(nanos.div_euclid(TICK_NANOS)).ok()
}

/// Nanoseconds of a clock tick: USER_HZ is 100 on all architectures that we build for.
const TICK_NANOS: i128 = 10_000_000;
/// Inode of the initial time namespace (include/linux/proc_ns.h).
const INITIAL_TIME_NAMESPACE: u64 = 0xEFFF_FFFA;

/// By how many nanoseconds this process sees times since boot shifted: its time namespace.
fn boot_time_shift() -> Option<i128> {
    let namespace = match stat(c"/proc/self/ns/time") {
        Ok(namespace) => namespace.st_ino,
        // A kernel without time namespaces.
        Err(Errno::NOENT) => return Some(0),
        Err(_) => return None,
    };
    if namespace == INITIAL_TIME_NAMESPACE {
        return Some(0);
    }
    // What can be read are the offsets for children, which need not be ours.
    if stat(c"/proc/self/ns/time_for_children").ok()?.st_ino != namespace {
        return None;
    }
    let mut text = [0; 256];
    let offsets = read(format_args!("self/timens_offsets"), &mut text)?;
    let mut parts =
        value(offsets, b"boottime")?.split(|&byte| byte == b' ').filter(|p| !p.is_empty());
    let seconds: i64 = number(parts.next()?)?;
    let nanos: i64 = number(parts.next()?)?;
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
}

/// What stands behind a word at the beginning of a line.
fn value<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(word))?;
    Some(line[word.len()..].trim_ascii())
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads the beginning of a file of /proc. By system calls alone: a program may have put its own
/// `stat` in front of libc's that makes System V calls itself (fakeroot).
fn read<'a>(entry: std::fmt::Arguments<'_>, text: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0u8; 48];
    write!(&mut path[..47], "/proc/{entry}").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut *text).ok()?;
    Some(&text[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_finds_it_by_its_pid() {
        let me = process_facts();
        assert_eq!(me.pid, std::process::id());
        assert!(me.start > 0);
        let pid = Pid::from_raw(me.pid as i32).unwrap();
        let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        assert_eq!(start_of(pid, Some(&handle)), Some(me.start));
        assert_eq!(start_of(pid, None), Some(me.start));
    }

    #[test]
    fn this_process_lives_and_its_namesakes_do_not() {
        let me = process_facts();
        assert!(Life::of(me.pid, me.start).goes_on());
        assert!(Life::of(me.pid, 0).goes_on());
        assert!(!Life::of(me.pid, me.start + 100).goes_on());
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
