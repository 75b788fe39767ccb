//! Receivers that sleep beside a ring that stays in use.
//!
//! A receiver that has to sleep would otherwise close the ring for everybody, with the first of
//! many clients that waits for an answer. In the line of a ring's queue there is only who accepts
//! none of the messages in the ring, and each sender finds in the word of the mode whether somebody
//! may wait for its type (`awaited.rs`). If so, it goes under the lock and hands its message over,
//! past the ring: none in the ring is one that the sleeper accepts.
//!
//! Joining the line: under the lock the receiver closes the tail of the ring, so that nobody sends,
//! and looks at the messages. Then it joins, adds its type to the word, and lets senders pass at
//! the next position, in one step. A sender that meets the barrier looks again for a moment. A
//! sender looks at the ring first and at the word after it. If it has looked at the ring before the
//! tail was closed, then its compare-and-swap fails; if later, it finds the type.
//!
//! Leaving the line changes nothing else: a type that nobody waits for any more only sends a sender
//! under the lock, which then finds nobody, corrects the word and sends by way of the ring.

use vshmem_mem::seconds_now;
use vshmem_sync::{Desk, MessageRing, Seat, Tail};
use vshmem_wire::{Cell, MSG_HEADER_BYTES, RING_SHORT_BYTES};

use crate::context::Context;
use crate::error::{Failure, Verdict, settle};
use crate::memory::{change, chunks};
use crate::msg::awaited_types::{Awaited, says_list};
use crate::msg::fast_send;
use crate::msg::message::Header;
use crate::msg::queue::{Queue, at};
use crate::msg::ring::{self, header_of, let_senders_pass};
use crate::msg::waiters::{self, Handed, Wanted};
use crate::registry::permission::{Caller, Permission, WRITE};
use crate::wait::doorbell;
use crate::wait::wait_queue::Rings;

/// What became of a message for which somebody in line may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// A sleeper has it.
    Taken,
    /// Nobody in line accepts it, as long as the cell of the mode is this one.
    Refused(Cell),
    /// It has to go the way of the list.
    List,
}

/// What became of a receiver that wanted to join the line beside a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is in line.
    Yes,
    /// There is a message for it in the ring.
    Found,
    /// It has to go the way of the list.
    List,
}

/// Joins the line of receivers and leaves the ring in use.
pub(crate) fn join_beside_ring(
    context: &Context,
    queue: &Queue,
    wanted: &Wanted,
    desk: &Desk<'_>,
    seat: &Seat<'_>,
) -> Verdict<Joined> {
    if ring::is_in_list(context, queue)? {
        return Ok(Ok(Joined::List));
    }
    let (map, layout) = (context.pool().map(), context.pool().layout());
    change::run(context, desk, queue.lock(), "msg-wait", |txn| {
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
        waiters::join_receivers(context, txn, queue, wanted, seat)?;
        // Before the tail: who sees that it is open sees the type as well. And written even if it
        // is the same: see `Refused`.
        let awaited = Awaited::in_mode(mode).with(wanted.search);
        txn.set_word(at!(queue, mode), awaited.mode())?;
        let_senders_pass(txn, layout, queue, passed)?;
        Ok(Ok(Joined::Yes))
    })
}

/// Hands a message over to a sleeper beside the ring.
#[cold]
pub(crate) fn offer(
    context: &Context,
    queue: &Queue,
    kind: i64,
    text: &[u8],
    caller: &dyn Caller,
) -> Result<Offered, Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    settle(Permission::check(pool.map(), queue.slot, caller, WRITE))?;
    let seat = context.seat()?;
    let desk = context.desk_of(&seat);
    let chunk = chunks::take(context, &desk, MSG_HEADER_BYTES + text.len() as u64)?;
    let mut rings = Rings::default();
    let mut offer = || -> Verdict<Offered> {
        Header::write_text(pool.map(), layout, chunk, kind, text)?;
        let header = Header { kind, size: text.len() as u64 };
        change::run(context, &desk, queue.lock(), "msg-offer", |txn| {
            rings.clear();
            let mode = txn.get_word(at!(queue, mode))?;
            if !queue.alive(txn)? || says_list(mode) {
                return Ok(Ok(Offered::List));
            }
            // The kernel's would not go past a full queue either. Where a slot is free there is
            // room for a short one.
            let ring = MessageRing::look(pool.map(), queue.ring())?;
            let is_short = header.size <= RING_SHORT_BYTES && !ring.may_hold_large();
            let has_slot = is_short && ring.tail() != Tail::Full;
            if !has_slot && !fast_send::has_room(context, queue, &ring, text.len())? {
                return Ok(Ok(Offered::List));
            }
            let handed = waiters::hand_over(context, txn, queue, header, chunk, &mut rings)?;
            if handed == Handed::Undecided {
                return Ok(Ok(Offered::List));
            }
            // As long as others sleep, the word is only corrected when it has led somebody here for
            // nothing.
            if handed == Handed::No || txn.get(at!(queue, receive_head))? == 0 {
                let awaited = Awaited::in_line(txn, layout, queue)?;
                txn.update_word(at!(queue, mode), awaited.mode())?;
            }
            if handed == Handed::No {
                return Ok(Ok(Offered::Refused(txn.cell(at!(queue, mode))?)));
            }
            txn.update(at!(queue, sender), context.party().pack())?;
            txn.update(at!(queue, sent), seconds_now())?;
            Ok(Ok(Offered::Taken))
        })
    };
    let offered = settle(offer());
    doorbell::ring_all(context, &rings);
    if offered != Ok(Offered::Taken) {
        let _ = chunks::release(context, &desk, chunk);
    }
    offered
}
