//! The sender's end of a lane.

use std::sync::Arc;

use vshmem_mem::{Map, Ordering};
use vshmem_wire::Cell;

use crate::layout::{
    ASKED_AT, CLAIM, CLAIMS_AT, FREE, GAP, HEAD, Header, Identity, LEFT, LINE, MAGIC, MAGIC_AT,
    NEXT_AT, NEXT_NONCE_AT, NO_MORE, NONCE_AT, OWNER_AT, READY, SENDER_MARK, SENDER_NONCE,
    SENDER_PORT, SHAPE_AT, Shape, inside, stamp,
};

/// Why no lane of a port can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// It is not the port that was meant: that one is gone.
    #[error("the port is gone")]
    Gone,
    /// All lanes are taken. The receiver has been asked for more.
    #[error("all lanes of the port are taken")]
    Full,
    /// All lanes are taken, and the receiver has no memory for more.
    #[error("all lanes of the port are taken, and it can have no more")]
    NoMore,
    /// All lanes are taken: the receiver has more of them in another port.
    #[error("all lanes of the port are taken; port {nonce:x} has more")]
    Elsewhere {
        /// Segment of that port.
        id: u32,
        /// Its number.
        nonce: u64,
    },
    /// What lies there is invalid.
    #[error("the port is corrupt")]
    Corrupt,
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The receiver has not made room yet.
    #[error("no room yet")]
    Full,
    /// Longer than a lane takes.
    #[error("longer than a lane takes")]
    TooLong,
    /// The receiver's words are invalid, or the lane is no longer ours.
    #[error("the lane is corrupt")]
    Corrupt,
}

/// A lane of another's port that this process has claimed.
#[derive(Debug)]
pub struct Outbound {
    map: Arc<Map>,
    /// First byte of the port in the map.
    base: u64,
    shape: Shape,
    lane: u32,
    /// The claim, as this process wrote it.
    claim: Cell,
    owner: u64,
    /// Position of the next message, in lines since the claim.
    next: u64,
    /// How far the receiver was when it was last asked.
    seen: u64,
    /// Position of a line that holds zero where a header would be; [`NOWHERE`] when none is known.
    blank: u64,
    /// A message that has a place and is not published yet: position, and lines of the gap.
    reserved: Option<(u64, u64)>,
}

const NOWHERE: u64 = u64::MAX;

/// How often a word that others change too is tried before that is called senseless.
const TRIES: u32 = 10_000;

impl Outbound {
    /// Claims a lane of the port at `base`, which must be the one that `nonce` names.
    ///
    /// # Errors
    /// Says what failed.
    pub fn claim(
        map: &Arc<Map>,
        base: u64,
        bytes: u64,
        nonce: u64,
        who: Identity,
    ) -> Result<Self, ClaimError> {
        let word = |at: u64, order| inside(map.load(base + at, order)).ok_or(ClaimError::Corrupt);
        if word(MAGIC_AT, Ordering::Acquire)? != MAGIC
            || word(NONCE_AT, Ordering::Relaxed)? != nonce
        {
            return Err(ClaimError::Gone);
        }
        let shape = Shape::unpack(word(SHAPE_AT, Ordering::Relaxed)?).ok();
        let shape = shape.filter(|shape| shape.bytes() <= bytes).ok_or(ClaimError::Corrupt)?;
        if base.checked_add(bytes).is_none_or(|end| end > map.bytes()) {
            return Err(ClaimError::Corrupt);
        }
        if [FREE, LEFT].contains(&who.client) {
            return Err(ClaimError::Corrupt);
        }
        let owner = word(OWNER_AT, Ordering::Relaxed)?;
        // Senders begin at different lanes, so that they do not meet at each of them.
        let first = (who.client as u32).wrapping_mul(0x9e37_79b1) >> 8;
        for nth in 0..shape.lanes() {
            let lane = first.wrapping_add(nth) % shape.lanes();
            let at = shape.lane_at(lane);
            let free = inside(map.load_cell(base + at + CLAIM)).ok_or(ClaimError::Corrupt)?;
            if free.word != FREE {
                continue;
            }
            let claimed = inside(map.replace_cell(base + at + CLAIM, free, who.client));
            if !claimed.ok_or(ClaimError::Corrupt)? {
                continue;
            }
            let lane = Self {
                map: Arc::clone(map),
                base,
                shape,
                lane,
                claim: free.successor(who.client),
                owner,
                next: 0,
                seen: 0,
                blank: NOWHERE,
                reserved: None,
            };
            lane.announce(who).ok_or(ClaimError::Corrupt)?;
            return Ok(lane);
        }
        Err(Self::ask_for_more(map, base).unwrap_or(ClaimError::Corrupt))
    }

