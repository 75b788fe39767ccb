//! Programs that run outside of the pool: what is executed and does not load this library uses the
//! kernel's System V IPC silently. So they are written down (`list`), for `vshmem ls --left`; and a
//! message says it before the program is executed, once for all programs that one `vshmem run` has
//! started, on standard error when that is a terminal, or when VSHMEM_LOG asks for it.
//!
//! Callers may be children of vfork: no heap, and the file that marks what has been said is made
//! with one system call.

mod content;
mod elf;
mod file;
mod line;
mod list;
mod plain;

use std::ffi::CStr;
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use vshmem_mem::{Scratch, unless_confined};

use crate::errno;
use crate::session::{cancel, environment};
use file::Outside;
use line::Line;

pub use file::Program;

/// Looks at a program that is about to be executed, and says and writes down that it runs outside
/// of the pool if that is known. Whether this library is to be preloaded into it: musl's dynamic
/// linker ends a program for that.
pub fn look(program: Program) -> bool {
    // The files that are looked at are closed, which would be a cancellation point.
    let found = errno::untouched(|| cancel::uncancelled(|| unless_confined(|| look_at(program))));
    found.flatten() != Some(Outside::Musl)
}

fn look_at(program: Program) -> Option<Outside> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let mut room = Scratch::<u8>::new(file::ROOM)?;
    let (outside, culprit) = file::examine(program, room.values())?;
    list::enter(outside, culprit);
    if !SAID.load(Ordering::Relaxed)
        && is_heard()
        && !SAID.swap(true, Ordering::Relaxed)
        && is_first()
    {
        say(outside, culprit);
    }
    Some(outside)
}

/// Whether a user reads what is said.
fn is_heard() -> bool {
    // SAFETY: the name is a C string; getenv only reads.
    let is_asked = unsafe { !libc::getenv(c"VSHMEM_LOG".as_ptr()).is_null() };
    // Asked in two steps: a filter of system calls may know fstat(2) alone.
    let is_device = || {
        let stat = rustix::fs::fstat(standard_error());
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
    };
    is_asked || is_device() && rustix::termios::isatty(standard_error())
}

fn standard_error() -> BorrowedFd<'static> {
    // SAFETY: only borrowed for one call; a closed one gives EBADF.
    unsafe { BorrowedFd::borrow_raw(2) }
}

/// Whether this is the first of all that `vshmem run` has started. The others find the mark that it
/// leaves; the domain's agent removes it.
fn is_first() -> bool {
    let Some(mark) = environment::remembered(c"VSHMEM_NOTICE") else { return true };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(mark, flags, Mode::RUSR | Mode::WUSR);
    // Where it cannot be made, each program says it once.
    !matches!(made, Err(rustix::io::Errno::EXIST))
}

fn say(outside: Outside, culprit: &CStr) {
    let pool = environment::remembered(c"VSHMEM_POOL_NAME").unwrap_or(c"");
    let mut line = Line::new();
    let _ = write!(line, "vshmem: ");
    line.put(culprit.to_bytes());
    let _ = write!(line, " {}, so it is outside of pool ", outside.what());
    line.put(pool.to_bytes());
    let _ = writeln!(
        line,
        " and uses the kernel's System V IPC. {} (this is said once)",
        outside.remedy()
    );
    // There is no place to report a failure.
    let _ = rustix::io::write(standard_error(), line.written());
}
