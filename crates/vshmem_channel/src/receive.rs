//! The receiver's end: a port and what comes in.

use std::sync::Arc;

use vshmem_mem::{Map, Ordering};
use vshmem_wire::Cell;

use crate::layout::{
    ASKED_AT, CLAIM, CLAIMS_AT, FREE, GAP, HEAD, Header, Identity, LEFT, LINE, MAGIC, MAGIC_AT,
    NEXT_AT, NEXT_NONCE_AT, NO_MORE, NONCE_AT, OWNER_AT, READY, SENDER_MARK, SENDER_NONCE,
    SENDER_PORT, SHAPE_AT, Shape, inside, stamp,
};

/// A lane that a sender has claimed.
#[derive(Debug)]
struct Lane {
    index: u32,
    /// Tag of the sender's claim.
    claim: u64,
    sender: Identity,
    /// Position of the next message.
    next: u64,
    /// Position up to which the sender has been informed.
    published: u64,
    /// First byte of its ring in the map.
    ring: u64,
    /// Nothing of it is read any more.
    corrupt: bool,
}

/// Where a message lies. The sender may change it at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inbound {
    /// Which lane, for [`Port::sender`].
    pub lane: u32,
    /// Offset of its first byte in the map.
    pub at: u64,
    /// Bytes.
    pub bytes: u32,
    /// What the sender has tagged it with.
    pub tag: u8,
}

/// What a look at a port finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A message. It stays where it is until [`Port::release`].
    Message(Inbound),
    /// Nothing.
    Empty,
    /// A sender's ring is invalid; it is not read any more. Reported once.
    Corrupt(Identity),
    /// A sender is gone, and everything that it had sent is read. Reported once.
    Left(Identity),
}

/// Lanes that are looked at in one go.
const AT_ONCE: usize = 16;
/// Calls in vain after which the senders are told how far all is read.
const PUBLISHED_AFTER: u32 = 16;
/// Looks in vain after which the lanes are checked for senders that have ended.
const TIMEOUT: u32 = 1 << 20;

/// A receiver's port.
#[derive(Debug)]
pub struct Port {
    map: Arc<Map>,
    base: u64,
    shape: Shape,
    nonce: u64,
    lanes: Vec<Lane>,
    /// Claims that were seen.
    claims: u64,
    /// Which of `lanes` is looked at first.
    turn: usize,
    idle: u32,
    mask: u64,
    /// How often senders have asked for more lanes, when that was last looked at.
    asked: u64,
}

impl Port {
    /// Makes a port in memory that is not used for anything else.
    ///
    /// `None` when the memory does not hold it.
    pub fn make(map: &Arc<Map>, base: u64, shape: Shape, nonce: u64, owner: u64) -> Option<Self> {
        let store = |at: u64, value| inside(map.store(base + at, value, Ordering::Relaxed));
        if base.checked_add(shape.bytes()).is_none_or(|end| end > map.bytes()) {
            return None;
        }
        store(MAGIC_AT, 0)?;
        store(NONCE_AT, nonce)?;
        store(SHAPE_AT, shape.pack())?;
        store(OWNER_AT, owner)?;
        for word in [CLAIMS_AT, ASKED_AT, NEXT_NONCE_AT, NEXT_AT] {
            store(word, 0)?;
        }
        for lane in 0..shape.lanes() {
            let at = shape.lane_at(lane);
            // Senders of a port that lay here before have claims with other tags.
            inside(map.lay_cell(base + at + CLAIM, Cell { word: FREE, tag: nonce }))?;
            store(at + READY, nonce)?;
            store(at + HEAD, 0)?;
            store(shape.ring_at(lane), 0)?;
        }
        inside(map.store(base + MAGIC_AT, MAGIC, Ordering::Release))?;
        let map = Arc::clone(map);
        let mask = shape.lines() - 1;
        let lanes = Vec::with_capacity(shape.lanes() as usize);
        Some(Self { map, base, shape, nonce, lanes, claims: 0, turn: 0, idle: 0, mask, asked: 0 })
    }

    /// Nothing is read any more; senders see that.
    pub fn close(&self) {
        let _ = inside(self.map.store(self.base + MAGIC_AT, 0, Ordering::Release));
    }

