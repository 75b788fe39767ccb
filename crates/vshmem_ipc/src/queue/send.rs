//! msgsnd(2).

use super::Queue;
use super::at;
use super::beside::Offered;
use super::fast::InRing;
use super::list::{fits, last};
use super::ring::enter_ring;
use crate::access::{Caller, Permission, WRITE};
use crate::heap::{self, Chunk, IN_OBJECT};
use crate::message::{Header, Search};
use crate::wait::{self, Rings, Woken, errno_of, result_of, thread_at};
use crate::{Errno, Member, Verdict, settle};
use vshmem_mem::{Ordering, seconds_now, signals_handled};
use vshmem_sync::{Fault, Seat, Txn, field};
use vshmem_wire::{
    ClientName, MSG_HEADER_BYTES, MsgSlot, RING_TEXT_BYTES, ThreadSlot, WaitKind, WaitState,
};

/// What became of a message when it met the sleeping receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    /// One of them has it.
    Yes,
    /// None of them accepts it.
    No,
    /// There are too many to tell in one change.
    Undecided,
}

/// How an attempt to send under the lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Yes,
    /// It is sent, and the call has slept before.
    AfterSleep,
    /// The call has slept, and then found the ring open: the message is not sent yet.
    RingIsOpen,
}

impl Member {
    /// msgsnd(2). `write` copies the text into the pool at the offset that it is given.
    ///
    /// # Errors
    /// As the man page says.
    pub fn msgsnd(
        &self,
        id: i32,
        kind: i64,
        text: &[u8],
        no_wait: bool,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let pool = self.pool();
        if text.len() > pool.geometry().msgmax as usize || id < 0 || kind < 1 {
            return Err(Errno::INVAL);
        }
        let queue = self.queue(id)?;
        let may_use_ring = text.len() as u64 <= RING_TEXT_BYTES;
        let mut signals_seen = None;
        // A queue that goes while the call sleeps is EIDRM.
        let (mut gone, mut has_looked) = (Errno::INVAL, no_wait);
        loop {
            if may_use_ring {
                if self.send_beside_sleepers(
                    &queue,
                    kind,
                    text,
                    no_wait,
                    caller,
                    &mut signals_seen,
                )? {
                    return Ok(());
                }
                if !has_looked {
                    has_looked = true;
                    if self.await_ring(&queue, &mut signals_seen) {
                        continue;
                    }
                }
            }
            let seen = *signals_seen.get_or_insert_with(signals_handled);
            match self.send_to_list(&queue, kind, text, no_wait, seen, &mut gone, caller)? {
                Sent::Yes | Sent::AfterSleep => return Ok(()),
                Sent::RingIsOpen => {}
            }
        }
    }

    /// Sends through the ring, or to a sleeper beside it. False: it has to go to the list.
    #[inline]
    fn send_beside_sleepers(
        &self,
        queue: &Queue,
        kind: i64,
        text: &[u8],
        no_wait: bool,
        caller: &dyn Caller,
        signals_seen: &mut Option<u32>,
    ) -> Result<bool, Errno> {
        /// Turns in which somebody else has lain down for that type just then.
        const MOST_TURNS: u32 = 8;
        let mut refused = None;
        for _ in 0..MOST_TURNS {
            let sent = self.send_in_ring(queue, kind, text, no_wait, caller, refused, signals_seen);
            match settle(sent)? {
                InRing::Sent => return Ok(true),
                InRing::Slow => break,
                InRing::Awaited => match self.offer(queue, kind, text, caller)? {
                    Offered::Taken => return Ok(true),
                    Offered::Refused(mode) => refused = Some(mode),
                    Offered::List => break,
                },
            }
        }
        Ok(false)
    }

    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn send_to_list(
        &self,
        queue: &Queue,
        kind: i64,
        text: &[u8],
        no_wait: bool,
        signals_seen: u32,
        gone: &mut Errno,
        caller: &dyn Caller,
    ) -> Result<Sent, Errno> {
        let began = self.room.begin_call();
        let pool = self.pool();
        let layout = pool.layout();
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let chunk = self.take_chunk(&desk, MSG_HEADER_BYTES + text.len() as u64)?;
        let fill = || -> Verdict<()> {
            Header::write_text(pool.map(), layout, chunk, kind, text)?;
            Ok(Ok(()))
        };
        let sent = settle(fill()).and_then(|()| {
            let header = Header { kind, size: text.len() as u64 };
            self.send_until(queue, header, chunk, no_wait, signals_seen, gone, caller, &seat)
        });
        match sent {
            Ok(Sent::Yes) => {
                if let Some(began) = began {
                    self.room.end_call(began);
                }
            }
            Ok(Sent::AfterSleep) => {}
            Ok(Sent::RingIsOpen) | Err(_) => {
                let _ = heap::release(pool, &desk, &self.larder, self.me(), chunk);
            }
        }
        sent
    }

    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn send_until(
        &self,
        queue: &Queue,
        header: Header,
        chunk: Chunk,
        no_wait: bool,
        signals_seen: u32,
        gone: &mut Errno,
        caller: &dyn Caller,
        seat: &Seat<'_>,
    ) -> Result<Sent, Errno> {
        let layout = self.pool().layout();
        let desk = self.desk_of(seat);
        let mut undecided = 0;
        let mut sent_now = Sent::Yes;
        loop {
            if signals_handled() != signals_seen && *gone == Errno::IDRM {
                return Err(Errno::INTR);
            }
            settle(Permission::check(self.pool().map(), queue.slot, caller, WRITE))?;
            let mut rings = Rings::default();
            let step = self.change_list(&desk, queue, "msgsnd", |txn| {
                rings.clear();
                if !queue.alive(txn)? {
                    return Ok(Err(*gone));
                }
                if fits(txn, queue, header.size)? {
                    txn.update(at!(queue, sender), self.party().pack())?;
                    txn.update(at!(queue, sent), seconds_now())?;
                    let handed = self.hand_over(txn, queue, header, chunk, &mut rings)?;
                    if handed == Handed::No {
                        self.append(txn, queue, header, chunk)?;
                    }
                    return Ok(Ok(Some(handed)));
                }
                if no_wait {
                    return Ok(Err(Errno::AGAIN));
                }
                let at = thread_at(layout, seat.slot)?;
                let map = txn.desk().map;
                map.store(field!(at, ThreadSlot, size), header.size, Ordering::Relaxed)?;
                txn.update(field!(at, ThreadSlot, party), self.party().pack())?;
                let line = queue.senders();
                wait::join_line(txn, layout, line, seat.slot, WaitKind::Send, queue.index)?;
                Ok(Ok(None))
            });
            let sent = settle(step)?;
            self.ring_all(&rings);
            match sent {
                // Each time somebody has left the line.
                Some(Handed::Undecided) if undecided <= layout.threads.count => {
                    undecided += 1;
                    continue;
                }
                Some(Handed::Undecided) => return Err(Errno::IO),
                Some(_) => return Ok(sent_now),
                None => sent_now = Sent::AfterSleep,
            }
            let woken =
                self.sleep_at_queue(queue, queue.senders(), false, signals_seen, &desk, seat)?;
            match woken {
                Woken::Done(errno) if errno != 0 => {
                    return Err(errno_of(errno));
                }
                Woken::Interrupted => return Err(Errno::INTR),
                _ => *gone = Errno::IDRM,
            }
            if header.size <= RING_TEXT_BYTES && self.await_ring(queue, &mut Some(signals_seen)) {
                return Ok(Sent::RingIsOpen);
            }
        }
    }