    /// Where the receiver has more lanes; if nowhere, it is asked to make some.
    fn ask_for_more(map: &Map, base: u64) -> Option<ClaimError> {
        // Pairs with the receiver's release: the nonce was written before.
        match inside(map.load(base + NEXT_AT, Ordering::Acquire))? {
            NO_MORE => Some(ClaimError::NoMore),
            0 => {
                Self::raise(map, base + ASKED_AT)?;
                Self::raise(map, base + CLAIMS_AT)?;
                Some(ClaimError::Full)
            }
            id => {
                let nonce = inside(map.load(base + NEXT_NONCE_AT, Ordering::Relaxed))?;
                Some(ClaimError::Elsewhere { id: id as u32, nonce })
            }
        }
    }

    /// Adds 1 to a word that others change, too.
    fn raise(map: &Map, at: u64) -> Option<()> {
        for _ in 0..TRIES {
            let before = inside(map.load(at, Ordering::Relaxed))?;
            if inside(map.replace(at, before, before.wrapping_add(1)))? {
                return Some(());
            }
        }
        None
    }

    fn announce(&self, who: Identity) -> Option<()> {
        let at = self.shape.lane_at(self.lane);
        for (word, value) in
            [(SENDER_PORT, u64::from(who.port)), (SENDER_NONCE, who.nonce), (SENDER_MARK, who.mark)]
        {
            inside(self.map.store(self.base + at + word, value, Ordering::Relaxed))?;
        }
        // The receiver has left a zero where the first header comes.
        inside(self.map.store(self.base + at + READY, self.claim.tag, Ordering::Release))?;
        Self::raise(&self.map, self.base + CLAIMS_AT)
    }

