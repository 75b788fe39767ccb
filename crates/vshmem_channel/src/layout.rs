//! Where the words of a port lie. All offsets count from the port's first byte.

use vshmem_mem::OutOfPool;

/// Written last when a port is made: "VSHPORT" and the version of this layout. 0 once it is closed.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"VSHPORT\x03");

/// Magic.
pub(crate) const MAGIC_AT: u64 = 0;
/// A number that no other port has: one that is gone is not taken for its successor.
pub(crate) const NONCE_AT: u64 = 8;
/// Lanes (low half) and bytes of a lane.
pub(crate) const SHAPE_AT: u64 = 16;
/// The receiver, as its pool names it.
pub(crate) const OWNER_AT: u64 = 24;
/// Raised with each claim: the receiver then looks the lanes over.
pub(crate) const CLAIMS_AT: u64 = 64;
/// Raised by a sender that has found no lane.
pub(crate) const ASKED_AT: u64 = 72;
/// Nonce of the port where the receiver has more lanes.
pub(crate) const NEXT_NONCE_AT: u64 = 80;
/// Id of the segment that it lies in, written after its nonce; 0: there is none, [`NO_MORE`].
pub(crate) const NEXT_AT: u64 = 88;
/// The receiver has no memory for more lanes.
pub(crate) const NO_MORE: u64 = u64::MAX;

/// The lanes' control blocks.
const LANES_AT: u64 = 4096;
/// Bytes of one: one line of the sender's, one of the receiver's.
const LANE_STRIDE: u64 = 128;
/// A cell: the sender's client id, [`FREE`] or [`LEFT`]. Its tag tells the claims of a lane apart.
pub(crate) const CLAIM: u64 = 0;
/// The tag of the claim, once the sender has written who it is.
pub(crate) const READY: u64 = 16;
/// Id of the sender's own port.
pub(crate) const SENDER_PORT: u64 = 24;
/// Nonce of the sender's own port.
pub(crate) const SENDER_NONCE: u64 = 32;
/// What the sender wants the receiver to know it by.
pub(crate) const SENDER_MARK: u64 = 40;
/// Lines that the receiver is through with, modulo 2^64.
pub(crate) const HEAD: u64 = 64;

/// In a claim: no sender has the lane.
pub(crate) const FREE: u64 = 0;
/// In a claim: the sender has closed the lane, with the tag after its own.
pub(crate) const LEFT: u64 = u64::MAX;

/// Bytes of a line: messages begin on one.
pub(crate) const LINE: u64 = 64;
/// Least bytes of a lane.
pub const LEAST_LANE_BYTES: u32 = 4096;
/// Most bytes of a lane.
pub const MOST_LANE_BYTES: u32 = 4 << 20;
/// Most lanes of a port.
pub const MOST_LANES: u32 = 4096;

/// How a port is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    lanes: u32,
    lane_bytes: u32,
}

/// A shape that cannot be.
/// A number of lanes, or of bytes of a lane, that a port cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a port has 1 to {MOST_LANES} lanes of {LEAST_LANE_BYTES} to {MOST_LANE_BYTES} bytes, a power of two; not {lanes} of {lane_bytes}"
)]
pub struct ShapeError {
    lanes: u32,
    lane_bytes: u32,
}

impl Shape {
    /// A port of `lanes` lanes of `lane_bytes` bytes each.
    ///
    /// # Errors
    /// When a number is out of range.
    pub fn new(lanes: u32, lane_bytes: u32) -> Result<Self, ShapeError> {
        let fits = (1..=MOST_LANES).contains(&lanes)
            && (LEAST_LANE_BYTES..=MOST_LANE_BYTES).contains(&lane_bytes)
            && lane_bytes.is_power_of_two();
        if fits { Ok(Self { lanes, lane_bytes }) } else { Err(ShapeError { lanes, lane_bytes }) }
    }

    /// The lanes for `senders` senders that `budget` bytes allow: as large as the budget makes
    /// them. `None` when not even the smallest fit.
    #[must_use]
    pub fn within(senders: u32, budget: u64, most: u32) -> Option<Self> {
        let lanes = senders.max(1);
        let mut lane_bytes = most.min(MOST_LANE_BYTES);
        while u64::from(lane_bytes) * u64::from(lanes) > budget && lane_bytes > LEAST_LANE_BYTES {
            lane_bytes /= 2;
        }
        let shape = Self::new(lanes, lane_bytes).ok()?;
        (u64::from(lane_bytes) * u64::from(lanes) <= budget).then_some(shape)
    }

