//! A path as a program passes it: a pointer that may be anything. EFAULT is for the kernel to say,
//! so what cannot be read leads elsewhere.

use std::ffi::CStr;

use libc::{c_char, c_int};
use vshmem_mem::unless_confined;

use crate::attached::addresses::PAGE;
use crate::errno;
use crate::mapping::user;
use crate::next::system_call;

/// Bytes of a path that is looked at, with the null at its end. Callers may be signal handlers on
/// small stacks.
const MOST: usize = 512;

/// No program has memory from there on.
const END_OF_ADDRESSES: usize = 1 << 57;

/// Reads bytes one after the other, each page of them once it is known to be good.
struct Bytes {
    at: *const u8,
    good_until: usize,
}

impl Bytes {
    fn next(&mut self) -> Option<u8> {
        if self.at.addr() >= self.good_until {
            self.check()?;
        }
        // SAFETY: the page can be read; that the program does not unmap what it has passed is its
        // own contract.
        let byte = unsafe { self.at.read() };
        self.at = self.at.wrapping_add(1);
        Some(byte)
    }

    fn check(&mut self) -> Option<()> {
        let page = self.at.addr() / PAGE;
        if page == 0 || page >= END_OF_ADDRESSES / PAGE {
            return None;
        }
        let is_good = || user::check(self.at, 1, false).is_ok();
        // A program that has confined itself is trusted: it may have forbidden itself to ask.
        if !user::is_known(self.at.addr()) && !unless_confined(is_good).unwrap_or(true) {
            return None;
        }
        self.good_until = (page + 1) * PAGE;
        Some(())
    }
}

/// Whether a path is absolute and begins as one that leads to /dev does.
pub fn may_lead_there(path: *const c_char) -> bool {
    let mut bytes = Bytes { at: path.cast(), good_until: 0 };
    if bytes.next() != Some(b'/') {
        return false;
    }
    let mut byte = bytes.next();
    while let Some(b'/' | b'.') = byte {
        byte = bytes.next();
    }
    byte == Some(b'd') && bytes.next() == Some(b'e') && bytes.next() == Some(b'v')
}

/// A copy of a path.
#[derive(Debug, Clone)]
pub struct Text {
    bytes: [u8; MOST],
    length: usize,
}

impl Text {
    /// Of a path that a program has passed; `None` of one that is empty, too long or not there.
    pub fn of(path: *const c_char) -> Option<Self> {
        let mut text = Self { bytes: [0; MOST], length: 0 };
        let mut from = Bytes { at: path.cast(), good_until: 0 };
        while let byte @ 1.. = from.next()? {
            text.push(byte)?;
        }
        (text.length > 0).then_some(text)
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        // The last one stays a null.
        *self.bytes[..MOST - 1].get_mut(self.length)? = byte;
        self.length += 1;
        Some(())
    }

    /// Without the null.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// For the kernel.
    pub fn c_string(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// What stands before the last slash, `.` for a path without one; and what stands behind it.
    pub fn split(&self) -> Option<(Self, &[u8])> {
        let text = self.bytes();
        let slash = text.iter().rposition(|&byte| byte == b'/');
        let (parent, last) = match slash {
            None => (&b"."[..], text),
            Some(0) => (&b"/"[..], &text[1..]),
            Some(slash) => (&text[..slash], &text[slash + 1..]),
        };
        Some((Self::of_bytes(parent)?, last))
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut text = Self { bytes: [0; MOST], length: bytes.len() };
        text.bytes[..MOST - 1].get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(text)
    }

    /// Where the symbolic link at this path leads, as a path from the same directory; `None` where
    /// there is none.
    pub fn link_target(&self, at: c_int) -> Option<Self> {
        let mut target = Self { bytes: [0; MOST], length: 0 };
        let room = MOST - 1;
        let words =
            [at as usize, self.bytes.as_ptr().addr(), target.bytes.as_mut_ptr().addr(), room];
        // SAFETY: the path ends with a null, and the room is as large as is said.
        let read = || unsafe { system_call(libc::SYS_readlinkat, words) };
        let length = errno::untouched(|| unless_confined(read))?;
        target.length = usize::try_from(length).ok().filter(|&length| length < room)?;
        if target.bytes().starts_with(b"/") {
            return Some(target);
        }
        let (mut joined, _) = self.split()?;
        joined.push(b'/')?;
        for &byte in target.bytes() {
            joined.push(byte)?;
        }
        Some(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_paths_are_worth_a_look() {
        for path in [c"/dev/shm/x", c"//dev/shm/x", c"/./dev/shm/x", c"/dev/null", c"/.//dev"] {
            assert!(may_lead_there(path.as_ptr()), "{path:?}");
        }
        for path in [c"", c"/", c"x", c"./dev/shm/x", c"/etc/hostname", c"/de", c"/tmp/dev"] {
            assert!(!may_lead_there(path.as_ptr()), "{path:?}");
        }
        assert!(!may_lead_there(std::ptr::null()));
        assert!(!may_lead_there(std::ptr::without_provenance(1 << 62)));
    }

    #[test]
    fn a_path_is_split_at_its_last_slash() {
        for (path, parent, last) in
            [(c"a", ".", "a"), (c"/a", "/", "a"), (c"a/b", "a", "b"), (c"/a/b//c", "/a/b/", "c")]
        {
            let text = Text::of(path.as_ptr()).unwrap();
            let (before, behind) = text.split().unwrap();
            assert_eq!((before.bytes(), behind), (parent.as_bytes(), last.as_bytes()));
        }
        assert!(Text::of(c"".as_ptr()).is_none());
        let long = std::ffi::CString::new("x".repeat(MOST)).unwrap();
        assert!(Text::of(long.as_ptr()).is_none());
    }
}
