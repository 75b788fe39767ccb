//! What of a program's IPC lies in the pool: the words of `vshmem run --share`.

use std::fmt;

use vshmem_ipc::Kind;

/// The library that answers all calls.
pub const PRELOAD_LIBRARY: &str = "libvshmem_preload.so";
/// The one without the calls by which a program asks which process or which host it is.
pub const POSIX_PRELOAD_LIBRARY: &str = "libvshmem_preload_posix.so";
/// The one that answers System V's alone.
pub const SYSV_PRELOAD_LIBRARY: &str = "libvshmem_preload_sysv.so";

/// Whether a word of LD_PRELOAD names one of them, of whatever build.
pub fn is_preload_library(word: &[u8]) -> bool {
    let name = word.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    [PRELOAD_LIBRARY, POSIX_PRELOAD_LIBRARY, SYSV_PRELOAD_LIBRARY]
        .iter()
        .any(|one| one.as_bytes() == name)
}

/// Which kinds and which keys lie in the pool; the rest is the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Of the objects of each kind.
    owners: [Owner; 3],
    posix: [bool; 4],
    /// Inclusive ranges of keys as the bits that they are.
    keys: Vec<(u32, u32)>,
    /// What the names of POSIX objects begin with; none: all names.
    prefixes: Vec<Vec<u8>>,
}

/// The kinds of POSIX IPC that can lie in the pool: all objects of a kind, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posix {
    /// Shared memory objects: shm_open(3).
    SharedMemory,
    /// Semaphores: those of sem_open(3), and those that sem_init(3) makes in the pool's memory.
    Semaphore,
    /// Message queues: mq_open(3).
    Queue,
    /// Mutexes, condition variables, read-write locks and barriers that are shared between
    /// processes and made in the pool's memory. Spinlocks need nothing: libc's work there as they
    /// are.
    Lock,
}

/// Whose the objects of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// All are the pool's.
    Pool,
    /// All are the kernel's.
    Kernel,
    /// The pool's or the kernel's, by their key.
    ByKey,
}

/// A word of `--share` that means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareError {
    word: String,
    reason: &'static str,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.word, self.reason)
    }
}

impl std::error::Error for ShareError {}

impl Default for Share {
    fn default() -> Self {
        Self { owners: [Owner::Pool; 3], ..Self::nothing() }
    }
}

impl Share {
    const fn nothing() -> Self {
        Self {
            owners: [Owner::Kernel; 3],
            posix: [false; 4],
            keys: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    /// Reads words with commas between them. Of System V: `all`, or some of `shm`, `sem`, `msg` and
    /// `key=LO-HI`; of POSIX: `posix`, or some of `posix-shm`, `posix-sem`, `mq` and `pthread`;
    /// `posix=PREFIX` is `posix` for the objects whose names begin so.
    ///
    /// # Errors
    /// The first word that is none of these, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ShareError> {
        let mut share = Self::nothing();
        for word in text.split(',') {
            match word {
                "all" => share.owners = [Owner::Pool; 3],
                "shm" => share.owners[Kind::Segment as usize] = Owner::Pool,
                "sem" => share.owners[Kind::Semaphore as usize] = Owner::Pool,
                "msg" => share.owners[Kind::Queue as usize] = Owner::Pool,
                "posix" => share.posix = [true; 4],
                "posix-shm" => share.posix[Posix::SharedMemory as usize] = true,
                "posix-sem" => share.posix[Posix::Semaphore as usize] = true,
                "mq" => share.posix[Posix::Queue as usize] = true,
                "pthread" => share.posix[Posix::Lock as usize] = true,
                other => {
                    let reason = |reason| ShareError { word: other.to_owned(), reason };
                    share.add(other).map_err(reason)?;
                }
            }
        }
        if !share.keys.is_empty() {
            for owner in share.owners.iter_mut().filter(|owner| **owner == Owner::Kernel) {
                *owner = Owner::ByKey;
            }
        }
        Ok(share)
    }

    /// A word with a value.
    fn add(&mut self, word: &str) -> Result<(), &'static str> {
        if let Some(range) = word.strip_prefix("key=") {
            self.keys.push(range_of(range)?);
        } else if let Some(prefix) = word.strip_prefix("posix=") {
            self.posix = [true; 4];
            self.prefixes.push(prefix_of(prefix)?);
        } else {
            return Err(NO_WORD);
        }
        Ok(())
    }

