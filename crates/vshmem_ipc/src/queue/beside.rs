//! Receivers that sleep beside a ring that stays in use.
//!
//! A receiver that has to sleep would otherwise close the ring for everybody, with the first of many clients that waits for an
//! answer. In the line of a ring's queue there is only who accepts none of the messages in the ring, and each sender finds
//! in the word of the mode whether somebody may wait for its type (`awaited.rs`). If so, it goes under the lock and hands its message over,
//! past the ring: none in the ring is one that the sleeper accepts.
//!
//! Joining the line: under the lock the receiver closes the tail of the ring, so that nobody sends, and looks at the messages. Then it
//! joins, adds its type to the word, and lets senders pass at the next position, in one step. A sender that meets the barrier
//! looks again for a moment. A sender looks at the ring first and at
//! the word after it. If it has looked at the ring before the tail was closed, then its compare-and-swap fails; if
//! later, it finds the type.
//!
//! Leaving the line changes nothing else: a type that nobody waits for any more only sends a sender under the lock, which
//! then finds nobody, corrects the word and sends by way of the ring.

use super::awaited::{Awaited, says_list};
use super::receive::Wanted;
use super::ring::{header_of, let_senders_pass};
use super::send::Handed;
use super::{Queue, at};
use crate::access::{Caller, Permission, WRITE};
use crate::heap;
use crate::message::Header;
use crate::wait::Rings;
use crate::{Errno, Member, Verdict, settle};
use vshmem_mem::seconds_now;
use vshmem_sync::{Desk, MessageRing, Seat, Tail, field};
use vshmem_wire::{Cell, MSG_HEADER_BYTES, MsgSlot, RING_SHORT_BYTES};

/// What became of a message for which somebody in line may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// A sleeper has it.
    Taken,
    /// Nobody in line accepts it, as long as the cell of the mode is this one.
    Refused(Cell),
    /// It has to go the way of the list.
    List,
}

/// What became of a receiver that wanted to join the line beside a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// It is in line.
    Yes,
    /// There is a message for it in the ring.
    Found,
    /// It has to go the way of the list.
    List,
}

impl Member {
    /// Joins the line of receivers and leaves the ring in use.
    pub(super) fn join_beside_ring(
        &self,
        queue: &Queue,
        wanted: &Wanted,
        desk: &Desk<'_>,
        seat: &Seat<'_>,
    ) -> Verdict<Joined> {
        if self.is_in_list(queue)? {
            return Ok(Ok(Joined::List));
        }
        let (map, layout) = (self.pool().map(), self.pool().layout());
        self.change(desk, queue.lock(), "msg-wait", |txn| {
            let mode = txn.get_word(at!(queue, mode))?;
            if !queue.alive(txn)? || says_list(mode) {
                return Ok(Ok(Joined::List));
            }
            // Anybody may close a ring at any time; and only under this lock does its tail open again.
            MessageRing::bar(map, queue.ring())?;
            let ring = MessageRing::look(map, queue.ring())?;
            let Some(passed) = ring.passed() else { return Ok(Ok(Joined::List)) };
            for spot in ring.messages() {
                let header = header_of(map, layout, spot)?;
                if !wanted.search.accepts(header.kind) {
                    continue;
                }
                if !wanted.search.takes_first(header.kind) || header.size > wanted.room {
                    return Ok(Ok(Joined::List));
                }
                let_senders_pass(txn, layout, queue, passed)?;
                return Ok(Ok(Joined::Found));
            }
            self.join_receivers(txn, queue, wanted, seat)?;
            // Before the tail: who sees that it is open sees the type as well. And written even if it is the same: see `Refused`.
            let awaited = Awaited::in_mode(mode).with(wanted.search);
            txn.set_word(at!(queue, mode), awaited.mode())?;
            let_senders_pass(txn, layout, queue, passed)?;
            Ok(Ok(Joined::Yes))
        })
    }

    /// Hands a message over to a sleeper beside the ring.
    #[cold]
    pub(super) fn offer(
        &self,
        queue: &Queue,
        kind: i64,
        text: &[u8],
        caller: &dyn Caller,
    ) -> Result<Offered, Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        settle(Permission::check(pool.map(), queue.slot, caller, WRITE))?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let chunk = self.take_chunk(&desk, MSG_HEADER_BYTES + text.len() as u64)?;
        let mut rings = Rings::default();
        let mut offer = || -> Verdict<Offered> {
            Header::write_text(pool.map(), layout, chunk, kind, text)?;
            let header = Header { kind, size: text.len() as u64 };
            self.change(&desk, queue.lock(), "msg-offer", |txn| {
                rings.clear();
                let mode = txn.get_word(at!(queue, mode))?;
                if !queue.alive(txn)? || says_list(mode) {
                    return Ok(Ok(Offered::List));
                }
                // The kernel's would not go past a full queue either. Where a slot is free there is room for a short one.
                let ring = MessageRing::look(pool.map(), queue.ring())?;
                let is_short = header.size <= RING_SHORT_BYTES && !ring.may_hold_large();
                let has_slot = is_short && ring.tail() != Tail::Full;
                if !has_slot && !self.has_room(queue, &ring, text.len())? {
                    return Ok(Ok(Offered::List));
                }
                let handed = self.hand_over(txn, queue, header, chunk, &mut rings)?;
                if handed == Handed::Undecided {
                    return Ok(Ok(Offered::List));
                }
                // As long as others sleep, the word is only corrected when it has led somebody here for nothing.
                if handed == Handed::No || txn.get(at!(queue, receive_head))? == 0 {
                    let awaited = Awaited::in_line(txn, layout, queue)?;
                    txn.update_word(at!(queue, mode), awaited.mode())?;
                }
                if handed == Handed::No {
                    return Ok(Ok(Offered::Refused(txn.cell(at!(queue, mode))?)));
                }
                txn.update(at!(queue, sender), self.party().pack())?;
                txn.update(at!(queue, sent), seconds_now())?;
                Ok(Ok(Offered::Taken))
            })
        };
        let offered = settle(offer());
        self.ring_all(&rings);
        if offered != Ok(Offered::Taken) {
            let _ = heap::release(pool, &desk, &self.larder, self.me(), chunk);
        }
        offered
    }
}
