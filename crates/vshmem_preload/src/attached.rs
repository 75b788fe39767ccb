//! Which addresses of this process are pieces of attached segments.
//!
//! A fixed table without a lock, because shmat and shmdt may be called from signal handlers. An
//! entry is claimed by its state word; the other words are its claimer's until the state says so.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Pieces of one process at most.
const MOST: usize = 16384;

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const USED: u32 = 2;

#[derive(Debug)]
struct Entry {
    state: AtomicU32,
    id: AtomicI32,
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Where the segment's first byte would be: what shmdt is given.
    base: AtomicUsize,
    offset: AtomicU64,
    /// `Rights` as bits.
    rights: AtomicU32,
}

/// What a piece may be used for, and what mprotect may make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// PROT_ bits now.
    pub now: u32,
    /// Whether it may ever be written: not when attached with SHM_RDONLY.
    pub writable: bool,
    /// Whether a forked child has it too: not after MADV_DONTFORK.
    pub inherited: bool,
}

impl Rights {
    const WRITABLE: u32 = 1 << 31;
    const INHERITED: u32 = 1 << 30;

    fn pack(self) -> u32 {
        self.now
            | if self.writable { Self::WRITABLE } else { 0 }
            | if self.inherited { Self::INHERITED } else { 0 }
    }

    fn unpack(bits: u32) -> Self {
        Self {
            now: bits & !(Self::WRITABLE | Self::INHERITED),
            writable: bits & Self::WRITABLE != 0,
            inherited: bits & Self::INHERITED != 0,
        }
    }
}

impl Rights {
    /// Whether reading, or writing, is allowed now.
    pub fn allow(self, write: bool) -> bool {
        let wanted = if write { libc::PROT_WRITE } else { libc::PROT_READ };
        self.now & wanted as u32 != 0
    }
}

/// Rights of the piece at an address, if there is one.
pub fn rights_at(address: usize) -> Option<Rights> {
    let mut found = None;
    each(|piece| {
        if (piece.start..piece.end()).contains(&address) {
            found = Some(piece.rights);
        }
    });
    found
}

/// A mapped piece of a segment. A whole attach is one piece until the program cuts it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub id: i32,
    pub start: usize,
    pub bytes: usize,
    pub base: usize,
    /// Where in the pool the segment begins.
    pub offset: u64,
    pub rights: Rights,
}

impl Piece {
    pub fn end(self) -> usize {
        self.start + self.bytes
    }

    /// Whether it is mapped as a plain attach for loads and stores maps it.
    pub fn is_plain(self) -> bool {
        let plain = libc::PROT_READ as u32 | libc::PROT_WRITE as u32;
        self.rights == Rights { now: plain, writable: true, inherited: true }
    }

    /// Unmaps it, or keeps the mapping for later where the program does not know it.
    pub fn detach(self) {
        if self.is_plain() {
            let offset = self.offset + (self.start - self.base) as u64;
            crate::parked::put_away(offset, self.start, self.bytes);
        } else {
            crate::unmap::drop_mapping(self.start, self.bytes);
        }
    }
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        state: AtomicU32::new(FREE),
        id: AtomicI32::new(0),
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        base: AtomicUsize::new(0),
        offset: AtomicU64::new(0),
        rights: AtomicU32::new(0),
    }
}; MOST];
/// Entries ever used.
static HIGH: AtomicUsize = AtomicUsize::new(0);

/// Adds a piece; false when the table is full.
pub fn add(piece: Piece) -> bool {
    for (index, entry) in ENTRIES.iter().enumerate() {
        let free = entry.state.load(Ordering::Relaxed) == FREE
            && entry
                .state
                .compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if free {
            entry.id.store(piece.id, Ordering::Relaxed);
            entry.start.store(piece.start, Ordering::Relaxed);
            entry.bytes.store(piece.bytes, Ordering::Relaxed);
            entry.base.store(piece.base, Ordering::Relaxed);
            entry.offset.store(piece.offset, Ordering::Relaxed);
            entry.rights.store(piece.rights.pack(), Ordering::Relaxed);
            HIGH.fetch_max(index + 1, Ordering::AcqRel);
            entry.state.store(USED, Ordering::Release);
            return true;
        }
    }
    false
}

/// Takes a piece out that satisfies `wanted`. It is the caller's then.
pub fn take(mut wanted: impl FnMut(Piece) -> bool) -> Option<Piece> {
    for entry in &ENTRIES[..HIGH.load(Ordering::Acquire)] {
        let mine = entry.state.load(Ordering::Acquire) == USED
            && wanted(entry.piece())
            && entry
                .state
                .compare_exchange(USED, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !mine {
            continue;
        }
        let piece = entry.piece();
        // Between the look and the claim it may have become another one.
        if wanted(piece) {
            entry.state.store(FREE, Ordering::Release);
            return Some(piece);
        }
        entry.state.store(USED, Ordering::Release);
    }
    None
}

/// Calls `each` with every piece.
pub fn each(mut each: impl FnMut(Piece)) {
    for entry in &ENTRIES[..HIGH.load(Ordering::Acquire)] {
        if entry.state.load(Ordering::Acquire) == USED {
            each(entry.piece());
        }
    }
}

/// Whether there are none.
pub fn is_empty() -> bool {
    let mut empty = true;
    each(|_| empty = false);
    empty
}

impl Entry {
    fn piece(&self) -> Piece {
        Piece {
            id: self.id.load(Ordering::Relaxed),
            start: self.start.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            base: self.base.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
            rights: Rights::unpack(self.rights.load(Ordering::Relaxed)),
        }
    }
}
