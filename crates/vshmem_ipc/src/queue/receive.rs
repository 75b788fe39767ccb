//! msgrcv(2).

use super::at;
use super::beside::Joined;
use super::list::{Found, find, take, wake_senders};
use super::ring::enter_ring;
use super::{Queue, Receive};
use crate::access::{Caller, Permission, READ};
use crate::heap::{self, Chunk};
use crate::message::{Header, Search};
use crate::wait::{self, Rings, Woken, errno_of, thread_at};
use crate::{Errno, Member, Verdict, settle};
use vshmem_mem::{Ordering, seconds_now, signals_handled};
use vshmem_sync::{Desk, Fault, Seat, Txn, field, load_value};
use vshmem_wire::{MSG_HEADER_BYTES, MsgSlot, RING_TEXT_BYTES, ThreadSlot, WaitKind};

/// Takes a message: its type, its size, and a way to copy its text. Returns what msgrcv does.
pub type Deliver<'a> = dyn FnMut(i64, usize, &dyn Fn(&mut [u8])) -> Result<usize, Errno> + 'a;

/// What a receiver in line waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub search: Search,
    /// Bytes; more than there can be where a longer message is cut.
    pub room: u64,
}

impl Wanted {
    fn of(wanted: Receive, search: Search) -> Self {
        Self { search, room: if wanted.cut { u64::MAX } else { wanted.room as u64 } }
    }
}

/// Times that a receiver goes back to the ring because a message for it has come before it could lie down.
const MOST_TURNS: i32 = 8;

impl Member {
    /// msgrcv(2). `deliver` is given the type and the text, and is called once at most; its answer
    /// is the call's.
    ///
    /// # Errors
    /// As the man page says.
    pub fn msgrcv(
        &self,
        id: i32,
        wanted: Receive,
        caller: &dyn Caller,
        deliver: &mut Deliver<'_>,
    ) -> Result<usize, Errno> {
        if id < 0 || isize::try_from(wanted.room).is_err() {
            return Err(Errno::INVAL);
        }
        if wanted.copy && (wanted.except || !wanted.no_wait) {
            return Err(Errno::INVAL);
        }
        let queue = self.queue(id)?;
        let mut signals_seen = None;
        let mut turns = if wanted.copy { 0 } else { MOST_TURNS };
        loop {
            if turns > 0 {
                match self.receive_from_ring(&queue, wanted, caller, deliver, &mut signals_seen) {
                    Ok(Some(answer)) => return answer.result(),
                    Ok(None) => {}
                    Err(fault) => return settle(Err(fault)),
                }
            }
            turns -= i32::from(turns > 0);
            if let Some(chunk) =
                self.receive_in_line(&queue, wanted, turns > 0, signals_seen, caller)?
            {
                let delivered = self.deliver(chunk, wanted, deliver);
                let seat = self.seat()?;
                let _ = heap::release(
                    self.pool(),
                    &self.desk_of(&seat),
                    &self.larder,
                    self.me(),
                    chunk,
                );
                return delivered;
            }
        }
    }

    /// Receives under the lock, and sleeps for it. `None`: there is a message in the ring after all, as may only be where
    /// `may_return`.
    fn receive_in_line(
        &self,
        queue: &Queue,
        wanted: Receive,
        may_return: bool,
        signals_seen: Option<u32>,
        caller: &dyn Caller,
    ) -> Result<Option<Chunk>, Errno> {
        // Whoever has begun to wait has looked for a while.
        let looked = signals_seen.is_some();
        let signals_seen = signals_seen.unwrap_or_else(signals_handled);
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        self.receive_until(queue, wanted, may_return, looked, signals_seen, caller, &desk, &seat)
    }

