//! User namespaces: what the ids of this process's are outside of it.
//!
//! A pool has the ids of its kernel's initial user namespace, as the kernel's own objects do. A
//! process in another one sees and says others; `/proc/self/uid_map` tells which, one level up.
//! Makes no use of the heap.

use std::fmt;

use rustix::fs::{Mode, OFlags, open, stat};
use rustix::io::Errno;

/// What the kernel shows in the place of an id that a namespace does not know (overflowuid).
pub const OVERFLOW_ID: u32 = 65534;

/// Inode of the initial user namespace (include/linux/proc_ns.h).
const INITIAL: u64 = 0xEFFF_FFFD;

/// Lines of a map that are used; ids of others cannot be translated. The kernel allows 340, and
/// tools write a few.
const MOST: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Extent {
    inside: u32,
    outside: u32,
    count: u32,
}

/// What ids of one namespace are in another (user_namespaces(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMap {
    extents: [Extent; MOST],
    used: usize,
}

impl IdMap {
    /// Knows no id.
    pub const NOTHING: Self =
        Self { extents: [Extent { inside: 0, outside: 0, count: 0 }; MOST], used: 0 };

    /// Leaves all as they are.
    const SAME: Self = {
        let mut map = Self::NOTHING;
        map.extents[0].count = u32::MAX;
        map.used = 1;
        map
    };

    /// Of lines of three numbers, or of the same with commas between them.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut map = Self::NOTHING;
        for line in text.split(|byte| b"\n,".contains(byte)) {
            let mut numbers = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
            let mut next = || std::str::from_utf8(numbers.next()?).ok()?.parse().ok();
            if let (Some(inside), Some(outside), Some(count)) = (next(), next(), next()) {
                map.add(Extent { inside, outside, count });
            }
        }
        map
    }

    fn add(&mut self, extent: Extent) {
        if let Some(free) = self.extents.get_mut(self.used) {
            *free = extent;
            self.used += 1;
        }
    }

    fn extents(&self) -> &[Extent] {
        &self.extents[..self.used]
    }

    /// Whether it knows no id: as long as nobody has written a namespace's map.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What an id of the namespace is outside.
    #[must_use]
    pub fn outside(&self, id: u32) -> Option<u32> {
        self.extents().iter().find_map(|extent| {
            let at = id.checked_sub(extent.inside).filter(|at| *at < extent.count)?;
            extent.outside.checked_add(at)
        })
    }

    /// What an id of outside is in the namespace.
    #[must_use]
    pub fn inside(&self, id: u32) -> Option<u32> {
        self.extents().iter().find_map(|extent| {
            let at = id.checked_sub(extent.outside).filter(|at| *at < extent.count)?;
            extent.inside.checked_add(at)
        })
    }

    /// Of a namespace inside another one: this map leads into the other, `outer` out of that.
    #[must_use]
    fn within(&self, outer: &Self) -> Self {
        let mut map = Self::NOTHING;
        for own in self.extents() {
            for one in outer.extents() {
                let first = own.outside.max(one.inside);
                let end = |start: u32, count| u64::from(start) + u64::from(count);
                let last = end(own.outside, own.count).min(end(one.inside, one.count));
                if u64::from(first) < last {
                    map.add(Extent {
                        inside: own.inside + (first - own.outside),
                        outside: one.outside.saturating_add(first - one.inside),
                        count: (last - u64::from(first)) as u32,
                    });
                }
            }
        }
        map
    }
}

/// As [`IdMap::parse`] reads it, in one line.
impl fmt::Display for IdMap {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Extent { inside, outside, count }) in self.extents().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(into, "{comma}{inside} {outside} {count}")?;
        }
        Ok(())
    }
}

/// A user namespace, and what its ids are in the initial one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserNamespace {
    /// Inode of its file below /proc.
    pub inode: u64,
    /// User ids.
    pub users: IdMap,
    /// Group ids.
    pub groups: IdMap,
}

impl UserNamespace {
    /// The one that the kernel begins with.
    pub const INITIAL: Self = Self { inode: INITIAL, users: IdMap::SAME, groups: IdMap::SAME };

    /// This process's, which is taken to lie directly in the initial one.
    #[must_use]
    pub fn own() -> Self {
        Self::own_inode().map_or(Self::INITIAL, |inode| Self::INITIAL.inner(inode))
    }

    /// The inode of this process's; `None` where /proc does not show it.
    #[must_use]
    pub fn own_inode() -> Option<u64> {
        match stat(c"/proc/self/ns/user") {
            Ok(found) => Some(found.st_ino),
            // A kernel without them.
            Err(Errno::NOENT) if stat(c"/proc/self/ns").is_ok() => Some(INITIAL),
            Err(_) => None,
        }
    }

    /// Whether ids need no translation.
    #[must_use]
    pub fn is_initial(&self) -> bool {
        self.inode == INITIAL
    }

    /// This process's, whose inode is given, which lies in this one.
    #[must_use]
    pub fn inner(&self, inode: u64) -> Self {
        if inode == INITIAL {
            return Self::INITIAL;
        }
        Self {
            inode,
            users: read(c"/proc/self/uid_map").within(&self.users),
            groups: read(c"/proc/self/gid_map").within(&self.groups),
        }
    }
}

/// By system calls alone, as everything about processes. What cannot be read translates nothing.
fn read(path: &std::ffi::CStr) -> IdMap {
    let mut text = [0; 4096];
    let length = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut text[..]));
    IdMap::parse(&text[..length.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_translates_both_ways_what_it_knows() {
        let map =
            IdMap::parse(b"         0       1000          1\n         1     100000      65536\n");
        for (inside, outside) in [(0, 1000), (1, 100_000), (65536, 165_535)] {
            assert_eq!((map.outside(inside), map.inside(outside)), (Some(outside), Some(inside)));
        }
        assert_eq!((map.outside(65537), map.inside(0), map.inside(999)), (None, None, None));
        assert_eq!(IdMap::parse(map.to_string().as_bytes()), map);
        assert!(IdMap::parse(b"").is_empty());
        assert_eq!(IdMap::SAME.outside(4_294_967_294), Some(4_294_967_294));
    }

    #[test]
    fn a_namespace_in_another_is_translated_through_both() {
        let outer = IdMap::parse(b"0 1000 1,1 100000 65536");
        // As `podman run --userns keep-id` makes it.
        let map = IdMap::parse(b"0 1 1000,1000 0 1,1001 1001 64536").within(&outer);
        assert_eq!(map.outside(1000), Some(1000));
        assert_eq!(map.outside(0), Some(100_000));
        assert_eq!(map.outside(1001), Some(101_000));
        assert_eq!(map.inside(0), None);
        assert!(IdMap::parse(b"5 70000 1").within(&outer).is_empty());
        assert!(IdMap::NOTHING.within(&outer).is_empty());
    }

    #[test]
    fn what_has_too_many_lines_is_not_known() {
        let lines: String = (0..40).map(|at| format!("{at} {} 1\n", at + 100)).collect();
        let map = IdMap::parse(lines.as_bytes());
        assert_eq!((map.outside(31), map.outside(32)), (Some(131), None));
    }
}
