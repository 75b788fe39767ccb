//! The word of a lock.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::{Cell, Place, RawCell};

use crate::cell::load_word;
use crate::fault::Fault;

pub(super) const FREE: u32 = 0;
pub(super) const HELD: u32 = 1;
pub(super) const COMMITTED: u32 = 2;

/// The word of a lock taken apart. The cell's tag tells one time that it was taken from any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockWord {
    /// Thread slot of the holder.
    pub(super) holder: u32,
    pub(super) state: u32,
}

impl LockWord {
    #[inline]
    pub(super) fn unpack(word: u64) -> Self {
        Self { holder: (word as u32) >> 2, state: (word as u32) & 3 }
    }

    #[inline]
    pub(super) fn pack(self) -> u64 {
        u64::from(self.holder << 2 | self.state)
    }
}

/// The word of the lock that `seen` is of, in another state.
#[inline]
pub(super) fn in_state(seen: Cell, state: u32) -> u64 {
    LockWord { state, ..LockWord::unpack(seen.word) }.pack()
}

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Thread slot.
    pub slot: u32,
    /// Whether its change has happened and is being carried out.
    pub committed: bool,
}

/// Looks who holds `lock`.
///
/// # Errors
/// When it is outside the pool.
pub fn holder_of(map: &Map, lock: Place<RawCell>) -> Result<Option<LockHolder>, Fault> {
    let word = LockWord::unpack(load_word(map, lock)?);
    Ok(match word.state {
        HELD => Some(LockHolder { slot: word.holder, committed: false }),
        COMMITTED => Some(LockHolder { slot: word.holder, committed: true }),
        _ => None,
    })
}

/// Runs `read` without taking `lock`. Returns what it has found, if the lock was free
/// all the time: no change under it has happened meanwhile, and none is half carried out.
///
/// # Errors
/// When the lock is outside the pool; what `read` returns.
#[inline]
pub fn read_if_free<R>(
    map: &Map,
    lock: Place<RawCell>,
    read: impl FnOnce() -> Result<R, Fault>,
) -> Result<Option<R>, Fault> {
    // The tag first: as long as it is the same, so is the word. Acquires: pairs with HAND-OVER.
    let seen = map.load_to_replace(lock)?;
    if LockWord::unpack(seen.word).state != FREE {
        return Ok(None);
    }
    let found = read()?;
    // Barrier READ: a thread that read what a change has written (by an acquire) sees its COMMIT.
    let tag = map.load(lock.tag(), Ordering::Acquire)?;
    Ok((tag == seen.tag).then_some(found))
}

/// The word of a lock that `slot` holds.
pub(super) fn taken(slot: u32) -> u64 {
    LockWord { holder: slot, state: HELD }.pack()
}
