//! Rows of the lock table: which place may grant which file locks of an object, and who asks for
//! more.

use crate::RawCell;

/// Whether a lock may have others beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// F_RDLCK, LOCK_SH.
    Shared,
    /// F_WRLCK, LOCK_EX.
    Exclusive,
}

/// Locks of two classes do not see each other, as in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockClass {
    /// Of fcntl(2): of a process, or of an open file description.
    Record,
    /// Of flock(2).
    Whole,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockRowKind {
    /// A place may grant locks in a range.
    Claim,
    /// A client asks for a claim of its place, or is about to use it.
    Want {
        /// Whether it waits for as long as another place's lock is held.
        blocks: bool,
    },
}

/// What the first word of a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRowHead {
    /// What the row is.
    pub kind: LockRowKind,
    /// Which locks it is about.
    pub class: LockClass,
    /// What may be granted, or is asked for.
    pub mode: LockMode,
    /// Slot of the object.
    pub object: u32,
    /// Domain of the place.
    pub domain: u32,
    /// Boot epoch of that domain, its low [`LockRowHead::EPOCH_BITS`] bits.
    pub epoch: u32,
}

const CLAIM: u64 = 1;
const WANT: u64 = 2;
const KIND: u64 = 3;
const WHOLE: u64 = 4;
const EXCLUSIVE: u64 = 8;
const BLOCKS: u64 = 16;

impl LockRowHead {
    /// Bits of the boot epoch that a row has.
    pub const EPOCH_BITS: u32 = 24;

    /// The boot epoch as a row has it.
    #[must_use]
    pub const fn epoch_of(epoch: u32) -> u32 {
        epoch & ((1 << Self::EPOCH_BITS) - 1)
    }

    /// As a word: never 0, which is a free row.
    #[must_use]
    pub const fn pack(self) -> u64 {
        let kind = match self.kind {
            LockRowKind::Claim => CLAIM,
            LockRowKind::Want { blocks: false } => WANT,
            LockRowKind::Want { blocks: true } => WANT | BLOCKS,
        };
        let class = if matches!(self.class, LockClass::Whole) { WHOLE } else { 0 };
        let mode = if matches!(self.mode, LockMode::Exclusive) { EXCLUSIVE } else { 0 };
        kind | class
            | mode
            | ((self.object & 0xffff) as u64) << 16
            | ((self.domain & 0xff) as u64) << 32
            | (Self::epoch_of(self.epoch) as u64) << 40
    }

    /// From a word; `None` for a free row, and for what is none.
    #[must_use]
    pub const fn unpack(word: u64) -> Option<Self> {
        let kind = match word & KIND {
            CLAIM => LockRowKind::Claim,
            WANT => LockRowKind::Want { blocks: word & BLOCKS != 0 },
            _ => return None,
        };
        Some(Self {
            kind,
            class: if word & WHOLE != 0 { LockClass::Whole } else { LockClass::Record },
            mode: if word & EXCLUSIVE != 0 { LockMode::Exclusive } else { LockMode::Shared },
            object: (word >> 16) as u32 & 0xffff,
            domain: (word >> 32) as u32 & 0xff,
            epoch: (word >> 40) as u32,
        })
    }
}

/// What has become of a want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockAnswer {
    /// Nothing yet.
    Asked,
    /// The client's place has the claim, and keeps it until the row goes.
    Granted,
    /// A lock of this mode is held elsewhere; the row's range is that of this lock.
    Held(LockMode),
}

impl LockAnswer {
    /// As a word.
    #[must_use]
    pub const fn pack(self) -> u64 {
        match self {
            Self::Asked => 0,
            Self::Granted => 1,
            Self::Held(LockMode::Shared) => 2,
            Self::Held(LockMode::Exclusive) => 3,
        }
    }

    /// From a word. What a peer has made up counts as nothing yet.
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        match word {
            1 => Self::Granted,
            2 => Self::Held(LockMode::Shared),
            3 => Self::Held(LockMode::Exclusive),
            _ => Self::Asked,
        }
    }
}

/// A row of the lock table, under the table's lock.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct LockRow {
    /// A [`LockRowHead`]; 0 in a free row.
    pub head: RawCell,
    /// What tells the object from others that have had its slot.
    pub generation: RawCell,
    /// Inode number of the place.
    pub inode: RawCell,
    /// First byte.
    pub start: RawCell,
    /// Last byte.
    pub last: RawCell,
    /// Of a want, the id of the client.
    pub client: RawCell,
    /// Where the place was open: the pid in its domain, and in the low half the number.
    pub file: RawCell,
    /// Of a want, a [`LockAnswer`].
    pub answer: RawCell,
}

const _: () = assert!(size_of::<LockRow>() == 128, "a row is two cache lines");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_row_says_comes_back() {
        let head = LockRowHead {
            kind: LockRowKind::Want { blocks: true },
            class: LockClass::Whole,
            mode: LockMode::Exclusive,
            object: 16383,
            domain: 126,
            epoch: 0xab_cdef,
        };
        assert_eq!(LockRowHead::unpack(head.pack()), Some(head));
        let claim = LockRowHead { kind: LockRowKind::Claim, mode: LockMode::Shared, ..head };
        assert_eq!(LockRowHead::unpack(claim.pack()), Some(claim));
        assert_eq!(LockRowHead::unpack(0), None);
        for answer in [
            LockAnswer::Asked,
            LockAnswer::Granted,
            LockAnswer::Held(LockMode::Shared),
            LockAnswer::Held(LockMode::Exclusive),
        ] {
            assert_eq!(LockAnswer::unpack(answer.pack()), answer);
        }
        assert_eq!(LockAnswer::unpack(77), LockAnswer::Asked);
    }
}
