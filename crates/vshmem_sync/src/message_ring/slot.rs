//! A slot of the ring: the bits of its word, filling it and taking from it.

use vshmem_mem::{Map, Ordering, fence};
use vshmem_wire::{
    CELL_BYTES, Cell, MAX_SLABS, Place, RING_INLINE_BYTES, RING_INLINE_TYPE_BITS, RING_SLOTS,
    RawCell, SLAB_BYTES, UNIT_BYTES,
};

use crate::fault::Fault;

/// The chunk in the low bits is a message.
pub(super) const FULL: u64 = 1 << 26;
/// Only a change under the lock may replace the word.
pub(super) const CLOSED: u64 = 1 << 27;
/// Unit of the chunk plus one: that of the message; when free, of the message last taken.
pub(super) const CHUNK: u64 = FULL - 1;
const _: () =
    assert!(MAX_SLABS * (SLAB_BYTES / UNIT_BYTES) < CHUNK, "a word has room for every unit");
/// Of a full slot: this message, or one that was in the ring when it was sent, is longer than those
/// for which there is always room.
pub(super) const LARGE: u64 = 1 << 28;
/// Of a free slot: all messages before the one that was taken last had been taken by then.
pub(super) const OLDEST: u64 = LARGE;
/// The message lies in the cell: its type and size are where others have their chunk.
pub(super) const INLINE: u64 = 1 << 29;
pub(super) const INLINE_TYPE: u64 = (1 << RING_INLINE_TYPE_BITS) - 1;
pub(super) const INLINE_SIZE: u64 = CHUNK >> RING_INLINE_TYPE_BITS;
const _: () = assert!(INLINE_SIZE >= RING_INLINE_BYTES as u64, "a word has room for every size");
/// Added for the next lap.
pub(super) const LAP: u64 = 1 << LAP_SHIFT;
pub(super) const LAP_SHIFT: u32 = 30;
pub(super) const LAP_BITS: u32 = 64 - LAP_SHIFT;
/// Positions of a ring of `slots` slots are counted modulo so many.
pub(super) const fn positions(slots: usize) -> u64 {
    (slots as u64) << LAP_BITS
}

/// How many laps `word` is ahead of `origin`. Laps go round; those of one ring are close together.
pub(super) fn laps_from(origin: u64, word: u64) -> i64 {
    // The shift up makes the highest bit of a lap the sign.
    let ahead = (word & !(LAP - 1)).wrapping_sub(origin & !(LAP - 1));
    ahead.cast_signed() >> LAP_SHIFT
}

/// A message that lies in the cell of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    kind: u32,
    size: u32,
    payload: u64,
}

impl Inline {
    /// A message, if it is one that fits into a slot.
    #[inline]
    #[must_use]
    pub fn of(kind: i64, payload: &[u8]) -> Option<Self> {
        if payload.len() > RING_INLINE_BYTES || kind as u64 > INLINE_TYPE {
            return None;
        }
        let whole: Result<[u8; RING_INLINE_BYTES], _> = payload.try_into();
        let word = match whole {
            Ok(whole) => u64::from_le_bytes(whole),
            Err(_) => payload.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Some(Self { kind: kind as u32, size: payload.len() as u32, payload: word })
    }
}

/// A slot of a ring of `N` slots, and what its word said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSlot<const N: usize = RING_SLOTS> {
    /// Its cell.
    pub at: Place<RawCell>,
    /// The word.
    pub word: u64,
    pub(super) index: usize,
    /// All messages before this one have been taken.
    pub(super) is_oldest: bool,
}

impl<const N: usize> RingSlot<N> {
    /// The number of the slot.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// Where its ring begins.
    #[inline]
    #[must_use]
    pub fn base(self) -> Place<[RawCell; N]> {
        Place::at(self.at.offset().wrapping_sub(self.index as u64 * CELL_BYTES))
    }

    /// The position that the slot is free for or full with.
    #[inline]
    #[must_use]
    pub fn position(self) -> u64 {
        (self.word >> LAP_SHIFT) * N as u64 + self.index as u64
    }

    /// The position that was taken from the slot last.
    #[inline]
    #[must_use]
    pub fn former_position(self) -> u64 {
        self.position().wrapping_sub(N as u64) % positions(N)
    }

    /// Unit of the chunk of the message, or of the one that was taken last.
    #[inline]
    #[must_use]
    pub fn chunk(self) -> Option<u32> {
        if self.is_inline() { None } else { ((self.word & CHUNK) as u32).checked_sub(1) }
    }

    /// Whether the message lies in the slot itself.
    #[inline]
    #[must_use]
    pub fn is_inline(self) -> bool {
        self.word & INLINE != 0
    }