    /// Copies a message that this client owns out to the caller.
    fn deliver(
        &self,
        chunk: Chunk,
        wanted: Receive,
        deliver: &mut Deliver<'_>,
    ) -> Result<usize, Errno> {
        let pool = self.pool();
        let (map, layout) = (pool.map(), pool.layout());
        let header = settle(Header::read(map, layout, chunk).map(Ok))?;
        let base = settle(chunk.offset(layout).map(Ok))? + MSG_HEADER_BYTES;
        // A sender of this pool may have written any size; what is copied stays in the pool and
        // below the limit.
        let size = header.size.min(u64::from(pool.geometry().msgmax)) as usize;
        let size = size.min(wanted.room);
        deliver(header.kind, size, &|into: &mut [u8]| {
            // Out of range only when a peer spoils the header: the caller gets what it had.
            let _ = map.read(base, into);
        })
    }

    /// Waits for a message and makes it this client's own. `None`: see [`Self::receive_in_line`].
    #[expect(clippy::too_many_arguments, reason = "one call's worth of state, used once")]
    fn receive_until(
        &self,
        queue: &Queue,
        wanted: Receive,
        may_return: bool,
        mut looked: bool,
        signals_seen: u32,
        caller: &dyn Caller,
        desk: &Desk<'_>,
        seat: &Seat<'_>,
    ) -> Result<Option<Chunk>, Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let search = Search::of(wanted.kind, wanted.except, wanted.copy);
        // Who has looked has waited already, for others to see.
        let mut gone = if looked { Errno::IDRM } else { Errno::INVAL };
        // For MSG_COPY the text is copied under the lock, into a chunk taken before.
        let copy = match wanted.copy {
            true => {
                let most = MSG_HEADER_BYTES + u64::from(pool.geometry().msgmax);
                Some(self.take_chunk(desk, most)?)
            }
            false => None,
        };
        let drop_copy = || {
            if let Some(chunk) = copy {
                let _ = heap::release(pool, desk, &self.larder, self.me(), chunk);
            }
        };
        loop {
            let permitted = settle(Permission::check(pool.map(), queue.slot, caller, READ));
            // `gone` tells that this is not the first time: a peer may keep on waking for nothing.
            let interrupted = signals_handled() != signals_seen && gone == Errno::IDRM;
            if let Err(errno) = permitted.and(if interrupted { Err(Errno::INTR) } else { Ok(()) }) {
                drop_copy();
                return Err(errno);
            }
            let in_line = Wanted::of(wanted, search);
            let may_lie_beside = may_return && !wanted.no_wait;
            let joined = match may_lie_beside {
                true => settle(self.join_beside_ring(queue, &in_line, desk, seat))?,
                false => Joined::List,
            };
            match joined {
                Joined::List => {}
                Joined::Found => return Ok(None),
                Joined::Yes => {
                    let turn = self.await_turn(queue, &mut looked, signals_seen, desk, seat)?;
                    if turn.is_some() {
                        return Ok(turn);
                    }
                    gone = Errno::IDRM;
                    continue;
                }
            }
            let mut rings = Rings::default();
            let step = self.change_list(desk, queue, "msgrcv", |txn| {
                rings.clear();
                if !queue.alive(txn)? {
                    return Ok(Err(gone));
                }
                if let Some(found) = find(txn, layout, queue, search)? {
                    if found.header.size > wanted.room as u64 && !wanted.cut {
                        return Ok(Err(Errno::TOOBIG));
                    }
                    if let Some(copy) = copy {
                        // copy_msg of ipc/msgutil.c does not cut, whatever MSG_NOERROR says.
                        if found.header.size > wanted.room as u64 {
                            return Ok(Err(Errno::INVAL));
                        }
                        self.copy_text(txn, &found, copy)?;
                        return Ok(Ok(Some((copy, false))));
                    }
                    take(txn, layout, queue, &found, self.me())?;
                    txn.update(at!(queue, receiver), self.party().pack())?;
                    txn.update(at!(queue, received), seconds_now())?;
                    let more = wake_senders(txn, layout, queue, &mut rings)?;
                    if search.is_plain() && found.header.size <= RING_TEXT_BYTES {
                        enter_ring(txn, layout, queue)?;
                    }
                    return Ok(Ok(Some((found.chunk, more))));
                }
                if wanted.no_wait {
                    return Ok(Err(Errno::NOMSG));
                }
                self.join_receivers(txn, queue, &in_line, seat)?;
                Ok(Ok(None))
            });
            let taken = match settle(step) {
                Ok(taken) => taken,
                Err(errno) => {
                    drop_copy();
                    return Err(errno);
                }
            };
            self.ring_all(&rings);
            if let Some((chunk, more)) = taken {
                if more {
                    self.serve_senders(desk, queue)?;
                }
                return Ok(Some(chunk));
            }
            let turn = self.await_turn(queue, &mut looked, signals_seen, desk, seat)?;
            if turn.is_some() {
                return Ok(turn);
            }
            gone = Errno::IDRM;
        }
    }

    /// Stages that this thread stands at the end of the line of receivers.
    pub(super) fn join_receivers(
        &self,
        txn: &mut Txn<'_>,
        queue: &Queue,
        wanted: &Wanted,
        seat: &Seat<'_>,
    ) -> Result<(), Fault> {
        let layout = self.pool().layout();
        let at = thread_at(layout, seat.slot)?;
        let map = txn.desk().map;
        let (mode, kind) = wanted.search.pack();
        map.store(field!(at, ThreadSlot, count), mode, Ordering::Relaxed)?;
        map.store(field!(at, ThreadSlot, argument), kind, Ordering::Relaxed)?;
        map.store(field!(at, ThreadSlot, size), wanted.room, Ordering::Relaxed)?;
        let sequence = u64::from(queue.sequence);
        map.store(field!(at, ThreadSlot, ops), sequence, Ordering::Relaxed)?;
        txn.update(field!(at, ThreadSlot, party), self.party().pack())?;
        txn.update(field!(at, ThreadSlot, message), 0)?;
        let line = queue.receivers();
        wait::join_line(txn, layout, line, seat.slot, WaitKind::Receive, queue.index)
    }

    /// Sleeps in the line of receivers. `None`: it is worth another try.
    fn await_turn(
        &self,
        queue: &Queue,
        looked: &mut bool,
        signals_seen: u32,
        desk: &Desk<'_>,
        seat: &Seat<'_>,
    ) -> Result<Option<Chunk>, Errno> {
        let line = queue.receivers();
        let has_looked = std::mem::replace(looked, false);
        match self.sleep_at_queue(queue, line, has_looked, signals_seen, desk, seat)? {
            Woken::Done(0) => self.handed(seat).map(Some),
            Woken::Done(errno) => Err(errno_of(errno)),
            Woken::Interrupted => Err(Errno::INTR),
            _ => Ok(None),
        }
    }

    /// The message that a sender has handed to this sleeper.
    fn handed(&self, seat: &Seat<'_>) -> Result<Chunk, Errno> {
        let read = || -> Verdict<Chunk> {
            let at = thread_at(self.pool().layout(), seat.slot)?;
            let unit = load_value(self.pool().map(), field!(at, ThreadSlot, message))?;
            Ok(unit.checked_sub(1).map(Chunk).ok_or(Errno::IO))
        };
        settle(read())
    }

    fn copy_text(&self, txn: &Txn<'_>, found: &Found, into: Chunk) -> Result<(), Fault> {
        let layout = self.pool().layout();
        let map = txn.desk().map;
        let size = found.header.size.min(u64::from(self.pool().geometry().msgmax));
        let (from, to) = (found.chunk.offset(layout)?, into.offset(layout)?);
        Header { size, ..found.header }.write(map, layout, into)?;
        let mut done = 0;
        let mut block = [0; 256];
        while done < size {
            let part = &mut block[..(size - done).min(256) as usize];
            map.read(from + MSG_HEADER_BYTES + done, part)?;
            map.write(to + MSG_HEADER_BYTES + done, part)?;
            done += part.len() as u64;
        }
        Ok(())
    }
}