    /// Number of lanes.
    #[must_use]
    pub fn lanes(self) -> u32 {
        self.lanes
    }

    /// Bytes of a lane.
    #[must_use]
    pub fn lane_bytes(self) -> u32 {
        self.lane_bytes
    }

    /// The longest message: a quarter of a lane with its header, so that one that has to begin at
    /// the ring's start always finds room again.
    #[must_use]
    pub fn most_bytes(self) -> u32 {
        self.lane_bytes / 4 - 8
    }

    /// Bytes of the whole port.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.data_at() + u64::from(self.lanes) * u64::from(self.lane_bytes)
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.lane_bytes) << 32 | u64::from(self.lanes)
    }

    pub(crate) fn unpack(word: u64) -> Result<Self, ShapeError> {
        Self::new(word as u32, (word >> 32) as u32)
    }

    fn data_at(self) -> u64 {
        (LANES_AT + u64::from(self.lanes) * LANE_STRIDE).next_multiple_of(4096)
    }

    /// Control block of a lane.
    pub(crate) fn lane_at(self, lane: u32) -> u64 {
        LANES_AT + u64::from(lane) * LANE_STRIDE
    }

    /// First byte of a lane's ring.
    pub(crate) fn ring_at(self, lane: u32) -> u64 {
        self.data_at() + u64::from(lane) * u64::from(self.lane_bytes)
    }

    /// Lines of a lane's ring; a power of two.
    pub(crate) fn lines(self) -> u64 {
        u64::from(self.lane_bytes) / LINE
    }
}

/// Who a sender says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its name in the pool: neither 0 nor all ones.
    pub client: u64,
    /// Id of its own port, to be answered at; 0 for none.
    pub port: u32,
    /// Nonce of its own port.
    pub nonce: u64,
    /// A word of its own choice.
    pub mark: u64,
}

/// A header word: position of its line (32 bits), bytes (23), a bit that is always set, tag (8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub bytes: u32,
    pub tag: u8,
}

/// Header of a stretch at the end of the ring that holds nothing.
pub(crate) const GAP: u32 = (1 << 23) - 1;
const THERE: u64 = 1 << 55;

impl Header {
    pub(crate) fn pack(self, stamp: u32) -> u64 {
        u64::from(self.tag) << 56 | THERE | u64::from(self.bytes) << 32 | u64::from(stamp)
    }

    /// `None` when the word is not the header of the line that `stamp` tells.
    #[inline]
    pub(crate) fn unpack(word: u64, stamp: u32) -> Option<Self> {
        let there = word & THERE != 0 && word as u32 == stamp;
        there.then_some(Self { bytes: (word >> 32) as u32 & GAP, tag: (word >> 56) as u8 })
    }

    /// Lines that a message of so many bytes takes.
    #[inline]
    pub(crate) fn lines_of(bytes: u32) -> u64 {
        (u64::from(bytes) + 8).div_ceil(LINE)
    }
}

/// What tells the line at a position under a claim from all others that lay there: no earlier
/// sender on the lane has written it.
#[inline]
pub(crate) fn stamp(claim: u64, position: u64) -> u32 {
    (position as u32) ^ (claim as u32).wrapping_mul(0x9e37_79b1)
}

/// A word of the port was not where it had to be. Only our own mistake makes that.
pub(crate) fn inside<T>(result: Result<T, OutOfPool>) -> Option<T> {
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_stays_within_its_budget_however_many_send() {
        let budget = 4 << 20;
        for senders in 1..=1024 {
            let shape = Shape::within(senders, budget, 256 << 10).unwrap();
            assert!(u64::from(shape.lanes()) * u64::from(shape.lane_bytes()) <= budget);
        }
        assert_eq!(Shape::within(1025, budget, 256 << 10), None);
    }

    #[test]
    fn areas_do_not_overlap() {
        let shape = Shape::new(33, 8192).unwrap();
        assert!(shape.lane_at(32) + LANE_STRIDE <= shape.ring_at(0));
        assert_eq!(shape.ring_at(32) + 8192, shape.bytes());
        assert_eq!(Shape::unpack(shape.pack()), Ok(shape));
    }
}