    /// Whose the objects of a kind are.
    #[must_use]
    pub fn owner(&self, kind: Kind) -> Owner {
        self.owners[kind as usize]
    }

    /// Whether the pool has what POSIX calls so.
    #[must_use]
    pub fn has(&self, what: Posix) -> bool {
        self.posix[what as usize]
    }

    /// Whether a POSIX object of this name, without its slash, is the pool's to have.
    #[must_use]
    pub fn takes_name(&self, name: &[u8]) -> bool {
        self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Whether the pool has anything of POSIX's.
    #[must_use]
    pub fn has_posix(&self) -> bool {
        self.posix.contains(&true)
    }

    /// The same of System V, and nothing of POSIX's.
    #[must_use]
    pub fn without_posix(self) -> Self {
        Self { posix: [false; 4], ..self }
    }

    /// Whether an object of this kind and key is the pool's. IPC_PRIVATE is no key: it lies in no
    /// range.
    #[must_use]
    pub fn takes(&self, kind: Kind, key: i32) -> bool {
        let bits = key as u32;
        self.owner(kind) == Owner::Pool
            || (key != 0 && self.keys.iter().any(|(low, high)| (*low..=*high).contains(&bits)))
    }

    /// Whether a kind has objects both in the pool and in the kernel: then their ids must differ.
    #[must_use]
    pub fn mixes(&self) -> bool {
        Kind::ALL.iter().any(|kind| self.owner(*kind) == Owner::ByKey)
    }
}

const NO_WORD: &str = "is none of all, shm, sem, msg, key=LO-HI, posix, posix=PREFIX, posix-shm, \
                       posix-sem, mq and pthread";

/// The beginning of names, whose slash may be left out.
fn prefix_of(text: &str) -> Result<Vec<u8>, &'static str> {
    match text.strip_prefix('/').unwrap_or(text) {
        "" => Err("names no beginning of names: say posix for all"),
        prefix if prefix.contains('/') => Err("has a slash inside: names have none"),
        prefix => Ok(prefix.as_bytes().to_vec()),
    }
}

/// `LO-HI` as bits of a key_t: decimal or 0x, from -2147483648 to 4294967295.
fn range_of(text: &str) -> Result<(u32, u32), &'static str> {
    // A minus at the beginning is a sign.
    let dash = text.char_indices().skip(1).find(|(_, c)| *c == '-').map(|(at, _)| at);
    let Some((low, high)) = dash.map(|at| (&text[..at], &text[at + 1..])) else {
        return Err("is no range of keys: say key=LO-HI, for a single key key=K-K");
    };
    let (Some(low), Some(high)) = (key_of(low), key_of(high)) else {
        return Err("has a bound that is no key: a key is decimal or 0x... and has 32 bits");
    };
    if low.is_negative() != high.is_negative() {
        return Err("goes from below zero to above: say it as two ranges");
    }
    if low > high {
        return Err("ends before it begins");
    }
    Ok((low as u32, high as u32))
}