    /// Type and size of a message that lies in the slot itself.
    #[inline]
    #[must_use]
    pub fn inline(self) -> Option<(i64, usize)> {
        let size = self.word >> RING_INLINE_TYPE_BITS & INLINE_SIZE;
        // More only a peer has written.
        let size = (size as usize).min(RING_INLINE_BYTES);
        self.is_inline().then_some(((self.word & INLINE_TYPE) as i64, size))
    }

    /// The payload of such a message, and what follows it. It is that of this message if the word
    /// is the same afterwards.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline]
    pub fn inline_payload(self, map: &Map) -> Result<[u8; RING_INLINE_BYTES], Fault> {
        Ok(map.load(self.at.tag(), Ordering::Acquire)?.to_le_bytes())
    }

    /// The cell that holds the word, for a change under the lock. Only such changes raise its tag.
    ///
    /// # Errors
    /// When it is outside the pool.
    pub fn cell(self, map: &Map) -> Result<Cell, Fault> {
        Ok(Cell { word: self.word, tag: map.load(self.at.tag(), Ordering::Acquire)? })
    }

    /// Whether there is a message in it.
    #[inline]
    #[must_use]
    pub fn is_full(self) -> bool {
        self.word & FULL != 0
    }

    /// Of a free slot: whether all messages before the one that was taken last had been taken by
    /// then.
    #[inline]
    #[must_use]
    pub fn was_oldest(self) -> bool {
        self.word & OLDEST != 0
    }

    /// Whether only a change under the lock may fill or empty the slot.
    #[inline]
    #[must_use]
    pub fn is_closed(self) -> bool {
        self.word & CLOSED != 0
    }

    /// Whether the message, or one that was in the ring when it was sent, is marked as longer than
    /// those for which there is always room.
    #[must_use]
    pub fn is_large(self) -> bool {
        self.word & LARGE != 0
    }

    /// The slot after its message was taken.
    #[must_use]
    #[inline]
    pub fn taken(self) -> Self {
        let gone = if self.is_inline() { FULL | LARGE | INLINE | CHUNK } else { FULL | LARGE };
        let free = self.word.wrapping_add(LAP) & !gone;
        Self { word: if self.is_oldest { free | OLDEST } else { free }, ..self }
    }

    /// The open word of a slot whose own message lies in the chunk at `unit` now.
    #[must_use]
    pub(super) fn moved_to(self, unit: u32) -> u64 {
        let kept = self.word & !(CHUNK | LARGE | INLINE | CLOSED);
        kept | FULL | ((u64::from(unit) + 1) & CHUNK)
    }

    /// Puts the message in the chunk at `unit` here; says whether that has happened. `is_large`:
    /// it, or another in the ring, is longer than those for which there is always room.
    ///
    /// # Errors
    /// When the word is outside the pool.
    #[inline(always)]
    pub fn fill(self, map: &Map, unit: u32, is_large: bool) -> Result<bool, Fault> {
        let mark = if is_large { FULL | LARGE } else { FULL };
        let full = (self.word & !(CHUNK | LARGE)) | mark | ((u64::from(unit) + 1) & CHUNK);
        // Barrier FILL: pairs with the acquire of the words in `refresh`.
        Ok(map.replace(self.at.word(), self.word, full)?)
    }

    /// Puts a message into the slot itself; says whether that has happened. `is_large`: another in
    /// the ring is longer than those for which there is always room.
    ///
    /// # Errors
    /// When the cell is outside the pool.
    #[inline(always)]
    pub fn fill_inline(self, map: &Map, message: Inline, is_large: bool) -> Result<bool, Fault> {
        let what = u64::from(message.size) << RING_INLINE_TYPE_BITS | u64::from(message.kind);
        let mark = if is_large { FULL | LARGE } else { FULL };
        let word = (self.word & !(CHUNK | LARGE)) | mark | INLINE | what;
        let full = Cell { word, tag: message.payload };
        // Barrier FILL, as above.
        Ok(map.replace_pair(self.at, self.cell(map)?, full)?)
    }

    /// Takes the message; says whether that has happened.
    ///
    /// # Errors
    /// When the word is outside the pool.
    #[inline(always)]
    pub fn take(self, map: &Map) -> Result<bool, Fault> {
        // Barrier TAKE: pairs with the acquire of the words in `refresh`.
        Ok(map.replace(self.at.word(), self.word, self.taken().word)?)
    }

    /// Whether the word is another one now. To be asked after messages have been looked at.
    #[inline]
    #[must_use]
    pub fn has_moved(self, map: &Map) -> bool {
        // Barrier TAIL: after whatever was read of the messages. Pairs with FILL.
        fence(Ordering::Acquire);
        !map.load(self.at.word(), Ordering::Acquire).is_ok_and(|word| word == self.word)
    }
}
