//! msgsnd(2) and msgrcv(2) through the ring: a compare-and-swap each, without the lock.
//!
//! Both look at the ring first and at the rest (is the queue still this one, may the caller, is the
//! chunk still its own) afterwards. Removing a queue, changing its owner and burying a client all
//! close the ring; so if the compare-and-swap succeeds, then what was found was true when it was
//! found and nothing has changed since.
//!
//! A receiver that looks for a while before it sleeps ([`Member::await_message`]) only reads the ring between its attempts, and each of
//! them is the one above. So it adds no step at which a crash could leave anything behind.

use vshmem_mem::{Map, seconds_now, signals_handled, spin_hint};
use vshmem_sync::{
    Answerer, Fault, Inline, MessageRing, Room, Spot, Tail, crash_point, field, load_cell,
    load_value, load_word,
};
use vshmem_wire::{
    Cell, Layout, MSG_HEADER_BYTES, MsgSlot, ObjectHeader, ObjectState, RING_SHORT_BYTES,
    RING_TEXT_BYTES, RingReserve,
};

use super::awaited::{Awaited, says_list};
use super::receive::Deliver;
use super::ring::{Held, chunk_of, claim_parked, header_of};
use super::{Queue, Receive, at};
use crate::access::{Caller, Permission, READ, WRITE};
use crate::heap::{self, Chunk};
use crate::message::{Header, Search};
use crate::{Errno, Member, Verdict};

/// Attempts before a call goes under the lock; each but the last has met somebody else's progress.
const MOST_ATTEMPTS: u32 = 64;

/// Text that is copied on the short way.
const SHORT: usize = 64;

/// Text that is copied by way of the stack, and whose chunk stays with the slot for the next message.
const MEDIUM: usize = 1112;

/// Who and when, of the last msgsnd or msgrcv: not part of the step, whoever writes it last.
struct Stamp {
    party_at: u64,
    party: Cell,
    time_at: u64,
    time: Cell,
}

impl Stamp {
    /// As it is before the step: a queue that has changed hands since does not get it.
    #[inline]
    fn before(map: &Map, party_at: u64, time_at: u64) -> Result<Self, Fault> {
        let (party, time) = (load_cell(map, party_at)?, load_cell(map, time_at)?);
        Ok(Self { party_at, party, time_at, time })
    }

    #[inline]
    fn renew(&self, map: &Map, party: u32) -> Result<(), Fault> {
        if self.party.value() != party {
            map.replace_cell(self.party_at, self.party, party.into())?;
        }
        let now = seconds_now();
        if self.time.value() != now {
            map.replace_cell(self.time_at, self.time, now.into())?;
        }
        Ok(())
    }
}

/// What msgrcv answers, in one word: bytes, or an errno below zero.
///
/// A `Result<usize, Errno>` is copied from its odd offsets on, together with what has just been stored in parts: the processor
/// waits for such a load until all the stores are done. A receiver paid some 30 ns for that on the way of its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer(i64);

impl Answer {
    #[inline]
    fn of(result: Result<usize, Errno>) -> Self {
        match result {
            Ok(bytes) => Self(bytes as i64),
            Err(errno) => Self::error(errno),
        }
    }

    #[inline]
    fn error(errno: Errno) -> Self {
        Self(-i64::from(errno.raw_os_error()))
    }

    #[inline]
    pub fn result(self) -> Result<usize, Errno> {
        usize::try_from(self.0).map_err(|_| Errno::from_raw_os_error(-self.0 as i32))
    }
}

/// The chunk that a slot notes is what the next message is sent in.
#[inline]
fn will_write_chunk(map: &Map, layout: &Layout, spot: Spot) {
    if let Some(Ok(at)) = spot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_write(at);
    }
}

/// The chunk in a slot is that of the next message, if there is one.
#[inline]
fn will_read_chunk(map: &Map, layout: &Layout, spot: Spot) {
    if let Some(Ok(at)) = spot.chunk().map(|unit| Chunk(unit).offset(layout)) {
        map.will_read(at);
    }
}

