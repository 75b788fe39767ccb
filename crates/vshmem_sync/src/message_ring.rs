//! A ring of eight message slots that is worked without a lock.
//!
//! # The words
//! A slot is a cell, and what follows is about its word. Sending and receiving replace the word alone, by a compare-and-swap of 8 bytes:
//! the position in it tells one time from another. A change under the lock also raises the tag, as with any cell.
//!
//! Messages are counted through: the one at *position* p lies in slot p mod 8, and that slot's word
//! says, with the *lap* p / 8, whether p is still free or full. Taking the message makes the slot
//! free for p + 8. So a word never comes back, and a compare-and-swap from an old one fails.
//!
//! # Short texts
//! A message of up to 8 bytes whose type has up to 22 bits lies in the slot itself: type and size in the word, where others
//! have their chunk, and the text in the other half of the cell. Word and text are replaced together, by a compare-and-swap of 16
//! bytes: no reader sees one without the other, and a sender that is stopped leaves nothing half written, as it would in a
//! text of its own that is longer than that. The text stays there when the message has been taken, and means nothing then. Whatever else
//! replaces the word leaves the other half as it is, or raises it by one as a tag; as no word comes back, no cell does.
//!
//! # Order
//! A sender fills the lowest position that has not been filled yet, the *tail*. A receiver takes the lowest position whose
//! message it accepts, be there others before it. Both read all words first, one after the other. What they conclude about the
//! *other* slots (positions before this one have been filled, or taken) stays true for ever; what they conclude about this one the
//! compare-and-swap proves. Which is the commit: a message is sent when its slot is full and received when the slot is free
//! again, and nothing is left to be done by anybody.
//!
//! # Taking a message that is not the oldest
//! A receiver that takes position p has to know that no message before p is one that it accepts. It looks at the positions
//! below the tail that it has read, in order, and takes the first whose message it accepts:
//! * Each position below that tail had been filled when the words were read, since the lowest that had not is the tail. So no
//!   message comes to lie before p any more.
//! * One whose word said that it was taken stays taken.
//! * One whose word said that it was full is either full still, and then the type that was read after the word is that
//!   of its message, as nobody writes into the chunk of a message in the ring; or it has been taken, and what was read does not matter.
//!
//! So when the compare-and-swap on p succeeds, there is no message before p that the receiver accepts. That holds for whatever is
//! decided by looking at one message at a time: any, one type, any type but one. It does not hold for the lowest of several
//! types: a lower one may come behind p before the swap. Only of the lowest type of all, 1, the first is right whatever follows.
//!
//! For the same reasons there is none at all if it accepts none below the tail, and the tail's word is the same *after* the types
//! were read: nothing has been filled since. That one word is what a waiter watches: whatever is sent, and whoever
//! closes the ring, changes it first. (If all slots are full, the tail's holds the oldest message.)
//!
//! # Closing
//! Whoever wants to work under the queue's lock closes the ring: the slot of the tail first. If it is free, it becomes a
//! barrier that no sender passes; if it is full, its message cannot be taken any more, so it does not become free. The tail stays
//! where it is from then on. Then all other full slots: what is marked as closed cannot be taken. With that the ring stands still (is
//! *frozen*). Only a change under the lock opens it again, at the next position, so that whoever has been stopped since
//! before it was closed fails. Who meets a closed slot concludes nothing and goes under the lock as well.
//!
//! Whoever only has to keep senders out for a moment closes the tail alone, and lets them pass under the lock (*passed*):
//! a receiver that goes to sleep does so.
//!
//! # Memory ordering
//! Words are read with acquire and replaced with acquire-release. The release of filling pairs with
//! the acquire of a receiver's look: it sees the text. The release of taking pairs with that of the
//! next sender: it does not overwrite text that is still being read.

use vshmem_mem::{Map, Ordering, fence, spin_hint};
use vshmem_wire::{
    CELL_BYTES, Cell, MAX_SLABS, RING_INLINE_BYTES, RING_INLINE_TYPE_BITS, RING_SLOTS, SLAB_BYTES,
    UNIT_BYTES, tag_at,
};

use crate::{Fault, Room, crash_point};

