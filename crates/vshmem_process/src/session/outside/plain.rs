//! Files that were found to run on the pool: to find that out takes thirty system calls, and a
//! program often executes the same few.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::Stat;

/// Files that are remembered.
const MOST: usize = 8;

/// One word each, so that any thread, and a child that runs in its parent's memory, may store it.
static KNOWN: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// All that the answer rests on, as one number: which file, as it was changed last, and who
/// executes it. A file that is changed twice within one tick of the file system's clock is taken
/// for the first one: its program then misses its notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts(u64);

impl Facts {
    /// Those of a file that gives its program no other user or group, executed by this process.
    pub fn of(stat: &Stat) -> Option<Self> {
        let ids = [
            rustix::process::getuid().as_raw(),
            rustix::process::geteuid().as_raw(),
            rustix::process::getgid().as_raw(),
            rustix::process::getegid().as_raw(),
        ];
        Self::with(stat, ids)
    }

    fn with(stat: &Stat, ids: [u32; 4]) -> Option<Self> {
        if stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 {
            return None;
        }
        let [user, effective_user, group, effective_group] = ids.map(u64::from);
        let words = [
            stat.st_dev,
            stat.st_ino,
            stat.st_ctime as u64,
            stat.st_ctime_nsec,
            user << 32 | effective_user,
            group << 32 | effective_group,
        ];
        let mixed = words.into_iter().fold(0u64, |mixed, word| {
            (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        // 0 is none.
        Some(Self(mixed | 1))
    }

    fn place(self) -> &'static AtomicU64 {
        &KNOWN[(self.0 >> 32) as usize % MOST]
    }

    /// Whether it was found out before.
    pub fn are_known(self) -> bool {
        self.place().load(Ordering::Relaxed) == self.0
    }

    /// Remembers it.
    pub fn remember(self) {
        self.place().store(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_and_another_user_are_asked_about_again() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let facts = Facts::with(&stat, [7; 4]).unwrap();
        assert!(!facts.are_known());
        facts.remember();
        assert!(facts.are_known());
        let mut changed = stat;
        changed.st_ctime_nsec ^= 1;
        assert!(!Facts::with(&changed, [7; 4]).unwrap().are_known());
        let mut other = stat;
        other.st_ino += 1;
        assert!(!Facts::with(&other, [7; 4]).unwrap().are_known());
        for nth in 0..4 {
            let mut ids = [7; 4];
            ids[nth] = 8;
            assert!(!Facts::with(&stat, ids).unwrap().are_known(), "{nth}");
        }
        let mut privileged = stat;
        privileged.st_mode |= libc::S_ISUID;
        assert_eq!(Facts::with(&privileged, [7; 4]), None);
    }
}