    /// Gives a message to the first sleeping receiver that accepts it (`pipelined_send`).
    pub(super) fn hand_over(
        &self,
        txn: &mut Txn<'_>,
        queue: &Queue,
        header: Header,
        chunk: Chunk,
        rings: &mut Rings,
    ) -> Result<Handed, Fault> {
        let layout = self.pool().layout();
        if txn.get(at!(queue, receive_head))? == 0 {
            return Ok(Handed::No);
        }
        let mut handed = Handed::No;
        let mut plain = false;
        wait::walk(txn, layout, queue.receivers(), |txn, slot| {
            let at = thread_at(layout, slot)?;
            let map = txn.desk().map;
            let mode = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
            let kind = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
            let room = map.load(field!(at, ThreadSlot, size), Ordering::Relaxed)?;
            if !Search::unpack(mode, kind).accepts(header.kind) {
                return Ok(true);
            }
            if txn.room() < 16 {
                // Many receivers with too small a buffer in a row: they are told, and the message
                // goes on to the rest in another change.
                handed = Handed::Undecided;
                return Ok(false);
            }
            rings.add(slot);
            if room < header.size {
                let result = result_of(Errno::TOOBIG);
                wait::leave_line(txn, layout, queue.receivers(), slot, WaitState::Done, result)?;
                return Ok(true);
            }
            let owner = txn.get_word(field!(at, ThreadSlot, owner))?;
            let Some(client) = ClientName::of(owner) else {
                return Err(Fault::corrupt(at, "a sleeper without an owner"));
            };
            heap::pass(txn, layout, chunk, self.me().word(), client.word())?;
            txn.set(field!(at, ThreadSlot, message), chunk.0 + 1)?;
            let receiver = txn.get(field!(at, ThreadSlot, party))?;
            txn.update(at!(queue, receiver), receiver)?;
            txn.update(at!(queue, received), seconds_now())?;
            wait::leave_line(txn, layout, queue.receivers(), slot, WaitState::Done, 0)?;
            handed = Handed::Yes;
            plain = Search::unpack(mode, kind).is_plain();
            Ok(false)
        })?;
        if plain && header.size <= RING_TEXT_BYTES {
            enter_ring(txn, layout, queue)?;
        }
        Ok(handed)
    }

    /// Puts a message at the end of the list.
    fn append(
        &self,
        txn: &mut Txn<'_>,
        queue: &Queue,
        header: Header,
        chunk: Chunk,
    ) -> Result<(), Fault> {
        let layout = self.pool().layout();
        heap::pass(txn, layout, chunk, self.me().word(), IN_OBJECT)?;
        txn.update(chunk.next(layout)?, 0)?;
        match last(txn, queue)? {
            Some(last) => txn.set(last.next(layout)?, chunk.0 + 1)?,
            None => txn.set(at!(queue, head), chunk.0 + 1)?,
        }
        txn.update(at!(queue, tail), chunk.0 + 1)?;
        let bytes = txn.get(at!(queue, bytes))?;
        txn.update(at!(queue, bytes), bytes.saturating_add(header.size as u32))?;
        let count = txn.get(at!(queue, count))?;
        txn.set(at!(queue, count), count.saturating_add(1))
    }
}
