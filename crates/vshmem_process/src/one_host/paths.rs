//! Files in /proc that programs look into to find out whether a peer is on their host, and alive.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use arrayvec::ArrayString;
use libc::{c_char, c_int, c_long};
use rustix::fs::MemfdFlags;
use vshmem_ipc::{Errno, Process, WidePid};

use crate::errno;
use crate::next::system_call;
use crate::one_host::identity::Namespace;
use crate::one_host::{identity, is_on, pids};

/// Text without the heap.
type Text = ArrayString<512>;

/// # Errors
/// ENAMETOOLONG.
fn text(words: fmt::Arguments<'_>) -> Result<Text, Errno> {
    let mut text = Text::new();
    text.write_fmt(words).map(|()| text).map_err(|_| Errno::NAMETOOLONG)
}

/// What stands at a path in place of what the kernel has there.
enum StandIn {
    /// What the kernel has at another.
    Path(Text),
    /// A file that says this.
    Says(Text),
}

/// What stands in for what the kernel has at a path: its call has read it, and has `failed` or not.
/// Mostly nothing.
#[inline]
fn instead(path: *const c_char, failed: bool) -> Option<Result<StandIn, Errno>> {
    if !is_on() || path.is_null() || failed && errno::get() != libc::ENOENT {
        return None;
    }
    // SAFETY: the kernel has read the path, so it leads to a C string; the program keeps it for the
    // time of its call.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    errno::untouched(|| stand_in(path)).transpose()
}

/// Makes a call by a path that leads to what stands in; -1 and errno.
fn answer(stands: Result<StandIn, Errno>, call: impl FnOnce(*const c_char) -> c_long) -> c_long {
    let mut file = None;
    let path = stands.and_then(|stands| match stands {
        StandIn::Path(path) => Ok(path),
        StandIn::Says(words) => {
            let file = file.insert(errno::untouched(|| file_of(&words))?);
            text(format_args!("/proc/self/fd/{}", file.as_raw_fd()))
        }
    });
    let ended = path
        .and_then(|mut path| path.try_push('\0').map(|()| path).map_err(|_| Errno::NAMETOOLONG));
    match ended {
        Ok(path) => call(path.as_ptr().cast()),
        Err(error) => errno::answer(Err::<i64, _>(error)),
    }
}

fn file_of(words: &Text) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create(c"vshmem-one-host", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&file, words.as_bytes())?;
    Ok(file)
}

const HERE: usize = libc::AT_FDCWD as usize;

/// What open(2) answers where the kernel has answered `file`.
#[inline]
pub fn opened(path: *const c_char, flags: c_int, file: c_int) -> c_int {
    instead(path, file < 0).map_or(file, |stands| open_instead(stands, flags, file))
}

#[cold]
fn open_instead(stands: Result<StandIn, Errno>, flags: c_int, file: c_int) -> c_int {
    if file >= 0 {
        // SAFETY: the descriptor was just opened, and no other code knows it.
        errno::untouched(|| unsafe { system_call(libc::SYS_close, [file as usize]) });
    }
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW);
    answer(stands, |path| {
        // SAFETY: the path is a C string.
        unsafe { system_call(libc::SYS_openat, [HERE, path.addr(), flags as usize, 0]) }
    }) as c_int
}

/// The descriptor of which fopen(3) makes a stream, where the kernel has `failed` or not; -1 and
/// errno. Mostly `None`: the stream is what it is.
#[inline]
pub fn opened_for_stream(path: *const c_char, failed: bool) -> Option<c_int> {
    instead(path, failed).map(|stands| open_instead(stands, libc::O_RDONLY, -1))
}

/// What access(2) and its kin answer where the kernel has answered `result`.
#[inline]
pub fn accessed(path: *const c_char, mode: c_int, result: c_int) -> c_int {
    match instead(path, result != 0) {
        None => result,
        Some(stands) => answer(stands, |path| {
            // SAFETY: the path is a C string.
            unsafe { system_call(libc::SYS_faccessat, [HERE, path.addr(), mode as usize]) }
        }) as c_int,
    }
}

/// What stat(2) and its kin answer where the kernel has answered `result`.
#[inline]
#[allow(clippy::not_unsafe_ptr_arg_deref)] // the kernel has just written there
pub fn stated(path: *const c_char, into: *mut libc::stat, result: c_int) -> c_int {
    let result = instead(path, result != 0).map_or(result, |stands| {
        answer(stands, |path| {
            let words = [HERE, path.addr(), into.addr(), 0];
            // SAFETY: the path is a C string, and the kernel looks whether there is room.
            unsafe { system_call(libc::SYS_newfstatat, words) }
        }) as c_int
    });
    // SAFETY: where the kernel has answered 0 it has filled it in.
    unsafe { numbered(path, result, || &raw mut (*into).st_ino) }
}

/// What statx(2) answers where the kernel has answered `result`.
#[inline]
#[allow(clippy::not_unsafe_ptr_arg_deref)] // as in `stated`
pub fn stated_more(path: *const c_char, into: *mut libc::statx, result: c_int) -> c_int {
    let result = instead(path, result != 0).map_or(result, |stands| {
        answer(stands, |path| {
            let words = [HERE, path.addr(), 0, libc::STATX_BASIC_STATS as usize, into.addr()];
            // SAFETY: the path is a C string, and the kernel looks whether there is room.
            unsafe { system_call(libc::SYS_statx, words) }
        }) as c_int
    });
    // SAFETY: where the kernel has answered 0 it has filled it in.
    unsafe { numbered(path, result, || &raw mut (*into).stx_ino) }
}