fn key_of(text: &str) -> Option<i64> {
    // from_str_radix allows a sign here; a key does not have one.
    if text.starts_with('+') || text.starts_with("0x+") || text.starts_with("0x-") {
        return None;
    }
    let key = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => i64::from(u32::from_str_radix(digits, 16).ok()?),
        None => text.parse().ok()?,
    };
    (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&key).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(text: &str) -> [Owner; 3] {
        let share = Share::parse(text).unwrap();
        Kind::ALL.map(|kind| share.owner(kind))
    }

    #[test]
    fn kinds_are_whole_or_not_at_all() {
        use Owner::{ByKey, Kernel, Pool};
        assert_eq!(owners("all"), [Pool; 3]);
        assert_eq!(owners("shm,sem,msg"), [Pool; 3]);
        assert_eq!(owners("sem"), [Kernel, Pool, Kernel]);
        assert_eq!(owners("msg,shm,shm"), [Pool, Kernel, Pool]);
        assert_eq!(owners("shm,key=1-9"), [Pool, ByKey, ByKey]);
        assert_eq!(owners("key=1-9,all"), [Pool; 3]);
        assert!(!Share::parse("all,key=1-9").unwrap().mixes());
        assert!(Share::parse("shm,sem,key=1-9").unwrap().mixes());
    }

    #[test]
    fn what_is_of_posix_is_named_beside_what_is_of_system_v() {
        use Posix::{Lock, Queue, Semaphore, SharedMemory};
        let has = |text: &str| {
            let share = Share::parse(text).unwrap();
            [SharedMemory, Semaphore, Queue, Lock].map(|what| share.has(what))
        };
        assert_eq!(has("all"), [false; 4], "all is what it was: System V's");
        assert_eq!(has("all,key=1-9"), [false; 4]);
        assert_eq!(has("posix"), [true; 4]);
        assert_eq!(has("posix-shm"), [true, false, false, false]);
        assert_eq!(has("shm,posix-sem"), [false, true, false, false]);
        assert_eq!(has("mq,mq"), [false, false, true, false]);
        assert_eq!(has("pthread,posix-sem"), [false, true, false, true]);
        assert_eq!(has("mq,posix,all"), [true; 4]);
        for (text, posix) in [("all", false), ("shm,key=1-9", false), ("all,mq", true)] {
            let share = Share::parse(text).unwrap();
            assert_eq!(share.has_posix(), posix, "{text}");
            assert!(!share.without_posix().has_posix());
        }
        assert_eq!(owners("posix"), [Owner::Kernel; 3]);
        assert_eq!(owners("all,posix"), [Owner::Pool; 3]);
        assert_eq!(owners("posix-shm,sem"), [Owner::Kernel, Owner::Pool, Owner::Kernel]);
        assert!(!Share::parse("all,posix").unwrap().mixes());
        assert!(Share::parse("posix,key=1-9").unwrap().mixes());
        assert!(!Share::default().has(SharedMemory));
    }

    #[test]
    fn names_may_be_restricted_to_some_beginnings() {
        let share = Share::parse("all,posix=/one,posix=two").unwrap();
        for (name, taken) in [("one", true), ("one-more", true), ("twos", true), ("on", false)] {
            assert_eq!(share.takes_name(name.as_bytes()), taken, "{name}");
        }
        assert!(share.has(Posix::Lock) && share.has(Posix::Queue));
        assert!(Share::parse("posix").unwrap().takes_name(b"any"));
        assert!(Share::parse("posix,posix=a").unwrap().takes_name(b"ab"));
        assert!(!Share::parse("posix,posix=a").unwrap().takes_name(b"b"));
    }

    #[test]
    fn keys_are_taken_from_edge_to_edge() {
        let share = Share::parse("key=0x10-0x20,key=24-40,key=50-50").unwrap();
        for (key, taken) in [(15, false), (16, true), (40, true), (41, false), (50, true)] {
            assert_eq!(share.takes(Kind::Queue, key), taken, "{key}");
        }
        let all = Share::parse("key=0-0xffffffff").unwrap();
        assert!(all.takes(Kind::Segment, -1) && all.takes(Kind::Segment, i32::MIN));
        assert!(!all.takes(Kind::Segment, 0), "IPC_PRIVATE is no key");
    }

    #[test]
    fn keys_below_zero_are_the_upper_half() {
        let share = Share::parse("key=-100--51").unwrap();
        for (key, taken) in [(-101, false), (-100, true), (-51, true), (-50, false), (75, false)] {
            assert_eq!(share.takes(Kind::Segment, key), taken, "{key}");
        }
        assert_eq!(share, Share::parse("key=0xffffff9c-0xffffffcd").unwrap());
        assert_eq!(share, Share::parse("key=4294967196-4294967245").unwrap());
    }

    #[test]
    fn other_words_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "none of all"),
            ("shn", "none of all"),
            ("shm,", "none of all"),
            ("shm, sem", "none of all"),
            ("SHM", "none of all"),
            ("key", "none of all"),
            ("posix-msg", "none of all"),
            ("posix-", "none of all"),
            ("posix=", "no beginning"),
            ("posix=/", "no beginning"),
            ("posix=a/b", "slash"),
            ("key=", "no range"),
            ("key=5", "no range"),
            ("key=-5", "no range"),
            ("key=9-1", "ends before"),
            ("key=-1--9", "ends before"),
            ("key=-5-5", "two ranges"),
            ("key=a-b", "no key"),
            ("key=1-", "no key"),
            ("key=--1", "no key"),
            ("key=+1-2", "no key"),
            ("key=0x-0x1", "no key"),
            ("key=1-0x100000000", "no key"),
            ("key=-2147483649--1", "no key"),
            ("key=1-2-3", "no key"),
        ] {
            let said = Share::parse(text).unwrap_err().to_string();
            assert!(said.contains(reason), "{text}: {said}");
        }
    }
}