/// The chunk in the low bits is a message.
const FULL: u64 = 1 << 26;
/// Only a change under the lock may replace the word.
const CLOSED: u64 = 1 << 27;
/// Unit of the chunk plus one: that of the message; when free, of the message last taken.
const CHUNK: u64 = FULL - 1;
const _: () =
    assert!(MAX_SLABS * (SLAB_BYTES / UNIT_BYTES) < CHUNK, "a word has room for every unit");
/// The message is longer than those for which there is always room.
const LARGE: u64 = 1 << 28;
/// The message lies in the cell: its type and size are where others have their chunk.
const INLINE: u64 = 1 << 29;
const INLINE_TYPE: u64 = (1 << RING_INLINE_TYPE_BITS) - 1;
const INLINE_SIZE: u64 = CHUNK >> RING_INLINE_TYPE_BITS;
const _: () = assert!(INLINE_SIZE >= RING_INLINE_BYTES as u64, "a word has room for every size");
/// Added for the next lap.
const LAP: u64 = 1 << LAP_SHIFT;
const LAP_SHIFT: u32 = 30;
const LAP_BITS: u32 = 64 - LAP_SHIFT;
/// Positions are counted modulo 2^37: at 20 million messages a second a position comes back after 114 minutes.
const POSITIONS: u64 = (RING_SLOTS as u64) << LAP_BITS;

/// Slots on one cache line.
const SLOTS_OF_LINE: usize = 64 / CELL_BYTES as usize;

/// How many laps `word` is ahead of `origin`. Laps go round; those of one ring are close together.
fn laps_from(origin: u64, word: u64) -> i64 {
    // The shift up makes the highest bit of a lap the sign.
    let ahead = (word & !(LAP - 1)).wrapping_sub(origin & !(LAP - 1));
    ahead.cast_signed() >> LAP_SHIFT
}

/// Looks after which a ring that cannot be closed makes no sense: each but a few has met somebody
/// else's progress.
const MOST_LOOKS: u32 = 1 << 16;

/// A message that lies in the cell of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    kind: u32,
    size: u32,
    text: u64,
}

impl Inline {
    /// A message, if it is one that fits into a slot.
    #[inline]
    #[must_use]
    pub fn of(kind: i64, text: &[u8]) -> Option<Self> {
        if text.len() > RING_INLINE_BYTES || kind as u64 > INLINE_TYPE {
            return None;
        }
        let whole: Result<[u8; RING_INLINE_BYTES], _> = text.try_into();
        let word = match whole {
            Ok(whole) => u64::from_le_bytes(whole),
            Err(_) => text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Some(Self { kind: kind as u32, size: text.len() as u32, text: word })
    }
}

/// A slot of the ring, and what its word said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Offset of the word.
    pub at: u64,
    /// The word.
    pub word: u64,
    index: usize,
}

impl Spot {
    /// The position that the slot is free for or full with.
    #[inline]
    #[must_use]
    pub fn position(self) -> u64 {
        (self.word >> LAP_SHIFT) * RING_SLOTS as u64 + self.index as u64
    }