    /// Whether a sender has found no lane since this was last asked, and none is free.
    pub fn is_asked_for_more(&mut self) -> bool {
        let asked = inside(self.map.load(self.base + ASKED_AT, Ordering::Relaxed)).unwrap_or(0);
        let before = std::mem::replace(&mut self.asked, asked);
        asked != before && self.is_full()
    }

    fn is_full(&self) -> bool {
        self.lanes.len() == self.shape.lanes() as usize
    }

    /// Says where senders find more lanes: a segment and the nonce of the port in it. `None`: there
    /// is no memory for more.
    pub fn lead_on(&self, next: Option<(u32, u64)>) {
        let (id, nonce) = next.map_or((NO_MORE, 0), |(id, nonce)| (u64::from(id), nonce));
        let _ = inside(self.map.store(self.base + NEXT_NONCE_AT, nonce, Ordering::Relaxed));
        // Pairs with the sender's acquire.
        let _ = inside(self.map.store(self.base + NEXT_AT, id, Ordering::Release));
    }

    /// Its number.
    #[must_use]
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Senders there are.
    #[must_use]
    pub fn senders(&self) -> usize {
        self.lanes.len()
    }

    /// Who sends on a lane.
    #[must_use]
    pub fn sender(&self, lane: u32) -> Option<Identity> {
        self.lanes.iter().find(|known| known.index == lane).map(|known| known.sender)
    }

    /// Looks for a message, up to `looks` times. `alive` is asked now and then whether a sender
    /// still is, by its name in the pool.
    #[inline(always)]
    pub fn receive(&mut self, looks: u32, alive: impl Fn(u64) -> bool) -> Received {
        for _ in 0..looks {
            let claims =
                inside(self.map.load(self.base + CLAIMS_AT, Ordering::Acquire)).unwrap_or(0);
            if claims != self.claims {
                self.claims = claims;
                self.find_new_lanes();
            }
            let known = self.lanes.len();
            for _ in 0..known.min(AT_ONCE) {
                if self.turn >= known {
                    self.turn = 0;
                }
                if self.is_quiet(self.turn) {
                    self.turn += 1;
                    continue;
                }
                match self.peek(self.turn) {
                    Received::Empty => self.turn += 1,
                    found => {
                        self.idle = 0;
                        return found;
                    }
                }
            }
        }
        self.idle += 1;
        if self.idle == PUBLISHED_AFTER {
            self.publish_all();
        }
        if self.idle >= TIMEOUT {
            self.idle = 0;
            return self.reclaim(alive);
        }
        Received::Empty
    }

    /// Tells each sender how far its lane is read. While messages come, [`Port::release`] tells it
    /// by the quarter of a ring only: this is for the last ones, see `Outbound::is_drained`.
    #[cold]
    fn publish_all(&mut self) {
        for nth in 0..self.lanes.len() {
            if self.lanes[nth].next != self.lanes[nth].published {
                self.publish(nth);
            }
        }
    }

    /// Tells the sender of a lane how far it is read.
    #[inline]
    fn publish(&mut self, nth: usize) {
        let lane = &mut self.lanes[nth];
        lane.published = lane.next;
        let at = self.base + self.shape.lane_at(lane.index) + HEAD;
        // Pairs with the sender's acquire: it may write over what was read.
        let _ = self.map.store(at, lane.next, Ordering::Release);
    }

    /// Whether nothing lies where the next message of a lane comes.
    #[inline]
    fn is_quiet(&self, nth: usize) -> bool {
        let lane = &self.lanes[nth];
        let at = lane.ring + (lane.next & self.mask) * LINE;
        let word = inside(self.map.load(at, Ordering::Relaxed)).unwrap_or(0);
        Header::unpack(word, stamp(lane.claim, lane.next)).is_none()
    }

