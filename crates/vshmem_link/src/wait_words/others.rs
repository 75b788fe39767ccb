//! The files of other users, mapped for the kernel alone: what it takes to wake their threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use vshmem_mem::{ForeignWords, SLEEPING, unless_confined};
use vshmem_sync::{WakeOtherUsers, WordsOwner};

use super::names::Names;

/// The files of a pool's wait words in this domain.
#[derive(Debug)]
pub struct Files {
    pub(super) names: Names,
    others: Others,
}

impl Files {
    /// Files of these names, none of them mapped yet.
    pub(super) fn new(names: Names) -> Self {
        Self { names, others: Others::new() }
    }

    /// Another user's file.
    fn open_other(&self, owner: WordsOwner) -> Option<OwnedFd> {
        let mut room = [0u8; 512];
        let path = self.names.path_in(owner, &mut room)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        self.names.is_words_of(&stat, owner.uid).then_some(file)
    }

    /// Uses another user's words: mapped once, or for this time where there is no room to keep
    /// them.
    fn with_other(&self, owner: WordsOwner, use_them: impl FnOnce(&ForeignWords)) {
        if let Some(start) = self.others.find(owner) {
            return use_them(&ForeignWords::mapped_at(start, self.names.bytes));
        }
        let Some(file) = unless_confined(|| self.open_other(owner)).flatten() else { return };
        let Ok(words) = ForeignWords::map(file.as_fd(), self.names.bytes) else { return };
        use_them(&words);
        if !self.others.keep(owner, words.start()) {
            words.unmap();
        }
    }
}

impl WakeOtherUsers for Files {
    fn wake(&self, owner: WordsOwner, slot: u32) {
        /// A waiter that has announced itself and is not asleep yet may have looked before the
        /// change was made. It is about to sleep, so this is enough, unless it was preempted just
        /// there: then it looks by itself a second later.
        const TIMEOUT: u32 = 32;
        let at = slot as usize * 4;
        // After the change that the notification is for.
        fence(Ordering::SeqCst);
        self.with_other(owner, |words| {
            for _ in 0..TIMEOUT {
                if words.wake(at) != Ok(0) {
                    return;
                }
                match unless_confined(|| words.read(at)) {
                    // It is awake and will look; or the process whose file this was has ended.
                    Some(Ok(word)) if word & SLEEPING == 0 => return,
                    Some(Err(Errno::FAULT | Errno::INVAL)) => return,
                    // It may be about to sleep. So it may where a filter does not let us look.
                    _ => rustix::thread::sched_yield(),
                }
            }
        });
    }
}

/// Words of other users that stay mapped. Takes no lock: it is used in signal handlers, and by
/// children of fork.
#[derive(Debug)]
struct Others([Other; Self::ROOM]);

#[derive(Debug)]
struct Other {
    /// Whose: 0 for none.
    key: AtomicU64,
    /// Where: 0 until it is known.
    start: AtomicUsize,
}

impl Others {
    const ROOM: usize = 64;

    fn new() -> Self {
        Self(std::array::from_fn(|_| Other { key: AtomicU64::new(0), start: AtomicUsize::new(0) }))
    }

    fn key(owner: WordsOwner) -> u64 {
        (u64::from(owner.uid) + 1) << 32 | u64::from(owner.nonce)
    }

    fn find(&self, owner: WordsOwner) -> Option<usize> {
        let key = Self::key(owner);
        for other in &self.0 {
            match other.key.load(Ordering::Acquire) {
                0 => return None,
                found if found == key => {
                    let start = other.start.load(Ordering::Acquire);
                    return (start != 0).then_some(start);
                }
                _ => {}
            }
        }
        None
    }

    /// False: there is no room, or it is there already.
    fn keep(&self, owner: WordsOwner, start: usize) -> bool {
        let key = Self::key(owner);
        for other in &self.0 {
            match other.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    other.start.store(start, Ordering::Release);
                    return true;
                }
                Err(found) if found == key => return false,
                Err(_) => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_users_than_there_is_room_for_are_notified_as_well() {
        let others = Others::new();
        let owner = |uid| WordsOwner { uid, nonce: 0 };
        for uid in 0..Others::ROOM as u32 {
            assert_eq!(others.find(owner(uid)), None);
            assert!(others.keep(owner(uid), 4096 + uid as usize));
            assert!(!others.keep(owner(uid), 1), "twice");
        }
        assert!(!others.keep(owner(1000), 1));
        assert_eq!(others.find(owner(1000)), None);
        assert_eq!(others.find(owner(63)), Some(4096 + 63));
    }
}
