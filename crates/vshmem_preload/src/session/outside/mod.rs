//! Programs that run outside of the pool: what is executed and does not load this library uses the
//! kernel's System V IPC silently. So a message says it before the program is executed, once for
//! all programs that one `vshmem run` has started.
//!
//! It is said on standard error when that is a terminal, or when VSHMEM_LOG asks for it; otherwise
//! nothing is looked at. Callers may be children of vfork: no heap, and the file that marks what
//! has been said is made with one system call.

mod content;
mod elf;
mod file;

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use vshmem_mem::{Scratch, unless_confined};

use crate::errno;
use crate::session::{cancel, environment};
use file::Outside;

pub use file::Program;

/// Says that a program is about to run outside of the pool, if that is known and was not said yet.
pub fn tell(program: Program) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if SAID.load(Ordering::Relaxed) {
        return;
    }
    // The files that are looked at are closed, which would be a cancellation point.
    errno::untouched(|| {
        cancel::uncancelled(|| {
            unless_confined(|| {
                if !is_heard() {
                    return;
                }
                let Some(mut room) = Scratch::<u8>::new(file::ROOM) else { return };
                let Some((outside, culprit)) = file::examine(program, room.values()) else {
                    return;
                };
                if !SAID.swap(true, Ordering::Relaxed) && is_first() {
                    say(outside, culprit);
                }
            });
        })
    });
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

/// A line without the heap. What does not fit is cut off.
struct Line {
    bytes: [u8; 640],
    used: usize,
}

impl Line {
    /// So much of a path is shown.
    const SHOWN: usize = 256;

    fn new() -> Self {
        Self { bytes: [0; 640], used: 0 }
    }

    /// Another user's text, for a terminal. Behind 0xc2, in UTF-8, 0x80 to 0x9f are control
    /// characters as well; and by themselves on a terminal of 8-bit characters.
    fn put(&mut self, text: &[u8]) {
        let mut before = 0;
        for &byte in text.iter().take(Self::SHOWN) {
            let is_high_control = (0x80..0xa0).contains(&byte) && (before == 0xc2 || before < 0x80);
            self.push(if byte.is_ascii_control() || is_high_control { b'?' } else { byte });
            before = byte;
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.used) {
            (*place, self.used) = (byte, self.used + 1);
        }
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn names_of_programs_write_nothing_but_text_on_a_terminal() {
        let mut line = Line::new();
        line.put("a\u{1b}[2J\u{9b}2J\u{e4}\u{20ac}".as_bytes());
        line.put(b"\x9b2J");
        assert_eq!(line.written(), b"a?[2J\xc2?2J\xc3\xa4\xe2\x82\xac?2J");
    }
}
