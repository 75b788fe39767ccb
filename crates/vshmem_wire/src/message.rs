//! Messages, in the rings of a queue and in its list.

use crate::CELL_BYTES;

/// Slots in the ring of a queue: two cache lines of cells.
pub const RING_SLOTS: usize = 8;
/// Slots in the long ring of a queue.
pub const LONG_RING_SLOTS: usize = 64;
/// `MsgSlot.long_ring_rarity` of a queue whose list has been longer than its long ring: one
/// opening of 16384. Moving what a full long ring holds to the list costs about as much as it has
/// saved; a queue that is deeper each time is not to pay for it each time.
pub const OUTGROWN_RARITY_LOG2: u32 = 14;
/// The same of a new long ring, one of 16: some queues only grow on.
pub const NEW_RARITY_LOG2: u32 = 4;
/// Bytes of a long ring.
pub const LONG_RING_BYTES: u64 = LONG_RING_SLOTS as u64 * CELL_BYTES;
/// Payload bytes of a message in the ring at most.
pub const RING_PAYLOAD_BYTES: u64 = 8192;
/// Payload bytes up to which a ring of eight has room for a message whenever it has a free slot.
pub const RING_SHORT_BYTES: u64 = 512;
/// Payload bytes that fit into the cell of a slot: such a message needs no chunk.
pub const RING_INLINE_BYTES: usize = 8;
/// Bits of the type of a message in a slot: as many as a process id has.
pub const RING_INLINE_TYPE_BITS: u32 = 22;
/// Bytes that a queue has to allow for its ring to be used.
pub const RING_LEAST_LIMIT: u64 = RING_SHORT_BYTES * RING_SLOTS as u64;

/// The beginning of a message's chunk; its payload follows.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MsgHeader {
    /// Type.
    pub mtype: u64,
    /// Payload bytes.
    pub size: u64,
    /// Where in which ring the message was put: a [`RingPosition`]. Means nothing in the list.
    pub ring_position: u64,
    /// What the chunk's owner cell said when it was.
    pub owner: u64,
    /// The tag of that cell. Of a message that lay in a slot of the ring, in the list: a
    /// [`MovedMessage`], and type and size mean nothing.
    pub tag: u64,
}

/// What the chunk of a message says that lay in a slot of the ring: it stands where others have a
/// tag. With the eight payload bytes behind it, it is written by one compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedMessage {
    /// Type.
    pub mtype: u32,
    /// Payload bytes.
    pub size: u32,
    /// Position in the ring: so no such word comes back.
    pub position: u64,
}

impl MovedMessage {
    /// No tag is so high.
    const MARK: u64 = 1 << 63;
    const SIZE_SHIFT: u32 = RING_INLINE_TYPE_BITS;
    const POSITION_SHIFT: u32 = Self::SIZE_SHIFT + 4;

    /// As a word.
    #[must_use]
    pub const fn pack(self) -> u64 {
        Self::MARK
            | self.position << Self::POSITION_SHIFT
            | (self.size as u64) << Self::SIZE_SHIFT
            | self.mtype as u64
    }

    /// The reverse; `None` if the word is a tag.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Option<Self> {
        if word & Self::MARK == 0 {
            return None;
        }
        let size = (word >> Self::SIZE_SHIFT) as u32 & 0xf;
        Some(Self {
            mtype: word as u32 & ((1 << RING_INLINE_TYPE_BITS) - 1),
            // More only a peer has written.
            size: if size > RING_INLINE_BYTES as u32 { RING_INLINE_BYTES as u32 } else { size },
            position: (word & !Self::MARK) >> Self::POSITION_SHIFT,
        })
    }
}

const _: () = assert!(
    core::mem::offset_of!(MsgHeader, tag).is_multiple_of(16)
        && core::mem::offset_of!(MsgHeader, tag) + 8 == size_of::<MsgHeader>(),
    "the tag and the first bytes of the payload are one cell"
);

/// Bytes in front of a message's payload.
pub const MSG_HEADER_BYTES: u64 = size_of::<MsgHeader>() as u64;

/// Chunks that a queue keeps for the messages in its ring that lie in no chunk: these need some
/// when they go to the list. They hang together by their links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingReserve {
    /// The first one.
    pub unit: u32,
    /// How many there are.
    pub count: u32,
}

impl RingReserve {
    const UNIT_BITS: u32 = 26;

    /// As a number in a cell.
    #[must_use]
    pub const fn pack(self) -> u32 {
        self.count << Self::UNIT_BITS | (self.unit + 1)
    }

    /// The reverse; `None` when there are none.
    #[inline]
    #[must_use]
    pub const fn unpack(value: u32) -> Option<Self> {
        let count = value >> Self::UNIT_BITS;
        match (value & ((1 << Self::UNIT_BITS) - 1)).checked_sub(1) {
            Some(unit) if count > 0 => Some(Self { unit, count }),
            _ => None,
        }
    }

    /// Whether such a number says that every message of a ring has its chunk.
    #[inline]
    #[must_use]
    pub const fn is_whole(value: u32) -> bool {
        value >> Self::UNIT_BITS >= RING_SLOTS as u32
    }
}

/// Where a message was put: which queue's ring, and the position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPosition {
    /// The queue's slot.
    pub index: u32,
    /// Whether it is the long ring.
    pub is_long: bool,
    /// Position: counted modulo 2^38, which is more than the short ring has, and less than the long
    /// one. At 20 million messages a second one comes back after 3.8 hours.
    pub position: u64,
}

impl RingPosition {
    /// Above index and position: tells such a word from what else a chunk may hold.
    const MARK: u64 = 0x5a3;
    const MARK_SHIFT: u32 = 53;
    const INDEX_SHIFT: u32 = 39;
    const INDEX_MASK: u64 = (1 << 14) - 1;
    const LONG: u64 = 1 << 38;

    /// As a word.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        Self::MARK << Self::MARK_SHIFT
            | (self.index as u64) << Self::INDEX_SHIFT
            | if self.is_long { Self::LONG } else { 0 }
            | self.position & (Self::LONG - 1)
    }

    /// The queue's slot in such a word; `None` if it is something else.
    #[inline]
    #[must_use]
    pub const fn index_in(word: u64) -> Option<u32> {
        if word >> Self::MARK_SHIFT == Self::MARK {
            Some((word >> Self::INDEX_SHIFT & Self::INDEX_MASK) as u32)
        } else {
            None
        }
    }
}

/// How many messages a queue holds, and how many were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueCount {
    /// Messages in the list.
    pub list: u32,
    /// What makes the positions of the rings' tails, modulo 2^32, the number of messages sent since
    /// the queue was made: a message that went past the ring is one more, a position that was
    /// skipped one less.
    pub past_ring: u32,
}

impl QueueCount {
    /// As a word.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.past_ring as u64) << 32 | self.list as u64
    }

    /// The reverse.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self { list: word as u32, past_ring: (word >> 32) as u32 }
    }
}