    /// The receiver, as the pool names it.
    #[must_use]
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// Whether the receiver has closed the port: nothing that is sent is read any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        inside(self.map.load(self.base + MAGIC_AT, Ordering::Relaxed)) != Some(MAGIC)
    }

    /// The longest message.
    #[must_use]
    pub fn most_bytes(&self) -> u32 {
        self.shape.most_bytes()
    }

    /// Whether the receiver has read everything that was sent, and has looked for more since.
    ///
    /// # Errors
    /// [`SendError::Corrupt`].
    pub fn is_drained(&mut self) -> Result<bool, SendError> {
        self.load_head()?;
        Ok(self.seen == self.next)
    }

    #[inline]
    fn line_at(&self, position: u64) -> u64 {
        let index = position & (self.shape.lines() - 1);
        self.base + self.shape.ring_at(self.lane) + index * LINE
    }

    /// Asks how far the receiver is.
    fn load_head(&mut self) -> Result<(), SendError> {
        let at = self.base + self.shape.lane_at(self.lane) + HEAD;
        // Pairs with the receiver's release: what was read may be written over.
        let head = inside(self.map.load(at, Ordering::Acquire)).ok_or(SendError::Corrupt)?;
        // It never goes back, nor past what was written.
        if head.wrapping_sub(self.seen) > self.next - self.seen {
            return Err(SendError::Corrupt);
        }
        self.seen = head;
        Ok(())
    }

    #[inline]
    fn has_room(&self, lines: u64) -> bool {
        // One line more: the zero behind the message.
        self.next - self.seen + lines < self.shape.lines()
    }

    /// Finds a place for a message of so many bytes and says where in the map it lies. Nothing is
    /// seen by the receiver before [`Outbound::publish`]; another reservation replaces this one.
    ///
    /// # Errors
    /// [`SendError::Full`] until the receiver has read more.
    #[inline]
    pub fn reserve(&mut self, bytes: u32) -> Result<u64, SendError> {
        if bytes > self.shape.most_bytes() {
            return Err(SendError::TooLong);
        }
        let lines = Header::lines_of(bytes);
        let to_end = self.shape.lines() - (self.next & (self.shape.lines() - 1));
        let gap = if lines > to_end { to_end } else { 0 };
        if !self.has_room(lines + gap) {
            self.load_head()?;
            if !self.has_room(lines + gap) {
                return Err(SendError::Full);
            }
        }
        let position = self.next + gap;
        if position + lines > self.blank {
            // It may be written over now.
            self.blank = NOWHERE;
        }
        self.reserved = Some((position, gap));
        Ok(self.line_at(position) + 8)
    }

    /// Shows the receiver the message that was last reserved, with `bytes` bytes, at most as many
    /// as were reserved.
    ///
    /// # Errors
    /// [`SendError::Corrupt`] without a reservation.
    #[inline]
    pub fn publish(&mut self, bytes: u32, tag: u8) -> Result<(), SendError> {
        let (position, gap) = self.reserved.take().ok_or(SendError::Corrupt)?;
        let behind = position + Header::lines_of(bytes);
        // Old text must not be read as the header that follows.
        self.blank_line(behind)?;
        let header = Header { bytes, tag }.pack(stamp(self.claim.tag, position));
        self.store(position, header)?;
        if gap != 0 {
            // The message is there before the gap leads to it.
            let header = Header { bytes: GAP, tag: 0 }.pack(stamp(self.claim.tag, self.next));
            self.store(self.next, header)?;
        }
        self.next = behind;
        Ok(())
    }

    /// Clears where the next short message would end, ahead of time: then sending it writes to one
    /// line that the receiver looks at and to none besides.
    #[inline]
    pub fn clear_ahead(&mut self) {
        let behind = self.next + 1;
        if self.next - self.seen + 2 < self.shape.lines() {
            let _ = self.blank_line(behind);
        }
    }

    #[inline]
    fn blank_line(&mut self, position: u64) -> Result<(), SendError> {
        if self.blank == position {
            return Ok(());
        }
        let at = self.line_at(position);
        inside(self.map.store(at, 0, Ordering::Relaxed)).ok_or(SendError::Corrupt)?;
        self.blank = position;
        Ok(())
    }

    #[inline]
    fn store(&self, position: u64, header: u64) -> Result<(), SendError> {
        let at = self.line_at(position);
        // Pairs with the receiver's acquire: the message and the zero behind it come first.
        inside(self.map.store(at, header, Ordering::Release)).ok_or(SendError::Corrupt)
    }

    /// Sends a message in one piece.
    ///
    /// # Errors
    /// As [`Outbound::reserve`].
    pub fn send(&mut self, parts: &[&[u8]], tag: u8) -> Result<(), SendError> {
        let bytes = parts.iter().try_fold(0_u32, |sum, part| {
            u32::try_from(part.len()).ok().and_then(|bytes| sum.checked_add(bytes))
        });
        let bytes = bytes.ok_or(SendError::TooLong)?;
        let mut at = self.reserve(bytes)?;
        for part in parts {
            inside(self.map.write(at, part)).ok_or(SendError::Corrupt)?;
            at += part.len() as u64;
        }
        self.publish(bytes, tag)
    }

    /// Gives the lane back. What was sent and not read yet is still read.
    pub fn close(self) {
        let at = self.base + self.shape.lane_at(self.lane);
        // The receiver frees it once it is empty: name no sender, but keep it taken.
        let _ = self.map.replace_cell(at + CLAIM, self.claim, LEFT);
    }
}