/// Digits at the beginning, as a number, and what is behind them.
fn number<N: std::str::FromStr>(text: &[u8]) -> Option<(N, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((std::str::from_utf8(&text[..end]).ok()?.parse().ok()?, &text[end..]))
}

fn stand_in(path: &[u8]) -> Result<Option<StandIn>, Errno> {
    let printed = |line: &[u8]| {
        let line = std::str::from_utf8(line).unwrap_or_default();
        Ok(Some(StandIn::Says(text(format_args!("{line}\n"))?)))
    };
    match path {
        b"/proc/sys/kernel/random/boot_id" => return printed(&identity::boot_id()),
        b"/etc/machine-id" | b"/var/lib/dbus/machine-id" => {
            return printed(&identity::machine_id());
        }
        _ => {}
    }
    let Some(rest) = path.strip_prefix(b"/proc/") else { return Ok(None) };
    match number(rest).and_then(|(named, behind)| Some((WidePid::of(named)?, behind))) {
        None => thread(path),
        Some((named, behind)) => match pids::elsewhere(named) {
            // Its path may name a thread as well.
            None => {
                let own = joined(b"/proc/", named, behind)?;
                Ok(Some(thread(own.as_bytes())?.unwrap_or(StandIn::Path(own))))
            }
            Some(None) => Err(Errno::NOENT),
            Some(Some(process)) => elsewhere(named, process, behind).map(Some),
        },
    }
}

/// A path with the kernel's number of a process or thread of this domain.
fn joined(before: &[u8], named: WidePid, behind: &[u8]) -> Result<Text, Errno> {
    match [before, behind].map(std::str::from_utf8) {
        [Ok(before), Ok(behind)] => text(format_args!("{before}{}{behind}", named.pid)),
        // There are no such names in /proc.
        _ => Err(Errno::NOENT),
    }
}

/// Of a path in /proc that names a thread by a number of this library's: with the kernel's.
fn thread(path: &[u8]) -> Result<Option<StandIn>, Errno> {
    const BEFORE: &[u8] = b"/task/";
    let at = path.windows(BEFORE.len()).position(|part| part == BEFORE);
    let named = at.map(|at| path.split_at(at + BEFORE.len())).and_then(|(before, behind)| {
        let (named, behind) = number(behind)?;
        Some((before, WidePid::of(named)?, behind))
    });
    named
        .map(|(before, named, behind)| joined(before, named, behind).map(StandIn::Path))
        .transpose()
}

/// What /proc shows of a process of another domain.
///
/// # Errors
/// EACCES for what is not known of it.
fn elsewhere(named: WidePid, process: Process, behind: &[u8]) -> Result<StandIn, Errno> {
    let (number, uid, start) = (named.number(), process.uid, process.start);
    match behind {
        // A directory.
        b"" | b"/" => Ok(StandIn::Path(text(format_args!("/proc/self"))?)),
        // proc(5): field 22 is the start time. Nothing is known of the others.
        b"/stat" => {
            let mut line = text(format_args!("{number} (elsewhere) S 0"))?;
            for field in 5..=52 {
                let value = if field == 22 { start } else { 0 };
                write!(line, " {value}").map_err(|_| Errno::NAMETOOLONG)?;
            }
            line.try_push('\n').map_err(|_| Errno::NAMETOOLONG)?;
            Ok(StandIn::Says(line))
        }
        b"/status" => Ok(StandIn::Says(text(format_args!(
            "Name:\telsewhere\nState:\tS (sleeping)\nTgid:\t{number}\nPid:\t{number}\nPPid:\t0\n\
             Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        ))?)),
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

/// Where a call has put the inode of a namespace, that becomes what it is to be.
///
/// # Safety
/// Where the call has succeeded, there is an inode.
unsafe fn numbered(path: *const c_char, result: c_int, inode: impl FnOnce() -> *mut u64) -> c_int {
    if result == 0
        && is_on()
        && let Some(namespace) = namespace(path)
    {
        // SAFETY: by this function's own contract.
        unsafe {
            let inode = inode();
            *inode = namespace.inode(*inode).into();
        }
    }
    result
}

/// What readlink(2) and its kin answer where the kernel has answered `read`, with room for `bytes`.
#[inline]
#[allow(clippy::not_unsafe_ptr_arg_deref)] // as in `stated`
pub fn link_read(path: *const c_char, into: *mut c_char, bytes: usize, read: isize) -> isize {
    let read = match instead(path, read < 0) {
        // A file with a text is no link: the kernel has said so, or that there is none.
        None | Some(Ok(StandIn::Says(_))) => read,
        Some(stands) => answer(stands, |path| {
            let words = [HERE, path.addr(), into.addr(), bytes];
            // SAFETY: the path is a C string, and the kernel looks whether there is room.
            unsafe { system_call(libc::SYS_readlinkat, words) }
        }) as isize,
    };
    if read < 0 || !is_on() {
        return read;
    }
    // SAFETY: the kernel has just written there, with room for as many.
    let room = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), bytes) };
    link(path, room, read as usize).map_or(read, |length| length as isize)
}

/// What a link to a namespace reads. `into` has the kernel's text, of `bytes` bytes; it has as many
/// as this says then.
fn link(path: *const c_char, into: &mut [u8], bytes: usize) -> Option<usize> {
    let namespace = namespace(path)?;
    let kind = std::str::from_utf8(into.get(..4)?).ok()?;
    let (inode, _) = number(into.get(5..bytes)?)?;
    let words = text(format_args!("{kind}[{}]", namespace.inode(inode))).ok()?;
    let length = words.len().min(into.len());
    into[..length].copy_from_slice(&words.as_bytes()[..length]);
    Some(length)
}