    #[inline]
    fn peek(&mut self, nth: usize) -> Received {
        let lane = &mut self.lanes[nth];
        if lane.corrupt {
            return Received::Empty;
        }
        loop {
            let at = lane.ring + (lane.next & self.mask) * LINE;
            // Pairs with the sender's release.
            let Some(word) = inside(self.map.load(at, Ordering::Acquire)) else {
                return Received::Empty;
            };
            let Some(header) = Header::unpack(word, stamp(lane.claim, lane.next)) else {
                return Received::Empty;
            };
            let to_end = self.shape.lines() - (lane.next & self.mask);
            if header.bytes == GAP {
                lane.next += to_end;
                continue;
            }
            let whole = Header::lines_of(header.bytes) <= to_end;
            if !whole || header.bytes > self.shape.most_bytes() {
                lane.corrupt = true;
                return Received::Corrupt(lane.sender);
            }
            let Header { bytes, tag } = header;
            return Received::Message(Inbound { lane: lane.index, at: at + 8, bytes, tag });
        }
    }

    /// The message that was received last is no longer needed.
    #[inline(always)]
    pub fn release(&mut self, message: &Inbound) {
        // The caller that releases has just received: the turn is still at that lane.
        let nth = match self.lanes.get(self.turn) {
            Some(lane) if lane.index == message.lane => self.turn,
            _ => match self.lanes.iter().position(|lane| lane.index == message.lane) {
                Some(nth) => nth,
                None => return,
            },
        };
        let quarter = self.shape.lines() / 4;
        let lane = &mut self.lanes[nth];
        lane.next += Header::lines_of(message.bytes);
        if lane.next - lane.published >= quarter {
            self.publish(nth);
        }
        // The next look begins with the next lane: a sender that floods does not keep the others
        // waiting.
        self.turn = nth + 1;
    }

    /// Finds lanes that have been claimed since.
    #[cold]
    fn find_new_lanes(&mut self) {
        for index in 0..self.shape.lanes() {
            if self.lanes.iter().any(|lane| lane.index == index) {
                continue;
            }
            if let Some(lane) = self.meet(index) {
                self.lanes.push(lane);
            }
        }
        if self.is_full() {
            // Those of senders that have left are freed when nothing comes next.
            self.idle = TIMEOUT;
        }
    }

    fn meet(&self, index: u32) -> Option<Lane> {
        let at = self.base + self.shape.lane_at(index);
        let word = |offset, order| inside(self.map.load(at + offset, order));
        let now = inside(self.map.load_cell(at + CLAIM))?;
        let ready = word(READY, Ordering::Acquire)?;
        // The sender that closes the lane has written the tag after that of its claim.
        let claim = if now.word == LEFT { now.tag.wrapping_sub(1) } else { now.tag };
        if now.word == FREE || ready != claim {
            return None;
        }
        let sender = Identity {
            client: now.word,
            port: word(SENDER_PORT, Ordering::Relaxed)? as u32,
            nonce: word(SENDER_NONCE, Ordering::Relaxed)?,
            mark: word(SENDER_MARK, Ordering::Relaxed)?,
        };
        let ring = self.base + self.shape.ring_at(index);
        Some(Lane { index, claim, sender, next: 0, published: 0, ring, corrupt: false })
    }

    /// Frees a lane whose sender is gone, once everything is read; tells of at most one.
    #[cold]
    pub fn reclaim(&mut self, alive: impl Fn(u64) -> bool) -> Received {
        for index in 0..self.shape.lanes() {
            let at = self.base + self.shape.lane_at(index) + CLAIM;
            let Some(claim) = inside(self.map.load_cell(at)) else { continue };
            if claim.word == FREE || (claim.word != LEFT && alive(claim.word)) {
                continue;
            }
            // It may have sent until it ended: that was before we asked.
            let nth = self.lanes.iter().position(|lane| lane.index == index);
            if let Some(nth) = nth
                && let found @ Received::Message(_) = self.peek(nth)
            {
                self.turn = nth;
                return found;
            }
            let sender = nth.map(|nth| self.lanes.swap_remove(nth).sender);
            self.free(index, claim);
            if let Some(sender) = sender {
                return Received::Left(sender);
            }
        }
        Received::Empty
    }

    /// Readies a lane for its next holder. Whatever its last one still writes bears another stamp.
    fn free(&self, index: u32, claim: Cell) {
        let at = self.base + self.shape.lane_at(index);
        let ring = self.base + self.shape.ring_at(index);
        for word in [at + HEAD, ring] {
            let _ = self.map.store(word, 0, Ordering::Relaxed);
        }
        let _ = self.map.replace_cell(at + CLAIM, claim, FREE);
    }
}