    /// The position that was taken from the slot last.
    #[inline]
    #[must_use]
    pub fn former_position(self) -> u64 {
        self.position().wrapping_sub(RING_SLOTS as u64) % POSITIONS
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

    /// The text of such a message, and what follows it. It is that of this message if the word is the same afterwards.
    ///
    /// # Errors
    /// When it is outside the pool.
    #[inline]
    pub fn inline_text(self, map: &Map) -> Result<[u8; RING_INLINE_BYTES], Fault> {
        Ok(map.load(tag_at(self.at), Ordering::Acquire)?.to_le_bytes())
    }

    /// The cell that holds the word, for a change under the lock. Only such changes raise its tag.
    ///
    /// # Errors
    /// When it is outside the pool.
    pub fn cell(self, map: &Map) -> Result<Cell, Fault> {
        Ok(Cell { word: self.word, tag: map.load(tag_at(self.at), Ordering::Acquire)? })
    }

    #[inline]
    fn is_full(self) -> bool {
        self.word & FULL != 0
    }

    /// Whether only a change under the lock may fill or empty the slot.
    #[inline]
    #[must_use]
    pub fn is_closed(self) -> bool {
        self.word & CLOSED != 0
    }

    /// Whether the message is marked as longer than those for which there is always room.
    #[must_use]
    pub fn is_large(self) -> bool {
        self.word & LARGE != 0
    }

    /// The slot after its message was taken.
    #[must_use]
    #[inline]
    pub fn taken(self) -> Self {
        let gone = if self.is_inline() { FULL | LARGE | INLINE | CHUNK } else { FULL | LARGE };
        Self { word: self.word.wrapping_add(LAP) & !gone, ..self }
    }

    /// Puts the message in the chunk at `unit` here; says whether that has happened. `is_large`: it is longer than those for which
    /// there is always room.
    ///
    /// # Errors
    /// When the word is outside the pool.
    #[inline]
    pub fn fill(self, map: &Map, unit: u32, is_large: bool) -> Result<bool, Fault> {
        let mark = if is_large { FULL | LARGE } else { FULL };
        let full = (self.word & !(CHUNK | LARGE)) | mark | ((u64::from(unit) + 1) & CHUNK);
        Ok(map.replace(self.at, self.word, full)?)
    }

    /// Puts a message into the slot itself; says whether that has happened.
    ///
    /// # Errors
    /// When the cell is outside the pool.
    #[inline]
    pub fn fill_inline(self, map: &Map, message: Inline) -> Result<bool, Fault> {
        let what = u64::from(message.size) << RING_INLINE_TYPE_BITS | u64::from(message.kind);
        let word = (self.word & !(CHUNK | LARGE)) | FULL | INLINE | what;
        let full = Cell { word, tag: message.text };
        Ok(map.replace_pair(self.at, self.cell(map)?, full)?)
    }

    /// Takes the message; says whether that has happened.
    ///
    /// # Errors
    /// When the word is outside the pool.
    #[inline]
    pub fn take(self, map: &Map) -> Result<bool, Fault> {
        Ok(map.replace(self.at, self.word, self.taken().word)?)
    }
}

/// Where a sender has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Into this slot.
    Free(Spot),
    /// There are eight messages already.
    Full,
    /// Under the lock.
    Closed,
}

/// The words of a ring, as they were read.
#[derive(Debug, Clone, Copy)]
pub struct MessageRing {
    base: u64,
    words: [u64; RING_SLOTS],
    /// The lowest position that has not been taken, counted from the lap of the first word; so all below.
    head: i64,
    /// The lowest position that has not been filled.
    tail: i64,
    /// The bits that any word has.
    any: u64,
}

impl MessageRing {
    /// Reads the ring at `base`.
    ///
    /// # Errors
    /// When it is outside the pool.
    pub fn look(map: &Map, base: u64) -> Result<Self, Fault> {
        let mut ring = Self::at(base);
        ring.refresh(map)?;
        Ok(ring)
    }

    /// The ring at `base`, to be read by [`Self::refresh`].
    #[inline]
    #[must_use]
    pub fn at(base: u64) -> Self {
        Self::unread(base, [0; RING_SLOTS])
    }

    /// Reads the words. In place: a copy of words that have just been stored waits until they all are.
    ///
    /// # Errors
    /// When they are outside the pool.
    #[inline]
    pub fn refresh(&mut self, map: &Map) -> Result<(), Fault> {
        self.words = map.load_row(self.base)?;
        self.find_ends();
        Ok(())
    }

    /// A ring of these words.
    #[must_use]
    pub fn of(base: u64, words: [u64; RING_SLOTS]) -> Self {
        let mut ring = Self::unread(base, words);
        ring.find_ends();
        ring
    }

    #[inline]
    fn unread(base: u64, words: [u64; RING_SLOTS]) -> Self {
        Self { base, words, head: 0, tail: 0, any: 0 }
    }

    #[inline]
    fn find_ends(&mut self) {
        let (mut head, mut tail) = (i64::MAX, i64::MAX);
        let mut any = 0;
        for (index, word) in self.words.iter().enumerate() {
            let position = laps_from(self.words[0], *word) * RING_SLOTS as i64 + index as i64;
            let next = position + if word & FULL != 0 { RING_SLOTS as i64 } else { 0 };
            head = head.min(position);
            tail = tail.min(next);
            any |= word;
        }
        (self.head, self.tail, self.any) = (head, tail, any);
    }

    #[inline]
    fn spot(&self, index: usize) -> Spot {
        let at = self.base + index as u64 * CELL_BYTES;
        Spot { at, word: self.words[index], index }
    }

