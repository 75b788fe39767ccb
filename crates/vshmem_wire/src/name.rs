//! How objects are found: by a System V key, or by the name of a POSIX object.

use crate::fnv1a_64;

/// Bytes of a name at most (NAME_MAX), without the slash in front.
pub const NAME_BYTES: usize = 255;

/// What an object's key cell says: a System V key, or the hash of a name. The two are never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectKey(u64);

impl ObjectKey {
    const IS_NAME: u64 = 1 << 63;

    /// IPC_PRIVATE, or a POSIX object that has been unlinked: in no index.
    pub const NONE: Self = Self(0);

    /// A System V key.
    #[inline]
    #[must_use]
    pub const fn of_key(key: i32) -> Self {
        Self(key as u32 as u64)
    }

    /// The key of all objects with such a name; others may have it, too.
    #[must_use]
    pub const fn of_name(name: &[u8]) -> Self {
        Self(Self::IS_NAME | fnv1a_64(name))
    }

    /// From a cell.
    #[inline]
    #[must_use]
    pub const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// For a cell.
    #[inline]
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Whether it stands for a name.
    #[inline]
    #[must_use]
    pub const fn is_name(self) -> bool {
        self.0 & Self::IS_NAME != 0
    }

    /// The System V key; 0 for a name.
    #[inline]
    #[must_use]
    pub const fn system_v(self) -> i32 {
        if self.is_name() { 0 } else { self.0 as u32 as i32 }
    }

    /// 32 bits to choose a bucket of the index by.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

/// What the name cell of a segment or a queue says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectName {
    /// A System V object.
    SystemV,
    /// A POSIX object that has been unlinked, and that clients still have open.
    Unlinked,
    /// A POSIX object, and the chunk that its name lies in.
    Chunk {
        /// The chunk's first unit.
        unit: u32,
        /// Bytes of the name. More than [`NAME_BYTES`] only a peer has written.
        bytes: u32,
    },
}

impl ObjectName {
    const IS_POSIX: u64 = 1 << 63;
    const BYTES_AT: u32 = 32;
    const BYTES: u64 = 0xffff;

    /// As a word.
    #[must_use]
    pub const fn pack(self) -> u64 {
        match self {
            Self::SystemV => 0,
            Self::Unlinked => Self::IS_POSIX,
            Self::Chunk { unit, bytes } => {
                Self::IS_POSIX | (bytes as u64) << Self::BYTES_AT | (unit as u64 + 1)
            }
        }
    }

    /// The reverse, of any word.
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        if word & Self::IS_POSIX == 0 {
            return Self::SystemV;
        }
        match (word as u32).checked_sub(1) {
            None => Self::Unlinked,
            Some(unit) => {
                Self::Chunk { unit, bytes: (word >> Self::BYTES_AT & Self::BYTES) as u32 }
            }
        }
    }

    /// Whether the word is that of a POSIX object.
    #[inline]
    #[must_use]
    pub const fn is_posix(word: u64) -> bool {
        word & Self::IS_POSIX != 0
    }
}

/// How often a segment is in use: by all clients, or by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttachCount {
    /// Attaches: mappings.
    pub attached: u32,
    /// Open descriptors of a POSIX object.
    pub opened: u32,
}

impl AttachCount {
    /// Everything that a client has.
    pub const ALL: Self = Self { attached: u32::MAX, opened: u32::MAX };
    /// All mappings that a client has; its descriptors stay.
    pub const ALL_MAPPINGS: Self = Self { attached: u32::MAX, opened: 0 };

    /// So many attaches.
    #[must_use]
    pub const fn mappings(attached: u32) -> Self {
        Self { attached, opened: 0 }
    }

    /// So many descriptors.
    #[must_use]
    pub const fn descriptors(opened: u32) -> Self {
        Self { attached: 0, opened }
    }

    /// As a word, whose low 32 bits are the attaches.
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.opened as u64) << 32 | self.attached as u64
    }

    /// The reverse.
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self { attached: word as u32, opened: (word >> 32) as u32 }
    }

    /// Whether it is not in use.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.pack() == 0
    }

    /// So many more.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            attached: self.attached.saturating_add(more.attached),
            opened: self.opened.saturating_add(more.opened),
        }
    }

    /// So many fewer.
    #[must_use]
    pub const fn minus(self, fewer: Self) -> Self {
        Self {
            attached: self.attached.saturating_sub(fewer.attached),
            opened: self.opened.saturating_sub(fewer.opened),
        }
    }

    /// As many of `wanted` as there are.
    #[must_use]
    pub fn at_most(self, wanted: Self) -> Self {
        Self {
            attached: self.attached.min(wanted.attached),
            opened: self.opened.min(wanted.opened),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_has_the_key_of_a_system_v_object() {
        for key in [0, 1, -1, i32::MIN, i32::MAX] {
            assert_eq!(ObjectKey::of_key(key).system_v(), key);
            assert!(!ObjectKey::of_key(key).is_name());
        }
        for name in [&b""[..], b"a", b"sem.a"] {
            let key = ObjectKey::of_name(name);
            assert!(key.is_name() && key.system_v() == 0);
            assert_eq!(ObjectKey::of_word(key.word()), key);
        }
    }

    #[test]
    fn a_name_cell_comes_back() {
        let longest = ObjectName::Chunk { unit: (1 << 26) - 1, bytes: NAME_BYTES as u32 };
        for name in [ObjectName::SystemV, ObjectName::Unlinked, longest] {
            assert_eq!(ObjectName::unpack(name.pack()), name);
            assert_eq!(ObjectName::is_posix(name.pack()), name != ObjectName::SystemV);
        }
    }

    #[test]
    fn who_asks_for_32_bits_gets_the_attaches() {
        let count = AttachCount { attached: 3, opened: u32::MAX };
        assert_eq!(count.pack() as u32, 3);
        assert_eq!(AttachCount::unpack(count.pack()), count);
        assert_eq!(count.plus(AttachCount::descriptors(1)).opened, u32::MAX);
        assert_eq!(count.minus(AttachCount::ALL_MAPPINGS), AttachCount::descriptors(u32::MAX));
        assert!(count.minus(AttachCount::ALL).is_none());
    }
}
