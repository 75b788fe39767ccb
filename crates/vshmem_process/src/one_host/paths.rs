//! Files in /proc that programs look into to find out whether a peer is on their host, and alive.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_char, c_int};
use rustix::fs::{MemfdFlags, SeekFrom};
use vshmem_ipc::{Errno, Process, WidePid};

use crate::errno;
use crate::one_host::identity::Namespace;
use crate::one_host::{identity, is_on, pids};

/// Text without the heap; what is too long is cut off.
struct Text {
    bytes: [u8; Text::MOST],
    used: usize,
}

impl Text {
    const MOST: usize = 512;

    fn of(words: fmt::Arguments<'_>) -> Self {
        let mut text = Self { bytes: [0; Self::MOST], used: 0 };
        let _ = text.write_fmt(words);
        text
    }

    fn used(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

impl Write for Text {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        // The last byte stays 0: a text may be a path.
        let room = &mut self.bytes[self.used..Self::MOST - 1];
        let copied = words.len().min(room.len());
        room[..copied].copy_from_slice(&words.as_bytes()[..copied]);
        self.used += copied;
        Ok(())
    }
}

/// What stands at a path in place of what the kernel has there.
enum StandIn {
    /// What the kernel has at another.
    Path(Text),
    /// A file that says this.
    Says(Text),
}

/// Makes a call on a path, or on what stands in for it; `failed` is what the call answers when it
/// is refused.
#[inline]
pub fn with<T>(path: *const c_char, failed: T, call: impl FnOnce(*const c_char) -> T) -> T {
    if is_on() { with_stand_in(path, failed, call) } else { call(path) }
}

fn with_stand_in<T>(path: *const c_char, failed: T, call: impl FnOnce(*const c_char) -> T) -> T {
    if path.is_null() {
        return call(path);
    }
    // SAFETY: the program passes a C string, and keeps it for the time of its call.
    let asked = unsafe { CStr::from_ptr(path) }.to_bytes();
    match errno::untouched(|| stand_in(asked)) {
        Ok(None) => call(path),
        Ok(Some(StandIn::Path(other))) => call(other.bytes.as_ptr().cast()),
        Ok(Some(StandIn::Says(text))) => match errno::untouched(|| file_of(&text)) {
            Ok(file) => {
                let path = Text::of(format_args!("/proc/self/fd/{}", file.as_raw_fd()));
                call(path.bytes.as_ptr().cast())
            }
            Err(error) => refuse(error, failed),
        },
        Err(error) => refuse(error, failed),
    }
}

fn refuse<T>(error: Errno, failed: T) -> T {
    errno::set(error);
    failed
}

fn file_of(text: &Text) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create(c"vshmem-one-host", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&file, text.used())?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    Ok(file)
}

/// Digits at the beginning, as a number, and what is behind them.
fn number<N: std::str::FromStr>(text: &[u8]) -> Option<(N, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((std::str::from_utf8(&text[..end]).ok()?.parse().ok()?, &text[end..]))
}

fn stand_in(path: &[u8]) -> Result<Option<StandIn>, Errno> {
    let printed = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap_or_default();
        Ok(Some(StandIn::Says(Text::of(format_args!("{text}\n")))))
    };
    match path {
        b"/proc/sys/kernel/random/boot_id" => return printed(&identity::boot_id()),
        b"/etc/machine-id" | b"/var/lib/dbus/machine-id" => {
            return printed(&identity::machine_id());
        }
        _ => {}
    }
    let Some((named, behind)) = path.strip_prefix(b"/proc/").and_then(number) else {
        return Ok(None);
    };
    let Some(named) = WidePid::of(named) else { return Ok(None) };
    match pids::elsewhere(named) {
        None => {
            let behind = std::str::from_utf8(behind).map_err(|_| Errno::NOENT)?;
            Ok(Some(StandIn::Path(Text::of(format_args!("/proc/{}{behind}", named.pid)))))
        }
        Some(None) => Err(Errno::NOENT),
        Some(Some(process)) => elsewhere(named, process, behind).map(Some),
    }
}

/// What /proc shows of a process of another domain.
///
/// # Errors
/// EACCES for what is not known of it.
fn elsewhere(named: WidePid, process: Process, behind: &[u8]) -> Result<StandIn, Errno> {
    let (number, uid, start) = (named.number(), process.uid, process.start);
    match behind {
        // A directory.
        b"" | b"/" => Ok(StandIn::Path(Text::of(format_args!("/proc/self")))),
        // proc(5): field 22 is the start time. Nothing is known of the others.
        b"/stat" => {
            let mut text = Text::of(format_args!("{number} (elsewhere) S 0"));
            for field in 5..=52 {
                let value = if field == 22 { start } else { 0 };
                let _ = write!(text, " {value}");
            }
            let _ = text.write_str("\n");
            Ok(StandIn::Says(text))
        }
        b"/status" => Ok(StandIn::Says(Text::of(format_args!(
            "Name:\telsewhere\nState:\tS (sleeping)\nTgid:\t{number}\nPid:\t{number}\nPPid:\t0\n\
             Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        )))),
        _ => Err(Errno::ACCESS),
    }
}

/// The namespace that a path leads to.
fn namespace(path: *const c_char) -> Option<Namespace> {
    if path.is_null() {
        return None;
    }
    // SAFETY: a call has succeeded with it, so it leads to a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let path = path.strip_prefix(b"/proc/")?;
    [(b"/ns/ipc", Namespace::Ipc), (b"/ns/pid", Namespace::Pid), (b"/ns/net", Namespace::Network)]
        .into_iter()
        .find_map(|(end, namespace)| path.ends_with(end).then_some(namespace))
}

/// What stat(2) and its like have answered, and where they have put the inode: that becomes what it
/// is to be.
///
/// # Safety
/// Where the call has succeeded, `inode` is valid.
#[inline]
pub unsafe fn number_file(path: *const c_char, result: c_int, inode: *mut u64) -> c_int {
    if result == 0
        && is_on()
        && let Some(namespace) = namespace(path)
    {
        // SAFETY: by this function's own contract.
        unsafe { *inode = namespace.inode(*inode).into() };
    }
    result
}

/// What readlink(2) gives for a path that the kernel has read, if it is something else than the
/// kernel's, of which `into` has the first `bytes`: bytes of `into` that it has then.
pub fn link(path: *const c_char, into: &mut [u8], bytes: usize) -> Option<usize> {
    let namespace = if is_on() { namespace(path)? } else { return None };
    let kind = into.get(..4)?;
    let (inode, _) = number(into.get(5..bytes)?)?;
    let text = match std::str::from_utf8(kind) {
        Ok(kind) => Text::of(format_args!("{kind}[{}]", namespace.inode(inode))),
        Err(_) => return None,
    };
    let length = text.used.min(into.len());
    into[..length].copy_from_slice(&text.used()[..length]);
    Some(length)
}
