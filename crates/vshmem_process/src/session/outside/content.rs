//! What is in a file, read so that the program loses no lock on it.
//!
//! A process loses its locks on a file (fcntl(2), "Advisory record locking") when it closes any
//! descriptor of that file. Where the program has one, and may so have a lock, that one is read.
//! Only a file of which it has none is opened here, and closed again.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, Stat, StatxFlags, makedev};

/// A file to be read.
pub enum Content {
    /// By a descriptor that was opened to read it.
    Opened(OwnedFd),
    /// By one of the program's.
    OfProgram(BorrowedFd<'static>),
}

impl Content {
    /// What is in the file of that path, which is the one of `stat`. `None`: it cannot be read, or
    /// not without losing a lock.
    pub fn of(path: &CStr, stat: &Stat) -> Option<Self> {
        match descriptor_of(stat)? {
            Descriptor::Readable(descriptor) => Some(Self::OfProgram(descriptor)),
            Descriptor::WriteOnly => None,
            Descriptor::Absent => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
                rustix::fs::open(path, flags, Mode::empty()).ok().map(Self::Opened)
            }
        }
    }
}

impl AsFd for Content {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Opened(descriptor) => descriptor.as_fd(),
            Self::OfProgram(descriptor) => *descriptor,
        }
    }
}

/// What this process has open of a file.
enum Descriptor {
    Readable(BorrowedFd<'static>),
    WriteOnly,
    Absent,
}

/// Looks through all descriptors. `None`: they are not known.
fn descriptor_of(stat: &Stat) -> Option<Descriptor> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let list = rustix::fs::open(c"/proc/self/fd", flags, Mode::empty()).ok()?;
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&list, &mut room);
    let mut found = Descriptor::Absent;
    while let Some(entry) = entries.next() {
        let Some(number) = number(entry.ok()?.file_name()) else { continue };
        // SAFETY: only used for calls that fail with EBADF once the program has closed it.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if !is_of(descriptor, stat) {
            continue;
        }
        let Ok(flags) = rustix::fs::fcntl_getfl(descriptor) else { continue };
        if flags.contains(OFlags::PATH) {
            // It neither reads nor locks.
        } else if flags & OFlags::ACCMODE == OFlags::WRONLY {
            found = Descriptor::WriteOnly;
        } else {
            return Some(Descriptor::Readable(descriptor));
        }
    }
    Some(found)
}

/// Whether a descriptor is of that file. No file system is asked: one whose server does not answer
/// would hold up the program.
fn is_of(descriptor: BorrowedFd<'_>, stat: &Stat) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(descriptor, c"", flags, StatxFlags::INO).is_ok_and(|its| {
        its.stx_ino == stat.st_ino && makedev(its.stx_dev_major, its.stx_dev_minor) == stat.st_dev
    })
}

/// The number of a descriptor, by its name there; not that of "." or "..".
fn number(name: &CStr) -> Option<RawFd> {
    name.to_str().ok()?.parse().ok()
}
