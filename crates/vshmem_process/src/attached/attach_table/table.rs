//! A table of pieces without a lock for those who look, because shmat and shmdt may be called from
//! signal handlers, and a check of an address must not wait.
//!
//! An entry is claimed by its state word, which also counts how often it has changed hands: a
//! thread that reads an entry sees by that whether all its words are of one piece.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use super::piece::{Piece, Rights};

/// There is no entry left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const USED: u64 = 2;
/// The low bits of a state word; the others count.
const KIND: u64 = 3;
const TURN: u64 = 4;

#[derive(Debug)]
struct Entry {
    state: AtomicU64,
    id: AtomicI32,
    attach: AtomicU32,
    start: AtomicUsize,
    bytes: AtomicUsize,
    base: AtomicUsize,
    offset: AtomicU64,
    whole: AtomicUsize,
    rights: AtomicU32,
}

impl Entry {
    const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            id: AtomicI32::new(0),
            attach: AtomicU32::new(0),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            offset: AtomicU64::new(0),
            whole: AtomicUsize::new(0),
            rights: AtomicU32::new(0),
        }
    }

    /// The piece of an entry that is used, with the state that says so.
    fn snapshot(&self) -> Option<(u64, Piece)> {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state & KIND != USED {
                return None;
            }
            let piece = Piece {
                id: self.id.load(Ordering::Relaxed),
                attach: self.attach.load(Ordering::Relaxed),
                start: self.start.load(Ordering::Relaxed),
                bytes: self.bytes.load(Ordering::Relaxed),
                base: self.base.load(Ordering::Relaxed),
                offset: self.offset.load(Ordering::Relaxed),
                whole: self.whole.load(Ordering::Relaxed),
                rights: Rights::unpack(self.rights.load(Ordering::Relaxed)),
            };
            fence(Ordering::Acquire);
            if self.state.load(Ordering::Relaxed) == state {
                return Some((state, piece));
            }
        }
    }

    /// Writes a piece into an entry that was free in `state`; false when another thread has it.
    fn fill(&self, state: u64, piece: Piece) -> bool {
        if self
            .state
            .compare_exchange(state, state | CLAIMED, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // A thread that sees one of the words below sees that the entry is claimed.
        fence(Ordering::Release);
        self.id.store(piece.id, Ordering::Relaxed);
        self.attach.store(piece.attach, Ordering::Relaxed);
        self.start.store(piece.start, Ordering::Relaxed);
        self.bytes.store(piece.bytes, Ordering::Relaxed);
        self.base.store(piece.base, Ordering::Relaxed);
        self.offset.store(piece.offset, Ordering::Relaxed);
        self.whole.store(piece.whole, Ordering::Relaxed);
        self.rights.store(piece.rights.pack(), Ordering::Relaxed);
        self.state.store(state | USED, Ordering::Release);
        true
    }
}

/// Pieces, `MOST` of them at most.
#[derive(Debug)]
pub struct Table<const MOST: usize> {
    entries: [Entry; MOST],
    /// Entries ever used.
    high: AtomicUsize,
    /// Where the next free entry may be.
    hint: AtomicUsize,
}

impl<const MOST: usize> Default for Table<MOST> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const MOST: usize> Table<MOST> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            entries: [const { Entry::new() }; MOST],
            high: AtomicUsize::new(0),
            hint: AtomicUsize::new(0),
        }
    }

    fn used(&self) -> &[Entry] {
        &self.entries[..self.high.load(Ordering::Acquire).min(MOST)]
    }

    /// Adds a piece.
    pub fn add(&self, piece: Piece) -> Result<(), TooMany> {
        let first = self.hint.load(Ordering::Relaxed).min(MOST);
        for index in (first..MOST).chain(0..first) {
            let entry = &self.entries[index];
            let state = entry.state.load(Ordering::Relaxed);
            if state & KIND == FREE && entry.fill(state, piece) {
                self.high.fetch_max(index + 1, Ordering::AcqRel);
                self.hint.store(index + 1, Ordering::Relaxed);
                return Ok(());
            }
        }
        Err(TooMany)
    }

    /// Takes a piece out that satisfies `wanted`. It is the caller's then.
    pub fn take(&self, mut wanted: impl FnMut(Piece) -> bool) -> Option<Piece> {
        for (index, entry) in self.used().iter().enumerate() {
            while let Some((state, piece)) = entry.snapshot() {
                if !wanted(piece) {
                    break;
                }
                // The next turn of the entry is another one's, whatever it says.
                let free = (state & !KIND).wrapping_add(TURN);
                if entry
                    .state
                    .compare_exchange(state, free, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    self.hint.fetch_min(index, Ordering::Relaxed);
                    return Some(piece);
                }
            }
        }
        None
    }

    /// Calls `each` with every piece.
    pub fn each(&self, mut each: impl FnMut(Piece)) {
        for entry in self.used() {
            if let Some((_, piece)) = entry.snapshot() {
                each(piece);
            }
        }
    }

    /// A piece that satisfies `wanted`; it stays where it is.
    pub fn find(&self, mut wanted: impl FnMut(Piece) -> bool) -> Option<Piece> {
        self.used().iter().find_map(|entry| {
            entry.snapshot().map(|(_, piece)| piece).filter(|&piece| wanted(piece))
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.used().iter().all(|entry| entry.snapshot().is_none())
    }
}
