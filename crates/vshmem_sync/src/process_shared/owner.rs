//! Who holds a lock, as its word says.

use rustix::io::Errno;
use vshmem_wire::ClientId;

/// The bits of a lock's word that say who holds it; the others are the lock's own.
pub(super) const OWNER: u64 = !3;
/// In place of an owner: an inconsistent mutex was unlocked. No client has a slot so high.
pub(super) const NOT_RECOVERABLE: u64 = 0xf_ffff << 2;

/// A thread as the owner of a lock: its client, and its number in the kernel.
///
/// A word has room for the client's slot (20 bits), the thread's number (22 bits, PID_MAX_LIMIT)
/// and the low 20 bits of how often the slot has been taken. These come back after a million
/// clients in one slot; slots are given out in turn. Then a lock whose owner has died would seem to
/// be held until that client ends as well, and its waiters look again at each end of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockOwner(u64);

impl LockOwner {
    const SLOT_AT: u32 = 2;
    const THREAD_AT: u32 = 22;
    const COUNT_AT: u32 = 44;
    const SLOT: u64 = (1 << 20) - 1;
    const THREAD: u64 = (1 << 22) - 1;
    const COUNT: u64 = (1 << 20) - 1;

    /// The thread `thread` (gettid(2)) of a client.
    ///
    /// # Errors
    /// EAGAIN when the process has not joined yet, or the thread has no number.
    pub const fn new(client: ClientId, thread: u32) -> Result<Self, Errno> {
        let Some(slot) = client.slot() else { return Err(Errno::AGAIN) };
        if thread == 0 {
            return Err(Errno::AGAIN);
        }
        let word = (slot as u64 & Self::SLOT) << Self::SLOT_AT
            | (thread as u64 & Self::THREAD) << Self::THREAD_AT
            | (client.count() & Self::COUNT) << Self::COUNT_AT;
        Ok(Self(word))
    }

    /// The owner that the word of a lock names; `None` when none does.
    #[inline]
    #[must_use]
    pub const fn of(word: u64) -> Option<Self> {
        if word & OWNER == 0 || word & OWNER == NOT_RECOVERABLE {
            None
        } else {
            Some(Self(word & OWNER))
        }
    }

    /// The bits of a lock's word.
    #[inline]
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The slot of its client.
    #[inline]
    #[must_use]
    pub const fn slot(self) -> u32 {
        (self.0 >> Self::SLOT_AT & Self::SLOT) as u32
    }

    /// The thread's number.
    #[inline]
    #[must_use]
    pub const fn thread(self) -> u32 {
        (self.0 >> Self::THREAD_AT & Self::THREAD) as u32
    }

    /// Whether this is a thread of the client that has taken its slot so many times.
    #[inline]
    #[must_use]
    pub const fn is_of(self, taken: u64) -> bool {
        self.0 >> Self::COUNT_AT == taken & Self::COUNT
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_its_client_and_its_thread() {
        let client = ClientId::new(0xf_fffe, (1 << 43) - 1);
        let owner = LockOwner::new(client, (1 << 22) - 1).unwrap();
        assert_eq!((owner.slot(), owner.thread()), (0xf_fffe, (1 << 22) - 1));
        assert!(owner.is_of(client.count()) && !owner.is_of(client.count() - 1));
        assert_eq!(owner.word() & !OWNER, 0);
        assert_eq!(LockOwner::of(owner.word() | 3), Some(owner));
        assert_eq!(LockOwner::of(0), None);
        assert_eq!(LockOwner::new(ClientId::joining(1, 2), 3), Err(Errno::AGAIN));
        assert_eq!(LockOwner::new(client, 0), Err(Errno::AGAIN));
    }
}