/// How an attempt to send a message through the ring ended.
pub(super) enum InRing {
    Sent,
    /// Somebody in line may wait for it.
    Awaited,
    /// This is not for the ring.
    Slow,
}

/// How an attempt to take a message ended.
pub(crate) enum Taken {
    Delivered(Answer),
    /// There was none for this receiver, after everything that the ring held had been looked at.
    Nothing,
    /// Somebody was faster.
    Again,
    /// This is not for the ring.
    Slow,
}

impl Member {
    /// Whether the queue is still the one that was looked up, and this process a member.
    #[inline]
    fn queue_stands(&self, queue: &Queue) -> Result<bool, Fault> {
        let state = load_value(self.pool().map(), field!(queue.slot, ObjectHeader, state))?;
        Ok(state == queue.stands(ObjectState::Live) && self.stands())
    }

    /// Sends a message through the ring. `refused`: nobody in line accepts it as long as this is the cell of the mode.
    /// `signals_seen` is set when the call has begun to wait.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    pub(super) fn send_in_ring(
        &self,
        queue: &Queue,
        kind: i64,
        text: &[u8],
        no_wait: bool,
        caller: &dyn Caller,
        refused: Option<Cell>,
        signals_seen: &mut Option<u32>,
    ) -> Verdict<InRing> {
        let mut held = None;
        let sent =
            self.try_to_send(queue, kind, text, no_wait, caller, refused, signals_seen, &mut held);
        if let Some(held) = held {
            self.keep(held);
        }
        sent
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn try_to_send(
        &self,
        queue: &Queue,
        kind: i64,
        text: &[u8],
        no_wait: bool,
        caller: &dyn Caller,
        refused: Option<Cell>,
        signals_seen: &mut Option<u32>,
        held: &mut Option<Held>,
    ) -> Verdict<InRing> {
        let (map, layout) = (self.pool().map(), self.pool().layout());
        let is_large = text.len() as u64 > RING_SHORT_BYTES;
        let short = Inline::of(kind, text);
        let mut ring = MessageRing::at(queue.ring());
        for _ in 0..MOST_ATTEMPTS {
            ring.refresh(map)?;
            // After the look: whoever lies down later makes that one fail.
            let mode = load_word(map, at!(queue, mode))?;
            if says_list(mode) {
                return Ok(Ok(InRing::Slow));
            }
            if Awaited::in_mode(mode).has(kind)
                && (refused.is_none() || refused != Some(load_cell(map, at!(queue, mode))?))
            {
                return Ok(Ok(InRing::Awaited));
            }
            let spot = match ring.tail() {
                Tail::Free(spot) => spot,
                Tail::Full if self.await_room(&ring, signals_seen) => continue,
                Tail::Full => return Ok(Ok(InRing::Slow)),
                // Some receiver lies down just now; or somebody is about to use the list.
                Tail::Closed => {
                    spin_hint();
                    continue;
                }
            };
            // These lines are on the receiver's side, and come at once when they are asked for at once.
            map.will_write(spot.at);
            map.will_read(at!(queue, sender));
            will_write_chunk(map, layout, spot);
            // Also when there is one in hand: the slot is about to forget what it notes.
            if let Some(parked) = claim_parked(map, layout, queue.index, spot, self.me())? {
                crash_point("msg-fast-send", "claimed");
                // One that is in hand is large enough.
                match held {
                    Some(_) => parked.free(map)?,
                    None => *held = Some(parked),
                }
            }
            let reserve = load_value(map, at!(queue, tail))?;
            let inline = short.filter(|_| RingReserve::is_whole(reserve));
            if inline.is_none() && short.is_some() && self.is_reserve_due() {
                self.stock_reserve(queue)?;
                continue;
            }
            let bytes = text.len() as u64;
            let chunk = match *held {
                _ if inline.is_some() => None,
                Some(chunk) if chunk.fits(map, layout, bytes)? => Some(chunk),
                small => {
                    if let Some(small) = small {
                        *held = None;
                        small.free(map)?;
                    }
                    *held = self.enrol(queue, text.len())?;
                    if held.is_none() {
                        return Ok(Ok(InRing::Slow));
                    }
                    continue;
                }
            };
            if (is_large || ring.may_hold_large()) && !self.has_room(queue, &ring, text.len())? {
                if !no_wait && self.await_bytes(queue, text.len(), signals_seen) {
                    continue;
                }
                return Ok(Ok(InRing::Slow));
            }
            if !self.queue_stands(queue)? {
                return Ok(Ok(InRing::Slow));
            }
            if let Err(errno) = Permission::check(map, queue.slot, caller, WRITE)? {
                return Ok(Err(errno));
            }
            if let Some(chunk) = chunk {
                if !chunk.is_ours(map)? {
                    *held = None;
                    return Ok(Ok(InRing::Slow));
                }
                chunk.write(map, layout, queue.index, spot, kind, text)?;
            }
            let stamp = Stamp::before(map, at!(queue, sender), at!(queue, sent))?;
            crash_point("msg-fast-send", "written");
            let is_sent = match (inline, chunk) {
                (Some(message), _) => spot.fill_inline(map, message)?,
                (None, Some(chunk)) => spot.fill(map, chunk.chunk.0, is_large)?,
                (None, None) => false,
            };
            if is_sent {
                if inline.is_none() {
                    *held = None;
                }
                crash_point("msg-fast-send", "sent");
                will_write_chunk(map, layout, ring.behind(spot));
                self.room.note_sent();
                stamp.renew(map, self.party().pack())?;
                crash_point("msg-fast-send", "stamped");
                return Ok(Ok(InRing::Sent));
            }
        }
        Ok(Ok(InRing::Slow))
    }

    /// Looks for a while for room in a ring that is full.
    #[cold]
    fn await_room(&self, ring: &MessageRing, signals_seen: &mut Option<u32>) -> bool {
        if self.answerer() == Answerer::OnThisCpu {
            return false;
        }
        // A handler that runs from now on interrupts the sleep that this call may come to.
        signals_seen.get_or_insert_with(signals_handled);
        self.room.look_for_room(|| ring.room(self.pool().map()))
    }

    /// Whether a queue allows a message of so many bytes beside those that `ring` holds.
    ///
    /// The sizes that are read are those of its messages, or else of chunks whose messages have been taken since: nobody writes into the
    /// chunk of a message in the ring. So if the slot of the tail is filled then, there was room; also for what others
    /// allow: a change of the limit closes the ring.
    #[cold]
    pub(super) fn has_room(
        &self,
        queue: &Queue,
        ring: &MessageRing,
        bytes: usize,
    ) -> Result<bool, Fault> {
        let (map, layout) = (self.pool().map(), self.pool().layout());
        let mut sum = bytes as u64;
        for spot in ring.messages() {
            sum = sum.saturating_add(header_of(map, layout, spot)?.size);
        }
        Ok(sum <= load_value(map, at!(queue, limit))?.into())
    }

    /// Looks for a while for room for so many bytes.
    #[cold]
    fn await_bytes(&self, queue: &Queue, bytes: usize, signals_seen: &mut Option<u32>) -> bool {
        if self.answerer() == Answerer::OnThisCpu {
            return false;
        }
        signals_seen.get_or_insert_with(signals_handled);
        let mut ring = MessageRing::at(queue.ring());
        self.room.look_for_room(|| {
            let read = ring.refresh(self.pool().map());
            let has_room = read.and_then(|()| self.has_room(queue, &ring, bytes));
            // What makes no sense is told by the caller's next attempt; so is a ring that was closed.
            let is_over = ring.tail() == Tail::Closed || has_room.unwrap_or(true);
            if is_over { Room::Plenty } else { Room::None }
        })
    }

    /// Looks for a while whether a queue that uses its list comes to use its ring again, as receivers take what is in it.
    pub(super) fn await_ring(&self, queue: &Queue, signals_seen: &mut Option<u32>) -> bool {
        let map = self.pool().map();
        let left = || load_value(map, at!(queue, count)).unwrap_or(0);
        // Who sleeps is woken by the message that is to be sent.
        let is_idle = load_value(map, at!(queue, receive_head)).is_ok_and(|first| first != 0);
        let mut least = left();
        let may_look = || self.answerer() == Answerer::OnAnotherCpu;
        if least == 0 || is_idle || !self.room.may_look(may_look) {
            return false;
        }
        signals_seen.get_or_insert_with(signals_handled);
        let mut found = Room::None;
        self.room.look_for_ring(|| {
            if !self.is_in_list(queue).unwrap_or(true) {
                return Room::Plenty;
            }
            let now = left();
            if now < least {
                found = Room::Some;
            }
            least = now;
            found
        })
    }

    /// A chunk from the heap, for a ring that has none to spare; `None` when there is none.
    #[cold]
    fn enrol(&self, queue: &Queue, text: usize) -> Result<Option<Held>, Fault> {
        let Ok(seat) = self.seat() else { return Ok(None) };
        let Ok(chunk) = self.take_chunk(&self.desk_of(&seat), MSG_HEADER_BYTES + text as u64)
        else {
            return Ok(None);
        };
        Held::enrol(self.pool().map(), self.pool().layout(), queue.index, chunk).map(Some)
    }

    /// Keeps a chunk that was not used after all.
    #[cold]
    fn keep(&self, held: Held) {
        // Without a seat it stays this client's until the end.
        if let Ok(seat) = self.seat() {
            let desk = self.desk_of(&seat);
            let _ = heap::release(self.pool(), &desk, &self.larder, self.me(), held.chunk);
        }
    }

    /// Receives a message through the ring. `None`: it has to go under the lock. `seen` is set when
    /// the call has begun to wait.
    #[inline]
    pub(super) fn receive_from_ring(
        &self,
        queue: &Queue,
        wanted: Receive,
        caller: &dyn Caller,
        deliver: &mut Deliver<'_>,
        seen: &mut Option<u32>,
    ) -> Result<Option<Answer>, Fault> {
        if self.is_in_list(queue)? {
            return Ok(None);
        }
        let map = self.pool().map();
        let mut ring = MessageRing::at(queue.ring());
        for _ in 0..MOST_ATTEMPTS {
            ring.refresh(map)?;
            match self.take_first(queue, &ring, wanted, caller, deliver)? {
                Taken::Delivered(answer) => return Ok(Some(answer)),
                Taken::Again => {}
                Taken::Nothing => {
                    return self.await_message(queue, &mut ring, wanted, caller, deliver, seen);
                }
                Taken::Slow => break,
            }
        }
        Ok(None)
    }

    /// Takes the first message that the receiver accepts: see `vshmem_sync::MessageRing` for why it is the first.
    #[inline]
    fn take_first(
        &self,
        queue: &Queue,
        ring: &MessageRing,
        wanted: Receive,
        caller: &dyn Caller,
        deliver: &mut Deliver<'_>,
    ) -> Result<Taken, Fault> {
        let (map, layout) = (self.pool().map(), self.pool().layout());
        let search = Search::of(wanted.kind, wanted.except, false);
        let mut may_be_lowest = false;
        for spot in ring.messages() {
            if spot.is_closed() {
                return Ok(Taken::Slow);
            }
            map.will_write(spot.at);
            map.will_read(at!(queue, receiver));
            let header = header_of(map, layout, spot)?;
            if search.takes_first(header.kind) {
                will_read_chunk(map, layout, ring.behind(spot));
                return self.take_message(queue, spot, header, wanted, caller, deliver);
            }
            may_be_lowest |= search.accepts(header.kind);
        }
        // Which of several types is the lowest is told under the lock.
        if may_be_lowest || ring.tail() == Tail::Closed {
            return Ok(Taken::Slow);
        }
        Ok(if ring.has_moved(map) { Taken::Again } else { Taken::Nothing })
    }

    /// Takes a message, if it is short enough for the ring and for the receiver.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn take_message(
        &self,
        queue: &Queue,
        spot: Spot,
        header: Header,
        wanted: Receive,
        caller: &dyn Caller,
        deliver: &mut Deliver<'_>,
    ) -> Result<Taken, Fault> {
        let (map, layout) = (self.pool().map(), self.pool().layout());
        let fits = header.size <= wanted.room as u64 || wanted.cut;
        if header.size > RING_TEXT_BYTES || !fits {
            return Ok(Taken::Slow);
        }
        let size = (header.size as usize).min(wanted.room);
        if spot.is_inline() {
            let text = spot.inline_text(map)?;
            return self.finish(queue, spot, header.kind, &text[..size], caller, deliver);
        }
        let text = chunk_of(spot)?.offset(layout)? + MSG_HEADER_BYTES;
        let mut finish = |copy: &mut [u8]| {
            map.read(text, copy)?;
            self.finish(queue, spot, header.kind, copy, caller, deliver)
        };
        if size <= SHORT {
            finish(&mut [0; SHORT][..size])
        } else if size <= MEDIUM {
            finish(&mut [0; MEDIUM][..size])
        } else {
            // No stack need be so deep. Whoever comes while another thread uses it goes under the lock.
            let Ok(mut copy) = self.text.try_lock() else { return Ok(Taken::Slow) };
            finish(&mut copy[..size])
        }
    }

    /// Takes the message whose text has been copied.
    #[inline]
    fn finish(
        &self,
        queue: &Queue,
        spot: Spot,
        kind: i64,
        text: &[u8],
        caller: &dyn Caller,
        deliver: &mut Deliver<'_>,
    ) -> Result<Taken, Fault> {
        let map = self.pool().map();
        if !self.queue_stands(queue)? {
            return Ok(Taken::Slow);
        }
        if let Err(errno) = Permission::check(map, queue.slot, caller, READ)? {
            return Ok(Taken::Delivered(Answer::error(errno)));
        }
        let stamp = Stamp::before(map, at!(queue, receiver), at!(queue, received))?;
        crash_point("msg-fast-receive", "copied");
        if !spot.take(map)? {
            return Ok(Taken::Again);
        }
        crash_point("msg-fast-receive", "taken");
        stamp.renew(map, self.party().pack())?;
        crash_point("msg-fast-receive", "stamped");
        if text.len() > MEDIUM {
            self.take_along(queue, spot)?;
        }
        let delivered = deliver(kind, text.len(), &|into: &mut [u8]| {
            let size = into.len().min(text.len());
            into[..size].copy_from_slice(&text[..size]);
        });
        Ok(Taken::Delivered(Answer::of(delivered)))
    }

    /// Takes the chunk of a message that was taken: an idle queue does not keep large ones.
    #[cold]
    fn take_along(&self, queue: &Queue, spot: Spot) -> Result<(), Fault> {
        let (map, layout) = (self.pool().map(), self.pool().layout());
        if let Some(held) = claim_parked(map, layout, queue.index, spot.taken(), self.me())? {
            crash_point("msg-fast-receive", "claimed");
            self.keep(held);
        }
        Ok(())
    }

    /// Looks for a while for a message in a ring that has none for this receiver.
    #[cold]
    fn await_message(
        &self,
        queue: &Queue,
        ring: &mut MessageRing,
        wanted: Receive,
        caller: &dyn Caller,
        deliver: &mut Deliver<'_>,
        seen: &mut Option<u32>,
    ) -> Result<Option<Answer>, Fault> {
        let map = self.pool().map();
        if !self.queue_stands(queue)? {
            return Ok(None);
        }
        if let Err(errno) = Permission::check(map, queue.slot, caller, READ)? {
            return Ok(Some(Answer::error(errno)));
        }
        if wanted.no_wait {
            // All of them had been taken by then, or were for others, and another was not there.
            return Ok((!ring.has_moved(map)).then_some(Answer::error(Errno::NOMSG)));
        }
        let signals_seen = *seen.get_or_insert_with(signals_handled);
        let mut look = self.spin.begin(self.answerer());
        while !look.is_over() && signals_handled() == signals_seen {
            if !ring.has_moved(map) {
                continue;
            }
            ring.refresh(map)?;
            match self.take_first(queue, ring, wanted, caller, deliver)? {
                Taken::Delivered(answer) => {
                    look.succeed();
                    return Ok(Some(answer));
                }
                // `take_first` may have been late: the next turn looks again.
                Taken::Again | Taken::Nothing => {}
                Taken::Slow => break,
            }
        }
        Ok(None)
    }
}