    /// The slot of a position.
    #[inline]
    fn slot_of(&self, position: i64) -> Spot {
        self.spot(position as usize % RING_SLOTS)
    }

    /// The position that a slot is free for or full with.
    #[inline]
    fn position_of(&self, spot: Spot) -> i64 {
        laps_from(self.words[0], spot.word) * RING_SLOTS as i64 + spot.index as i64
    }

    /// Where a sender has to go.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> Tail {
        let spot = self.slot_of(self.tail);
        match spot.word & (FULL | CLOSED) {
            0 => Tail::Free(spot),
            FULL => Tail::Full,
            _ => Tail::Closed,
        }
    }

    /// The slot behind one.
    #[inline]
    #[must_use]
    pub fn behind(&self, spot: Spot) -> Spot {
        self.spot((spot.index + 1) % RING_SLOTS)
    }

    /// Whether there may be a message in it that is longer than those for which there is always room.
    #[inline]
    #[must_use]
    pub fn may_hold_large(&self) -> bool {
        self.any & LARGE != 0
    }

    /// How much room there is by now in a ring that was full; `has_time`: a single free slot counts as well.
    ///
    /// Where receivers go on to the other cache line of the ring all slots of this one are free: from then on sender and
    /// receivers write into a line each. Until then a look at the tail takes the line away that receivers write into.
    #[inline]
    #[must_use]
    pub fn room(&self, map: &Map, has_time: bool) -> Room {
        let of_line = SLOTS_OF_LINE as i64;
        let next_line = self.slot_of((self.tail.div_euclid(of_line) + 1) * of_line);
        let is_same =
            |spot: Spot| map.load(spot.at, Ordering::Acquire).is_ok_and(|word| word == spot.word);
        if !is_same(next_line) {
            return Room::Plenty;
        }
        let is_some = has_time && !is_same(self.slot_of(self.tail));
        if is_some { Room::Some } else { Room::None }
    }

    /// Its messages, oldest first: at positions below all that have not been filled yet.
    #[inline]
    pub fn messages(&self) -> impl Iterator<Item = Spot> + '_ {
        // More than that only words make that are not those of one moment.
        let end = self.tail.min(self.head + RING_SLOTS as i64);
        (self.head..end).filter_map(|position| {
            let spot = self.slot_of(position);
            (spot.is_full() && self.position_of(spot) == position).then_some(spot)
        })
    }

    /// The slots that hold no message: some note the chunk of the message that was taken last.
    pub fn vacant(&self) -> impl Iterator<Item = Spot> + '_ {
        (0..RING_SLOTS).map(|index| self.spot(index)).filter(|spot| !spot.is_full())
    }

    /// Whether the words can be those of one moment: up to the tail messages and gaps that others have left, then free slots; and
    /// what is closed is the tail or a message. (A message may be closed while the tail is not: somebody has let senders pass
    /// while another was closing the ring.)
    #[must_use]
    pub fn makes_sense(&self) -> bool {
        let slots = RING_SLOTS as i64;
        self.tail - self.head <= slots
            && (self.head..self.head + slots).all(|position| {
                let spot = self.slot_of(position);
                let is_before_tail = position < self.tail;
                let is_taken = is_before_tail && !spot.is_full();
                let may_be_closed = spot.is_full() || position == self.tail;
                let is_inline_for_nothing =
                    spot.is_inline() && (!spot.is_full() || spot.is_large());
                !is_inline_for_nothing
                    && self.position_of(spot) == if is_taken { position + slots } else { position }
                    && (is_before_tail || !spot.is_full())
                    && (may_be_closed || !spot.is_closed())
            })
    }

    /// Whether there may be more for a receiver than it has found here: the word of the tail is another one now. To be asked
    /// after the messages have been looked at.
    #[inline]
    #[must_use]
    pub fn has_moved(&self, map: &Map) -> bool {
        let tail = self.slot_of(self.tail);
        // After whatever was read of the messages.
        fence(Ordering::Acquire);
        !map.load(tail.at, Ordering::Acquire).is_ok_and(|word| word == tail.word)
    }

    /// Whether the words are the same now: then they are those of one moment.
    ///
    /// # Errors
    /// When they are outside the pool.
    pub fn still(&self, map: &Map) -> Result<bool, Fault> {
        Ok(map.load_row(self.base)? == self.words)
    }

    /// Whether nobody can send or receive but under the lock.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.first_open().is_none()
    }

    /// What has to be closed next for the ring to stand still: the tail, then the messages.
    fn first_open(&self) -> Option<Spot> {
        let tail = self.slot_of(self.tail);
        std::iter::once(tail).chain(self.messages()).find(|spot| !spot.is_closed())
    }

    /// Closes the ring at `base`: when this returns, it has been frozen.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn close(map: &Map, base: u64) -> Result<(), Fault> {
        let mut last = None;
        for _ in 0..MOST_LOOKS {
            let ring = Self::look(map, base)?;
            // Words do not come back, so the same twice are those of one moment.
            if last == Some(ring.words) && !ring.makes_sense() {
                break;
            }
            let Some(spot) = ring.first_open() else { return Ok(()) };
            last = Some(ring.words);
            if map.replace(spot.at, spot.word, spot.word | CLOSED)? {
                let is_tail = spot.index == ring.slot_of(ring.tail).index;
                crash_point("msg-close", if is_tail { "tail" } else { "message" });
            } else {
                spin_hint();
            }
        }
        Err(Fault::corrupt(base, "a ring that cannot be closed"))
    }

    /// Closes the tail of the ring at `base` alone: when this returns, there was a moment after which nobody has sent.
    ///
    /// # Errors
    /// When the ring makes no sense.
    pub fn bar(map: &Map, base: u64) -> Result<(), Fault> {
        for _ in 0..MOST_LOOKS {
            let ring = Self::look(map, base)?;
            let tail = ring.slot_of(ring.tail);
            if tail.is_closed() {
                return Ok(());
            }
            if map.replace(tail.at, tail.word, tail.word | CLOSED)? {
                crash_point("msg-close", "barred");
            }
        }
        Err(Fault::corrupt(base, "a ring that cannot be closed"))
    }

    /// What a change under the lock has to write to let senders pass a closed tail: the slot and its new word. Whoever
    /// looked before it was closed fails: a free slot is skipped, as if its message had come and gone. `None` if the tail is
    /// not closed.
    #[must_use]
    pub fn passed(&self) -> Option<(Spot, u64)> {
        let spot = self.slot_of(self.tail);
        let next = if spot.is_full() {
            // Nobody could send into it before either.
            spot.word & !CLOSED
        } else {
            spot.word.wrapping_add(LAP) & !(CLOSED | CHUNK)
        };
        spot.is_closed().then_some((spot, next))
    }

    /// What a change under the lock has to write to take all messages out of a frozen ring: the
    /// slots and their new words. The ring stays closed: the tail does.
    pub fn emptied(&self) -> impl Iterator<Item = (Spot, u64)> + '_ {
        let tail = self.slot_of(self.tail);
        self.messages().map(move |spot| {
            let free = spot.taken().word & !(CLOSED | CHUNK);
            // With eight positions in use there was no free slot for the barrier.
            (spot, if spot.index == tail.index { free | CLOSED } else { free })
        })
    }

    /// What a change under the lock has to write to open a ring that is closed and empty: the slot
    /// and its new word. `None` for any other ring.
    #[must_use]
    pub fn opened(&self) -> Option<(Spot, u64)> {
        self.passed().filter(|_| self.head == self.tail && self.makes_sense())
    }

    /// What a change under the lock has to write to close a ring that nobody uses yet. `None` if it
    /// is closed.
    #[must_use]
    pub fn closed(&self) -> Option<(Spot, u64)> {
        let spot = self.slot_of(self.tail);
        (!self.is_frozen()).then_some((spot, spot.word | CLOSED))
    }

    /// What a change under the lock has to write to make an open and empty ring of words that make
    /// no sense: nobody's late compare-and-swap finds its word in it.
    pub fn renewed(&self) -> impl Iterator<Item = (Spot, u64)> + '_ {
        let words = self.renewed_words();
        (0..RING_SLOTS).map(move |index| (self.spot(index), words[index]))
    }

    /// The words of that ring.
    #[must_use]
    pub fn renewed_words(&self) -> [u64; RING_SLOTS] {
        let most = self.words.iter().map(|word| laps_from(self.words[0], *word)).max();
        let lap = (self.words[0] >> LAP_SHIFT).wrapping_add_signed(most.unwrap_or(0) + 1);
        [lap << LAP_SHIFT; RING_SLOTS]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn fill(map: &Map, unit: u32) -> Tail {
        let tail = MessageRing::look(map, 0).expect("a ring").tail();
        if let Tail::Free(spot) = tail {
            let filled = match Inline::of(77, &unit.to_le_bytes()) {
                Some(message) if unit % 5 < 2 => spot.fill_inline(map, message),
                _ => spot.fill(map, unit, unit.is_multiple_of(3)),
            };
            assert!(filled.expect("a word"));
        }
        tail
    }

    /// What the tests take out: the unit, or the text that stands for it.
    fn number(map: &Map, spot: Spot) -> Option<u32> {
        if spot.is_inline() {
            let text = spot.inline_text(map).expect("a text");
            assert_eq!(spot.inline(), Some((77, 4)));
            return Some(u64::from_le_bytes(text) as u32);
        }
        spot.chunk()
    }

    fn take(map: &Map) -> Option<u32> {
        let spot = MessageRing::look(map, 0).expect("a ring").messages().next()?;
        let number = number(map, spot);
        assert!(spot.take(map).expect("a word"));
        number
    }

    /// Empties and opens a ring as a change under the lock does.
    fn reopen(map: &Map) -> Vec<u32> {
        MessageRing::close(map, 0).expect("a close");
        let ring = MessageRing::look(map, 0).expect("a ring");
        assert!(ring.is_frozen() && ring.makes_sense());
        let left = ring.messages().filter_map(|spot| number(map, spot)).collect();
        for (spot, word) in ring.emptied() {
            assert!(map.replace(spot.at, spot.word, word).expect("a word"));
            assert!(MessageRing::look(map, 0).expect("a ring").is_frozen());
        }
        let ring = MessageRing::look(map, 0).expect("a ring");
        assert!(ring.is_frozen() && ring.makes_sense());
        assert_eq!((ring.tail(), ring.messages().count()), (Tail::Closed, 0));
        let (spot, word) = ring.opened().expect("a closed ring");
        assert!(map.replace(spot.at, spot.word, word).expect("a word"));
        left
    }

    #[test]
    fn messages_come_out_in_order_over_all_laps_and_closings() {
        for lap in [0, (1 << LAP_BITS) - 4] {
            let map = Map::anonymous(4096);
            for slot in 0..RING_SLOTS as u64 {
                map.store(slot * CELL_BYTES, lap << LAP_SHIFT, vshmem_mem::Ordering::Relaxed)
                    .expect("a word");
            }
            let mut model = VecDeque::new();
            // A pattern with every depth from empty to full, and closings at each.
            for step in 0..5000_u32 {
                let ring = MessageRing::look(&map, 0).expect("a ring");
                assert!(ring.makes_sense(), "step {step}: {ring:x?}");
                let held: VecDeque<_> =
                    ring.messages().filter_map(|spot| number(&map, spot)).collect();
                assert_eq!(held, model);
                match (step / 13 % 3, step % 37) {
                    (_, 36) => assert_eq!(reopen(&map), Vec::from(std::mem::take(&mut model))),
                    (0 | 1, n) if n % 3 != 0 => match fill(&map, step) {
                        Tail::Free(_) => model.push_back(step),
                        other => assert_eq!((other, model.len()), (Tail::Full, RING_SLOTS)),
                    },
                    _ => assert_eq!(take(&map), model.pop_front()),
                }
            }
        }
    }

    /// A list of messages, each with its position's number.
    #[test]
    fn messages_of_random_types_come_out_as_from_a_list() {
        let map = Map::anonymous(4096);
        let (mut model, mut last, mut random) = (VecDeque::new(), 0_u32, 7_u32);
        for step in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let kind = random >> 16 & 3;
            let ring = MessageRing::look(&map, 0).expect("a ring");
            assert!(ring.makes_sense(), "step {step}: {ring:x?}");
            let held: VecDeque<_> = ring.messages().filter_map(|spot| number(&map, spot)).collect();
            assert_eq!(held, model);
            match random >> 20 & 15 {
                0 => assert_eq!(reopen(&map), Vec::from(std::mem::take(&mut model))),
                1 => {
                    MessageRing::bar(&map, 0).expect("a barrier");
                    assert_eq!(fill(&map, 1), Tail::Closed);
                    let ring = MessageRing::look(&map, 0).expect("a ring");
                    let (spot, word) = ring.passed().expect("a closed tail");
                    assert!(map.replace(spot.at, spot.word, word).expect("a word"));
                    assert!(MessageRing::look(&map, 0).expect("a ring").passed().is_none());
                }
                2..9 => {
                    let number = (last + 1) << 2 | kind;
                    if let Tail::Free(_) = fill(&map, number) {
                        model.push_back(number);
                        last = (last + 1) % 1000;
                    } else {
                        assert!(!model.is_empty(), "a ring without messages is never full");
                    }
                }
                _ => {
                    let found = ring
                        .messages()
                        .find(|spot| number(&map, *spot).is_some_and(|n| n & 3 == kind));
                    let expected = model.iter().position(|number| number & 3 == kind);
                    assert_eq!(
                        found.and_then(|spot| number(&map, spot)),
                        expected.and_then(|at| model.remove(at))
                    );
                    if let Some(spot) = found {
                        assert!(spot.take(&map).expect("a word"));
                    }
                }
            }
        }
    }

    #[test]
    fn only_short_texts_of_small_types_fit_into_a_slot() {
        assert!(Inline::of(1, &[]).is_some() && Inline::of(1, &[1; 8]).is_some());
        assert!(Inline::of(1, &[1; 9]).is_none());
        assert!(Inline::of((1 << 22) - 1, &[]).is_some() && Inline::of(1 << 22, &[]).is_none());
        let map = Map::anonymous(4096);
        for text in [&b"12345678"[..], b"1", b"", &[0xff; 8]] {
            let Tail::Free(spot) = MessageRing::look(&map, 0).expect("a ring").tail() else {
                panic!("room")
            };
            let message = Inline::of(4711, text).expect("a short message");
            assert!(spot.fill_inline(&map, message).expect("a cell"));
            assert!(!spot.fill_inline(&map, message).expect("a cell"), "it is full");
            let spot = MessageRing::look(&map, 0).expect("a ring").messages().next();
            let spot = spot.expect("a message");
            assert_eq!((spot.inline(), spot.chunk()), (Some((4711, text.len())), None));
            assert_eq!(&spot.inline_text(&map).expect("a text")[..text.len()], text);
            assert!(spot.take(&map).expect("a word") && !spot.taken().is_inline());
        }
        assert!(MessageRing::look(&map, 0).expect("a ring").vacant().all(|s| s.chunk().is_none()));
    }

    #[test]
    fn whoever_looked_before_a_closing_comes_too_late() {
        let map = Map::anonymous(4096);
        let Tail::Free(free) = fill(&map, 7) else { panic!("room") };
        let full = MessageRing::look(&map, 0).expect("a ring").messages().next();
        let full = full.expect("a message");
        let Tail::Free(next) = MessageRing::look(&map, 0).expect("a ring").tail() else {
            panic!("room")
        };
        assert_eq!(reopen(&map), [7]);
        assert!(!free.fill(&map, 8, false).expect("a word"));
        assert!(!next.fill(&map, 9, true).expect("a word"));
        assert!(!full.take(&map).expect("a word"));
    }

    #[test]
    fn words_that_make_no_sense_are_told_and_can_be_renewed() {
        let map = Map::anonymous(4096);
        for (slot, word) in
            [(0, u64::MAX), (3, FULL | 9), (5, 77 << LAP_SHIFT), (6, CLOSED | INLINE)]
        {
            map.store(slot * CELL_BYTES, word, vshmem_mem::Ordering::Relaxed).expect("a word");
        }
        let ring = MessageRing::look(&map, 0).expect("a ring");
        assert!(!ring.makes_sense() && ring.opened().is_none());
        for (spot, word) in ring.renewed() {
            assert!(map.replace(spot.at, spot.word, word).expect("a word"));
        }
        let ring = MessageRing::look(&map, 0).expect("a ring");
        assert!(ring.makes_sense() && !ring.is_frozen());
        assert!(matches!(fill(&map, 1), Tail::Free(_)));
        assert_eq!(take(&map), Some(1));
    }
}
