//! The file that is about to be executed, found as the kernel and libc find it, and whether it runs
//! outside of the pool.

use std::ffi::{CStr, c_char};
use std::os::fd::{AsFd, OwnedFd};

use libc::c_int;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, StatVfsMountFlags};

use super::content::Content;
use super::elf::{Linking, linking};
use super::plain::Facts;
use crate::next::system_call;

/// Bytes that looking takes: a path, and that of an interpreter.
pub const ROOM: usize = 2 * PATH;
const PATH: usize = libc::PATH_MAX as usize;
/// Scripts that start scripts, at most: the kernel's own bound.
const INTERPRETERS: usize = 5;

/// What is to be executed. The kernel reads the paths: the pointers may be anything.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// By its path.
    Path(*const c_char),
    /// By a name that is looked for in PATH; libc reads it as well.
    Name(*const c_char),
    /// As execveat(2) has it.
    At {
        /// A descriptor, or AT_FDCWD.
        directory: c_int,
        /// From there.
        path: *const c_char,
        /// AT_ words.
        flags: c_int,
    },
}

/// Why a program runs outside of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// Nothing loads the library.
    Static,
    /// Its C library cannot load the library.
    Musl,
    /// It cannot load a library of 64 bits.
    Narrow,
    /// The file gives privileges, so the dynamic linker ignores LD_PRELOAD.
    Privileged,
    /// The process has another effective user or group than its real one: the same.
    TwoUsers,
}

impl Outside {
    /// What the program is.
    pub fn what(self) -> &'static str {
        match self {
            Self::Static => "is statically linked",
            Self::Musl => "is linked with musl",
            Self::Narrow => "is a 32-bit program",
            Self::Privileged => "runs with other privileges than its caller",
            Self::TwoUsers => "is executed with different real and effective users or groups",
        }
    }

    /// What to do.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Static => "Link it dynamically, or use libvshmem's calls",
            Self::Musl => "Use a build of it for glibc",
            Self::Narrow => "Use a 64-bit build of it",
            Self::Privileged => "Run a copy of it without setuid, setgid and file capabilities",
            Self::TwoUsers => {
                "Start the service as its own user: \
                 `setpriv --reuid USER --regid GROUP --init-groups PROGRAM`"
            }
        }
    }
}

/// Looks at a program, and at the interpreter of a script. Which file is the reason, and why.
pub fn examine(program: Program, room: &mut [u8]) -> Option<(Outside, &CStr)> {
    let (path, next) = room.split_at_mut(PATH);
    find(program, path)?;
    let (mut path, mut next) = (path, next);
    for _ in 0..INTERPRETERS {
        let name = CStr::from_bytes_until_nul(path).ok()?;
        let file = Executable::open(name)?;
        match file.interpreter(next) {
            Some(true) => std::mem::swap(&mut path, &mut next),
            Some(false) => {
                return Some((file.outside()?, CStr::from_bytes_until_nul(path).ok()?));
            }
            None => return None,
        }
    }
    None
}

/// Writes the path under which the program's file can be opened.
fn find(program: Program, path: &mut [u8]) -> Option<()> {
    match program {
        Program::Path(given) => checked(libc::AT_FDCWD, given).and_then(|name| put(path, &[name])),
        Program::Name(given) => find_in_path(given, path),
        Program::At { directory, path: given, flags } => {
            let name = checked(directory, given)?;
            let mut digits = [0; 10];
            let digits = decimal(directory, &mut digits);
            if name.is_empty() {
                let is_open = flags & libc::AT_EMPTY_PATH != 0 && directory >= 0;
                return is_open.then(|| put(path, &[b"/proc/self/fd/", digits]))?;
            }
            if name.starts_with(b"/") || directory == libc::AT_FDCWD {
                return put(path, &[name]);
            }
            (directory >= 0).then(|| put(path, &[b"/proc/self/fd/", digits, b"/", name]))?
        }
    }
}

