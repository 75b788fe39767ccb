//! open(2) and its kin. What is there is opened where it is; a new file is the pool's.

use libc::{c_char, c_int, mode_t};
use vshmem_ipc::Errno;

use super::find::{self, Found, NO_DIRECTORY};
use super::names::Name;
use super::text::Text;
use crate::errno;
use crate::next::system_call;
use crate::posix::{directory, shared_memory};
use crate::session::cancel::uncancelled;

/// How a file is opened.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// The directory from which the path leads, if it is relative.
    pub at: c_int,
    /// The path.
    pub path: *const c_char,
    /// As open(2) takes them.
    pub flags: c_int,
    /// Of a new file.
    pub mode: mode_t,
}

impl Opening {
    /// As fopen(3) opens. `None` where no path leads to an object, and of a mode that is none.
    pub fn of_stream(path: *const c_char, mode: *const c_char) -> Option<Self> {
        if !find::in_use() {
            return None;
        }
        let flags = flags_of(Text::of(mode)?.bytes())?;
        Some(Self { at: libc::AT_FDCWD, path, flags, mode: 0o666 })
    }

    fn has(&self, flags: c_int) -> bool {
        self.flags & flags == flags
    }

    fn follows(&self) -> bool {
        !self.has(libc::O_NOFOLLOW) && !self.has(libc::O_CREAT | libc::O_EXCL)
    }

    /// Opens an object, or makes it; -1 and errno. `None`: the file is the kernel's.
    #[inline]
    pub fn of_object(&self) -> Option<c_int> {
        if !find::in_use() {
            return None;
        }
        let found = if self.has(libc::O_CREAT) {
            find::thorough(self.at, self.path, self.follows())
        } else {
            find::quick(self.at, self.path)
        };
        self.open_found(found)
    }

    /// The same, after the kernel's call has failed.
    pub fn of_object_after_failure(&self) -> Option<c_int> {
        if !find::in_use() || self.has(libc::O_CREAT) {
            return None;
        }
        self.open_found(find::after_failure(self.at, self.path, self.follows()))
    }

    fn open_found(&self, found: Found) -> Option<c_int> {
        let opened = match found {
            Found::Elsewhere => return None,
            Found::InObject => Err(NO_DIRECTORY),
            Found::Name(_, Some(_)) if self.has(libc::O_CREAT | libc::O_EXCL) => Err(Errno::EXIST),
            Found::Name(_, Some(_)) if self.has(libc::O_DIRECTORY) => Err(Errno::NOTDIR),
            Found::Name(name, Some(_)) => match self.open(&name, self.flags & !libc::O_CREAT) {
                Err(Errno::NOENT) if self.has(libc::O_CREAT) => self.open(&name, self.flags),
                opened => opened,
            },
            Found::Name(..) if !self.has(libc::O_CREAT) || self.is_there() => return None,
            Found::Name(name, None) => self.open(&name, self.flags),
        };
        Some(errno::answer_int(opened))
    }

    /// Whether the kernel has a file there: then its call says what that means.
    fn is_there(&self) -> bool {
        let flags = if self.follows() { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
        let text = Text::of(self.path);
        text.is_some_and(|text| directory::file_at(self.at, text.c_string(), flags).is_some())
    }

    fn open(&self, name: &Name, flags: c_int) -> Result<c_int, Errno> {
        let file = uncancelled(|| shared_memory::open(name.bytes(), flags, self.mode))?;
        if !self.has(libc::O_CLOEXEC) {
            let words = [file as usize, libc::F_SETFD as usize, 0];
            // SAFETY: the call changes a descriptor that no other code knows yet.
            errno::untouched(|| unsafe { system_call(libc::SYS_fcntl, words) });
        }
        Ok(file)
    }
}

/// The flags that a mode of fopen(3) stands for. `None`: it is none.
fn flags_of(mode: &[u8]) -> Option<c_int> {
    let (first, rest) = mode.split_first()?;
    let rest = rest.split(|&byte| byte == b',').next().unwrap_or_default();
    let created = match first {
        b'r' => 0,
        b'w' => libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let way = match (first, rest.contains(&b'+')) {
        (_, true) => libc::O_RDWR,
        (b'r', false) => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    let flag = |letter: u8, flag| if rest.contains(&letter) { flag } else { 0 };
    Some(created | way | flag(b'x', libc::O_EXCL) | flag(b'e', libc::O_CLOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_of_fopen_is_flags_of_open() {
        for (mode, flags) in [
            (&b"r"[..], libc::O_RDONLY),
            (b"rb+", libc::O_RDWR),
            (b"wx", libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL),
            (b"a+e", libc::O_RDWR | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC),
            (b"r,ccs=x+e", libc::O_RDONLY),
        ] {
            assert_eq!(flags_of(mode), Some(flags), "{mode:?}");
        }
        assert_eq!((flags_of(b""), flags_of(b"+")), (None, None));
    }
}