/// A path that the program has passed, once the kernel has read it.
fn checked<'a>(directory: c_int, path: *const c_char) -> Option<&'a [u8]> {
    // As execve(2): by the effective user, who may be another than the real one.
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    let words = [directory as usize, path.addr(), libc::F_OK as usize, flags as usize];
    // SAFETY: the call reads a path, and fails where there is none.
    let is_there = unsafe { system_call(libc::SYS_faccessat2, words) } == 0;
    // SAFETY: the kernel has just read it to its end; it stays as it is while it is executed.
    is_there.then(|| unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// As execvp(3) does.
fn find_in_path(name: *const c_char, path: &mut [u8]) -> Option<()> {
    if name.is_null() {
        return None;
    }
    // SAFETY: libc reads it in the same way a moment later.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if name.contains(&b'/') {
        return put(path, &[name]);
    }
    // SAFETY: the name is a C string; getenv only reads.
    let directories = unsafe { libc::getenv(c"PATH".as_ptr()) };
    let directories = if directories.is_null() {
        b"/bin:/usr/bin"
    } else {
        // SAFETY: libc keeps the environment a list of C strings.
        unsafe { CStr::from_ptr(directories) }.to_bytes()
    };
    directories.split(|byte| *byte == b':').find_map(|directory| {
        let directory = if directory.is_empty() { b"." } else { directory };
        put(path, &[directory, b"/", name])?;
        let file = CStr::from_bytes_until_nul(path).ok()?;
        is_executable(file).then_some(())
    })
}

fn is_executable(path: &CStr) -> bool {
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Writes the parts one after another, with a null behind them.
fn put(path: &mut [u8], parts: &[&[u8]]) -> Option<()> {
    let mut used = 0;
    for part in parts.iter().copied().chain([&b"\0"[..]]) {
        path.get_mut(used..used + part.len())?.copy_from_slice(part);
        used += part.len();
    }
    Some(())
}

fn decimal(number: c_int, digits: &mut [u8; 10]) -> &[u8] {
    let (mut left, mut start) = (number.unsigned_abs(), digits.len());
    loop {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &digits[start..];
        }
    }
}

/// A regular file that may be executed.
struct Executable {
    /// Opened for its facts alone.
    file: OwnedFd,
    /// To read it, where that is allowed.
    content: Option<Content>,
    /// What is remembered if it turns out to run on the pool.
    facts: Option<Facts>,
}

impl Executable {
    /// `None`: it cannot be executed, or is known to run on the pool.
    fn open(path: &CStr) -> Option<Self> {
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let facts = Facts::of(&stat);
        if facts.is_some_and(Facts::are_known)
            || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
            || !is_executable(path)
        {
            return None;
        }
        Some(Self { file, content: Content::of(path, &stat), facts })
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Option<usize> {
        rustix::io::pread(self.content.as_ref()?, into, offset).ok()
    }

    /// Whether it is a script: then its interpreter's path is in `path`. `None`: not known.
    fn interpreter(&self, path: &mut [u8]) -> Option<bool> {
        let mut head = [0; 256];
        if self.content.is_none() {
            return Some(false);
        }
        let got = self.read(0, &mut head)?;
        let Some(line) = head[..got].strip_prefix(b"#!") else { return Some(false) };
        let line = &line[..line.iter().position(|byte| *byte == b'\n')?];
        let word = line.split(|byte| b" \t\r".contains(byte)).find(|word| !word.is_empty())?;
        put(path, &[word]).map(|()| true)
    }

    fn outside(&self) -> Option<Outside> {
        let secure = self.secure_execution()?;
        if secure.is_some() {
            return secure;
        }
        let read = |offset: u64, into: &mut [u8]| self.read(offset, into) == Some(into.len());
        match linking(&read)? {
            Linking::Dynamic => {
                if let Some(facts) = self.facts {
                    facts.remember();
                }
                None
            }
            Linking::Static => Some(Outside::Static),
            Linking::Musl => Some(Outside::Musl),
            Linking::Narrow => Some(Outside::Narrow),
        }
    }

    /// Whether the kernel will mark it as one whose environment is not to be trusted (AT_SECURE):
    /// it gets other ids than the real ones of its caller, or capabilities that its caller has not.
    fn secure_execution(&self) -> Option<Option<Outside>> {
        let stat = rustix::fs::fstat(&self.file).ok()?;
        let mount = rustix::fs::fstatvfs(&self.file).ok()?;
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        let gains = !mount.f_flag.contains(StatVfsMountFlags::NOSUID)
            && !rustix::thread::no_new_privs().ok()?;
        let before = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (mut next_uid, mut next_gid) = before;
        if gains && stat.st_mode & libc::S_ISUID != 0 {
            next_uid = stat.st_uid;
        }
        // Without the group's execute bit it marks mandatory locking, once upon a time.
        let setgid = libc::S_ISGID | libc::S_IXGRP;
        if gains && stat.st_mode & setgid == setgid {
            next_gid = stat.st_gid;
        }
        // A file of a user whom this user namespace does not know gives nothing.
        const UNKNOWN: u32 = 65534;
        if next_uid == UNKNOWN || next_gid == UNKNOWN {
            return None;
        }
        let has_capabilities = || {
            let Some(content) = &self.content else { return false };
            let mut value = [0_u8; 64];
            rustix::fs::fgetxattr(content.as_fd(), c"security.capability", &mut value[..])
                .is_ok_and(|bytes| bytes > 0)
        };
        let is_other = next_uid != uid.as_raw() || next_gid != gid.as_raw();
        Some(if is_other && (next_uid, next_gid) == before {
            Some(Outside::TwoUsers)
        } else if is_other || gains && next_uid != 0 && has_capabilities() {
            Some(Outside::Privileged)
        } else {
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together() {
        let mut path = [0xff; 32];
        let mut digits = [0; 10];
        put(&mut path, &[b"/proc/self/fd/", decimal(120, &mut digits)]).unwrap();
        assert_eq!(CStr::from_bytes_until_nul(&path).unwrap(), c"/proc/self/fd/120");
        assert_eq!(decimal(0, &mut digits), b"0");
        assert!(put(&mut path, &[&[b'x'; 32]]).is_none());
    }
}
