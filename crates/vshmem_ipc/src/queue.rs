//! Message queues: msgget(2), msgsnd(2), msgrcv(2), msgctl(2).
//!
//! # User-visible behaviour
//! As in the kernel's `ipc/msg.c`: a message goes to the first sleeping receiver that accepts it,
//! or to the end of the queue; a receiver takes the first message that it accepts; room that
//! becomes free sends sleeping senders to try again, in order.
//!
//! # Locking
//! A queue has one lock over its list and its sleepers. The text of a message is copied outside
//! it, into and out of a chunk that belongs to the sender before and to the receiver after.

use vshmem_mem::{Ordering, seconds_now, signals_handled};
use vshmem_sync::{Desk, Fault, Seat, Txn, field, load_value};
use vshmem_wire::{
    Layout, MSG_HEADER_BYTES, MsgSlot, ObjectHeader, ObjectState, ThreadSlot, WaitKind, WaitState,
};

use crate::access::{Caller, Permission, READ, WRITE, mode_of};
use crate::heap::{self, Chunk, IN_OBJECT};
use crate::id::{Kind, Place};
use crate::message::{Header, Search};
use crate::registry::{self, MOST_TRIES, Standing, per_kind};
use crate::wait::{self, Line, Rings, Woken, result_of, thread_at};
use crate::{Errno, Member, Pool, Verdict, settle};

/// IPC_CREAT.
const CREATE: i32 = 0o1000;
/// IPC_EXCL.
const EXCLUSIVE: i32 = 0o2000;

/// What a receiver asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// msgtyp.
    pub kind: i64,
    /// Bytes that the caller has room for.
    pub room: usize,
    /// IPC_NOWAIT.
    pub no_wait: bool,
    /// MSG_NOERROR: a longer message is cut.
    pub cut: bool,
    /// MSG_EXCEPT.
    pub except: bool,
    /// MSG_COPY.
    pub copy: bool,
}

/// A queue as IPC_STAT tells it (`struct msqid_ds`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStat {
    /// Id.
    pub id: i32,
    /// Owner and mode.
    pub permission: Permission,
    /// Bytes queued.
    pub bytes: u32,
    /// Messages queued.
    pub count: u32,
    /// Bytes allowed.
    pub limit: u32,
    /// Last sender's pid here.
    pub sender: u32,
    /// Last receiver's pid here.
    pub receiver: u32,
    /// Seconds since 1970.
    pub sent: u32,
    /// Seconds since 1970.
    pub received: u32,
    /// Seconds since 1970.
    pub changed: u32,
}

/// Totals (`struct msginfo` after MSG_INFO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsgInfo {
    /// Queues in use.
    pub queues: u32,
    /// Messages in all of them.
    pub messages: u32,
    /// Bytes in all of them.
    pub bytes: u32,
    /// Highest index in use; what the call returns.
    pub highest: u32,
}

/// A queue that has been looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub index: u32,
    pub sequence: u32,
    pub slot: u64,
}

macro_rules! at {
    ($queue:expr, $field:ident) => {
        field!($queue.slot, MsgSlot, $field)
    };
}

impl Queue {
    pub fn find(pool: &Pool, place: Place) -> Result<Option<Self>, Fault> {
        let Some(slot) = pool.layout().msg.at(place.index) else {
            return Ok(None);
        };
        let standing = registry::standing(pool.map(), slot)?;
        let found = standing.is(ObjectState::Live) && standing.sequence == place.sequence;
        Ok(found.then_some(Self { index: place.index, sequence: place.sequence, slot }))
    }

    pub fn lock(&self) -> u64 {
        field!(self.slot, ObjectHeader, lock)
    }

    fn receivers(&self) -> Line {
        Line {
            head: at!(self, receive_head),
            tail: at!(self, receive_tail),
            lock: self.lock(),
            length: None,
        }
    }

    fn senders(&self) -> Line {
        Line {
            head: at!(self, send_head),
            tail: at!(self, send_tail),
            lock: self.lock(),
            length: None,
        }
    }

    fn stands(&self, state: ObjectState) -> u32 {
        Standing { state: state as u32, sequence: self.sequence }.pack()
    }

    fn alive(&self, txn: &mut Txn<'_>) -> Result<bool, Fault> {
        let value = txn.get(field!(self.slot, ObjectHeader, state))?;
        Ok(value == self.stands(ObjectState::Live))
    }
}

/// What became of a message when it met the sleeping receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handed {
    /// One of them has it.
    Yes,
    /// None of them accepts it.
    No,
    /// There are too many to tell in one change.
    Undecided,
}

/// A message in the list: its chunk, and the cell that points to it.
struct Found {
    chunk: Chunk,
    header: Header,
    link: u64,
    before: Option<Chunk>,
}

/// Finds the message that a receiver wants (`find_msg` of `ipc/msg.c`).
fn find(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    search: Search,
) -> Result<Option<Found>, Fault> {
    let mut best: Option<Found> = None;
    let mut link = at!(queue, head);
    let mut before = None;
    let mut nth = 0;
    for _ in 0..=layout.unit_meta.count {
        let Some(unit) = txn.get(link)?.checked_sub(1) else {
            return Ok(best);
        };
        let chunk = Chunk(unit);
        let header = Header::read(txn.desk().map, layout, chunk)?;
        let wanted = match search {
            Search::Nth(wanted) => nth == wanted,
            Search::AtMost(highest) => {
                header.kind
                    <= best.as_ref().map_or(highest, |found| found.header.kind.saturating_sub(1))
            }
            other => other.accepts(header.kind),
        };
        if wanted {
            best = Some(Found { chunk, header, link, before });
            if !matches!(search, Search::AtMost(_)) || header.kind == 1 {
                return Ok(best);
            }
        }
        nth += 1;
        before = Some(chunk);
        link = chunk.next(layout)?;
    }
    Err(Fault::corrupt(link, "a queue without an end"))
}

/// Stages the removal of a message from the list; it then belongs to `client`.
fn take(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    found: &Found,
    client: u32,
) -> Result<(), Fault> {
    let next = txn.get(found.chunk.next(layout)?)?;
    txn.set(found.link, next)?;
    if next == 0 {
        txn.set(at!(queue, tail), found.before.map_or(0, |chunk| chunk.0 + 1))?;
    }
    heap::pass(txn, layout, found.chunk, IN_OBJECT, heap::owned_by(client))?;
    let bytes = txn.get(at!(queue, bytes))?;
    txn.set(at!(queue, bytes), bytes.saturating_sub(found.header.size as u32))?;
    let count = txn.get(at!(queue, count))?;
    txn.set(at!(queue, count), count.saturating_sub(1))
}

/// Whether a message of `size` bytes fits (`msg_fits_inqueue` of `ipc/msg.c`).
fn fits(txn: &mut Txn<'_>, queue: &Queue, size: u64) -> Result<bool, Fault> {
    let limit = u64::from(txn.get(at!(queue, limit))?);
    let bytes = u64::from(txn.get(at!(queue, bytes))?);
    let count = u64::from(txn.get(at!(queue, count))?);
    Ok(bytes.saturating_add(size) <= limit && count < limit)
}

/// Sends sleepers of a line to try again. True when the record is full and there are more.
fn retry(
    txn: &mut Txn<'_>,
    layout: &Layout,
    line: Line,
    rings: &mut Rings,
    state: WaitState,
    result: u32,
    mut wanted: impl FnMut(&mut Txn<'_>, u64) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let mut more = false;
    wait::walk(txn, layout, line, |txn, slot| {
        if txn.room() < 8 {
            more = true;
            return Ok(false);
        }
        if wanted(txn, thread_at(layout, slot)?)? {
            wait::leave_line(txn, layout, line, slot, state, result)?;
            rings.add(slot);
        }
        Ok(true)
    })?;
    Ok(more)
}

impl Member {
    fn queue(&self, id: i32) -> Result<Queue, Errno> {
        let place = Place::of(id).ok_or(Errno::INVAL)?;
        settle(Queue::find(self.pool(), place).map(|found| found.ok_or(Errno::INVAL)))
    }

    fn queue_permission(&self, queue: &Queue) -> Result<Permission, Errno> {
        settle(Permission::read(self.pool().map(), queue.slot).map(Ok))
    }

    /// msgget(2).
    ///
    /// # Errors
    /// As the man page says.
    pub fn msgget(&self, key: i32, flags: i32, caller: &dyn Caller) -> Result<i32, Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        for _ in 0..MOST_TRIES {
            if key != 0
                && let Some(place) = self.find_existing(Kind::Queue, key)?
            {
                if flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
                    return Err(Errno::EXIST);
                }
                let queue = match self.queue(place.id()) {
                    Err(Errno::INVAL) => continue,
                    found => found?,
                };
                self.queue_permission(&queue)?.allow(caller, mode_of(flags))?;
                return Ok(place.id());
            }
            if key != 0 && flags & CREATE == 0 {
                return Err(Errno::NOENT);
            }
            let permission = Permission {
                key,
                uid: caller.uid(),
                gid: caller.gid(),
                cuid: caller.uid(),
                cgid: caller.gid(),
                mode: mode_of(flags),
                sequence: 0,
            };
            let seat = self.seat()?;
            let desk = self.desk_of(&seat);
            let made = self.change(&desk, pool.registry_lock(), "msgget", |txn| {
                let exists = key != 0
                    && registry::find_key(layout, Kind::Queue, key, |at| txn.get(at))?.is_some();
                if exists {
                    return Ok(Ok(None));
                }
                let Some(place) = registry::take_slot(txn, layout, Kind::Queue)? else {
                    return Ok(Err(Errno::NOSPC));
                };
                let slot = registry::slot_at(layout, Kind::Queue, place.index)?;
                let queue = Queue { index: place.index, sequence: place.sequence, slot };
                registry::describe(txn, slot, &permission, seconds_now())?;
                txn.update(at!(queue, limit), pool.geometry().msgmnb)?;
                for cell in [
                    at!(queue, bytes),
                    at!(queue, count),
                    at!(queue, head),
                    at!(queue, tail),
                    at!(queue, sender),
                    at!(queue, receiver),
                    at!(queue, sent),
                    at!(queue, received),
                ] {
                    txn.update(cell, 0)?;
                }
                if key != 0 {
                    registry::enter_key(txn, layout, Kind::Queue, place.index, key)?;
                }
                txn.set(field!(slot, ObjectHeader, state), queue.stands(ObjectState::Live))?;
                Ok(Ok(Some(place)))
            });
            if let Some(place) = settle(made)? {
                return Ok(place.id());
            }
        }
        Err(Errno::IO)
    }

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
        let signals_seen = signals_handled();
        let pool = self.pool();
        let layout = pool.layout();
        if text.len() > pool.geometry().msgmax as usize || id < 0 || kind < 1 {
            return Err(Errno::INVAL);
        }
        let queue = self.queue(id)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let chunk = self.take_chunk(&desk, MSG_HEADER_BYTES + text.len() as u64)?;
        let fill = || -> Verdict<()> {
            Header { kind, size: text.len() as u64 }.write(pool.map(), layout, chunk)?;
            pool.map().write(chunk.offset(layout)? + MSG_HEADER_BYTES, text)?;
            Ok(Ok(()))
        };
        let sent = settle(fill()).and_then(|()| {
            let header = Header { kind, size: text.len() as u64 };
            self.send_until(&queue, header, chunk, no_wait, signals_seen, caller, &seat)
        });
        if sent.is_err() {
            let _ = heap::release(pool, &desk, &self.larder, self.me(), chunk);
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
        caller: &dyn Caller,
        seat: &Seat<'_>,
    ) -> Result<(), Errno> {
        let layout = self.pool().layout();
        let desk = self.desk_of(seat);
        let mut gone = Errno::INVAL;
        let mut undecided = 0;
        loop {
            if signals_handled() != signals_seen && gone == Errno::IDRM {
                return Err(Errno::INTR);
            }
            settle(Permission::check(self.pool().map(), queue.slot, caller, WRITE))?;
            let mut rings = Rings::default();
            let step = self.change(&desk, queue.lock(), "msgsnd", |txn| {
                rings.clear();
                if !queue.alive(txn)? {
                    return Ok(Err(gone));
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
                Some(_) => return Ok(()),
                None => {}
            }
            let woken = self.sleep_at_queue(queue, queue.senders(), signals_seen, &desk, seat)?;
            match woken {
                Woken::Done(errno) if errno != 0 => {
                    return Err(Errno::from_raw_os_error(errno as i32));
                }
                Woken::Interrupted => return Err(Errno::INTR),
                _ => gone = Errno::IDRM,
            }
        }
    }

    fn sleep_at_queue(
        &self,
        queue: &Queue,
        line: Line,
        signals_seen: u32,
        desk: &Desk<'_>,
        seat: &Seat<'_>,
    ) -> Result<Woken, Errno> {
        let tend = || match self.tend_queue(desk, queue) {
            Ok(()) => Ok(()),
            Err(_) => Err(Fault::corrupt(queue.slot, "a queue that cannot be served")),
        };
        settle(self.sleep_in_line(seat, line, None, signals_seen, tend).map(Ok))
    }

    /// Gives a message to the first sleeping receiver that accepts it (`pipelined_send`).
    fn hand_over(
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
            let owner = txn.get(field!(at, ThreadSlot, owner))?;
            let Some(client) = owner.checked_sub(1) else {
                return Err(Fault::corrupt(at, "a sleeper without an owner"));
            };
            let me = heap::owned_by(self.me());
            heap::pass(txn, layout, chunk, me, heap::owned_by(client))?;
            txn.set(field!(at, ThreadSlot, message), chunk.0 + 1)?;
            let receiver = txn.get(field!(at, ThreadSlot, party))?;
            txn.update(at!(queue, receiver), receiver)?;
            txn.update(at!(queue, received), seconds_now())?;
            wait::leave_line(txn, layout, queue.receivers(), slot, WaitState::Done, 0)?;
            handed = Handed::Yes;
            Ok(false)
        })?;
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
        heap::pass(txn, layout, chunk, heap::owned_by(self.me()), IN_OBJECT)?;
        txn.update(chunk.next(layout)?, 0)?;
        let tail = txn.get(at!(queue, tail))?;
        match tail.checked_sub(1) {
            Some(last) => txn.set(Chunk(last).next(layout)?, chunk.0 + 1)?,
            None => txn.set(at!(queue, head), chunk.0 + 1)?,
        }
        txn.set(at!(queue, tail), chunk.0 + 1)?;
        let bytes = txn.get(at!(queue, bytes))?;
        txn.update(at!(queue, bytes), bytes.saturating_add(header.size as u32))?;
        let count = txn.get(at!(queue, count))?;
        txn.set(at!(queue, count), count.saturating_add(1))
    }

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
        deliver: &mut dyn FnMut(i64, usize, &dyn Fn(&mut [u8])) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let signals_seen = signals_handled();
        if id < 0 || isize::try_from(wanted.room).is_err() {
            return Err(Errno::INVAL);
        }
        if wanted.copy && (wanted.except || !wanted.no_wait) {
            return Err(Errno::INVAL);
        }
        let queue = self.queue(id)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let chunk = self.receive_until(&queue, wanted, signals_seen, caller, &desk, &seat)?;
        let delivered = self.deliver(chunk, wanted, deliver);
        let _ = heap::release(self.pool(), &desk, &self.larder, self.me(), chunk);
        delivered
    }

    /// Copies a message that this client owns out to the caller.
    fn deliver(
        &self,
        chunk: Chunk,
        wanted: Receive,
        deliver: &mut dyn FnMut(i64, usize, &dyn Fn(&mut [u8])) -> Result<usize, Errno>,
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

    /// Waits for a message and makes it this client's own.
    fn receive_until(
        &self,
        queue: &Queue,
        wanted: Receive,
        signals_seen: u32,
        caller: &dyn Caller,
        desk: &Desk<'_>,
        seat: &Seat<'_>,
    ) -> Result<Chunk, Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let search = Search::of(wanted.kind, wanted.except, wanted.copy);
        let mut gone = Errno::INVAL;
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
            let mut rings = Rings::default();
            let step = self.change(desk, queue.lock(), "msgrcv", |txn| {
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
                    return Ok(Ok(Some((found.chunk, more))));
                }
                if wanted.no_wait {
                    return Ok(Err(Errno::NOMSG));
                }
                let at = thread_at(layout, seat.slot)?;
                let map = txn.desk().map;
                let (mode, kind) = search.pack();
                let room = if wanted.cut { u64::MAX } else { wanted.room as u64 };
                map.store(field!(at, ThreadSlot, count), mode, Ordering::Relaxed)?;
                map.store(field!(at, ThreadSlot, argument), kind, Ordering::Relaxed)?;
                map.store(field!(at, ThreadSlot, size), room, Ordering::Relaxed)?;
                let sequence = u64::from(queue.sequence);
                map.store(field!(at, ThreadSlot, ops), sequence, Ordering::Relaxed)?;
                txn.update(field!(at, ThreadSlot, party), self.party().pack())?;
                txn.update(field!(at, ThreadSlot, message), 0)?;
                let line = queue.receivers();
                wait::join_line(txn, layout, line, seat.slot, WaitKind::Receive, queue.index)?;
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
                return Ok(chunk);
            }
            match self.sleep_at_queue(queue, queue.receivers(), signals_seen, desk, seat)? {
                Woken::Done(0) => return self.handed(seat),
                Woken::Done(errno) => return Err(Errno::from_raw_os_error(errno as i32)),
                Woken::Interrupted => return Err(Errno::INTR),
                _ => gone = Errno::IDRM,
            }
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

    /// Sends receivers to try again for whom there is a message.
    fn serve_receivers(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let layout = self.pool().layout();
        // Each round but the last takes somebody off the line; so in those below.
        for _ in 0..=layout.threads.count {
            let mut rings = Rings::default();
            let step = self.change(desk, queue.lock(), "msg-serve-receivers", |txn| {
                rings.clear();
                if !queue.alive(txn)? || txn.get(at!(queue, head))? == 0 {
                    return Ok(Ok(false));
                }
                let line = queue.receivers();
                let again = WaitState::Retry;
                let more = retry(txn, layout, line, &mut rings, again, 0, |txn, at| {
                    let map = txn.desk().map;
                    let mode = map.load(field!(at, ThreadSlot, count), Ordering::Relaxed)?;
                    let kind = map.load(field!(at, ThreadSlot, argument), Ordering::Relaxed)?;
                    Ok(find(txn, layout, queue, Search::unpack(mode, kind))?.is_some())
                })?;
                Ok(Ok(more))
            });
            let more = settle(step)?;
            self.ring_all(&rings);
            if !more {
                return Ok(());
            }
        }
        Err(Errno::IO)
    }

    /// Puts a message back that was handed to a receiver who died before it could know: it is the
    /// oldest of those that the receiver accepts.
    pub(crate) fn put_back(
        &self,
        desk: &Desk<'_>,
        thread: u32,
        client: u32,
        queue: &Queue,
    ) -> Result<(), Errno> {
        let layout = self.pool().layout();
        let step = self.change(desk, queue.lock(), "msg-put-back", |txn| {
            let at = thread_at(layout, thread)?;
            let map = txn.desk().map;
            let sequence = map.load(field!(at, ThreadSlot, ops), Ordering::Relaxed)?;
            let unit = txn.get(field!(at, ThreadSlot, message))?;
            let unseen = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Done as u32
                && txn.get(field!(at, ThreadSlot, result))? == 0
                && txn.get(field!(at, ThreadSlot, kind))? == WaitKind::Receive as u32
                && txn.get(field!(at, ThreadSlot, object))? == queue.index
                && sequence == u64::from(queue.sequence);
            let Some(unit) = unit.checked_sub(1).filter(|_| unseen) else {
                return Ok(Ok(()));
            };
            let chunk = Chunk(unit);
            if !queue.alive(txn)? || txn.get(chunk.owner(layout)?)? != heap::owned_by(client) {
                return Ok(Ok(()));
            }
            let header = Header::read(map, layout, chunk)?;
            heap::pass(txn, layout, chunk, heap::owned_by(client), IN_OBJECT)?;
            let head = txn.get(at!(queue, head))?;
            txn.update(chunk.next(layout)?, head)?;
            txn.set(at!(queue, head), unit + 1)?;
            if head == 0 {
                txn.set(at!(queue, tail), unit + 1)?;
            }
            let bytes = txn.get(at!(queue, bytes))?;
            txn.update(at!(queue, bytes), bytes.saturating_add(header.size as u32))?;
            let count = txn.get(at!(queue, count))?;
            txn.set(at!(queue, count), count.saturating_add(1))?;
            txn.set(field!(at, ThreadSlot, wait), WaitState::Idle as u32)?;
            Ok(Ok(()))
        });
        settle(step)?;
        self.serve_receivers(desk, queue)
    }

    fn serve_senders(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let layout = self.pool().layout();
        for _ in 0..=layout.threads.count {
            let mut rings = Rings::default();
            let step = self.change(desk, queue.lock(), "msg-serve", |txn| {
                rings.clear();
                if !queue.alive(txn)? {
                    return Ok(Ok(false));
                }
                wake_senders(txn, layout, queue, &mut rings).map(Ok)
            });
            let more = settle(step)?;
            self.ring_all(&rings);
            if !more {
                return Ok(());
            }
        }
        Err(Errno::IO)
    }

    /// Makes up for somebody who died halfway: sends sleepers to try again, or goes on taking the
    /// queue apart.
    pub(crate) fn tend_queue(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let map = self.pool().map();
        let state = settle(load_value(map, field!(queue.slot, ObjectHeader, state)).map(Ok))?;
        if state == queue.stands(ObjectState::Dying) {
            return self.dismantle_queue(desk, queue);
        }
        self.serve_senders(desk, queue)?;
        self.serve_receivers(desk, queue)
    }

    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn queue_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        limit: u64,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        let queue = self.queue(id)?;
        self.queue_permission(&queue)?.allow_control(caller)?;
        if limit > u64::from(self.pool().geometry().msgmnb) && !caller.unlimited() {
            return Err(Errno::PERM);
        }
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let layout = self.pool().layout();
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, queue.lock(), "msg-set", |txn| {
            if !queue.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            txn.update(at!(queue, limit), limit)?;
            registry::set_owner(txn, queue.slot, uid, gid, mode).map(Ok)
        }))?;
        // Everybody looks again: modes and room may be other ones now.
        for _ in 0..=layout.threads.count {
            let mut rings = Rings::default();
            let step = self.change(&desk, queue.lock(), "msg-set-wake", |txn| {
                rings.clear();
                if !queue.alive(txn)? {
                    return Ok(Ok(false));
                }
                let mut more = false;
                for line in [queue.receivers(), queue.senders()] {
                    more |=
                        retry(txn, layout, line, &mut rings, WaitState::Retry, 0, |_, _| Ok(true))?;
                }
                Ok(Ok(more))
            });
            let more = settle(step)?;
            self.ring_all(&rings);
            if !more {
                return Ok(());
            }
        }
        Err(Errno::IO)
    }

    /// IPC_RMID.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn queue_remove(&self, id: i32, caller: &dyn Caller) -> Result<(), Errno> {
        let queue = self.queue(id)?;
        self.queue_permission(&queue)?.allow_control(caller)?;
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.change(&desk, queue.lock(), "msg-remove", |txn| {
            if !queue.alive(txn)? {
                return Ok(Err(Errno::IDRM));
            }
            txn.set(field!(queue.slot, ObjectHeader, state), queue.stands(ObjectState::Dying))?;
            Ok(Ok(()))
        }))?;
        self.dismantle_queue(&desk, &queue)
    }

    /// Takes a removed queue apart. May be done by anybody, several times, and be left halfway.
    pub(crate) fn dismantle_queue(&self, desk: &Desk<'_>, queue: &Queue) -> Result<(), Errno> {
        let pool = self.pool();
        let layout = pool.layout();
        let dying = queue.stands(ObjectState::Dying);
        let state_at = field!(queue.slot, ObjectHeader, state);
        // Each round but the last takes a sleeper or a message away.
        let mut rounds = layout.threads.count + layout.unit_meta.count + 1;
        loop {
            rounds = rounds.checked_sub(1).ok_or(Errno::IO)?;
            let mut rings = Rings::default();
            let step = self.change(desk, queue.lock(), "msg-dismantle", |txn| {
                rings.clear();
                if txn.get(state_at)? != dying {
                    return Ok(Ok(true));
                }
                let gone = result_of(Errno::IDRM);
                for line in [queue.receivers(), queue.senders()] {
                    let done = WaitState::Done;
                    if retry(txn, layout, line, &mut rings, done, gone, |_, _| Ok(true))? {
                        return Ok(Ok(false));
                    }
                }
                while txn.room() >= 8 {
                    let Some(unit) = txn.get(at!(queue, head))?.checked_sub(1) else {
                        return Ok(Ok(true));
                    };
                    // Messages are never large enough for a run of slabs unless the limit was
                    // raised; those are given back by whoever takes them apart.
                    let next = txn.get(Chunk(unit).next(layout)?)?;
                    txn.set(at!(queue, head), next)?;
                    heap::pass(txn, layout, Chunk(unit), IN_OBJECT, 0)?;
                }
                Ok(Ok(false))
            });
            let finished = settle(step)?;
            self.ring_all(&rings);
            if finished {
                break;
            }
        }
        settle(self.change(desk, pool.registry_lock(), "msg-free", |txn| {
            if txn.get(state_at)? != dying {
                return Ok(Ok(()));
            }
            registry::leave_key(txn, layout, Kind::Queue, queue.index)?;
            registry::free_slot(txn, layout, Kind::Queue, queue.index)?;
            Ok(Ok(()))
        }))
    }

    /// IPC_STAT.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn queue_stat(&self, id: i32, caller: &dyn Caller) -> Result<QueueStat, Errno> {
        let stat = self.queue_row(&self.queue(id)?)?;
        stat.permission.allow(caller, READ)?;
        Ok(stat)
    }

    /// MSG_STAT (`any` false) and MSG_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn queue_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<QueueStat, Errno> {
        let id = self.id_at(Kind::Queue, index)?;
        let stat = self.queue_row(&self.queue(id)?)?;
        if !any {
            stat.permission.allow(caller, READ)?;
        }
        Ok(stat)
    }

    fn queue_row(&self, queue: &Queue) -> Result<QueueStat, Errno> {
        let map = self.pool().map();
        let get = |at: u64| load_value(map, at);
        let read = || -> Verdict<QueueStat> {
            Ok(Ok(QueueStat {
                id: Place { index: queue.index, sequence: queue.sequence }.id(),
                permission: Permission::read(map, queue.slot)?,
                bytes: get(at!(queue, bytes))?,
                count: get(at!(queue, count))?,
                limit: get(at!(queue, limit))?,
                sender: self.pid_here(get(at!(queue, sender))?),
                receiver: self.pid_here(get(at!(queue, receiver))?),
                sent: get(at!(queue, sent))?,
                received: get(at!(queue, received))?,
                changed: get(field!(queue.slot, ObjectHeader, changed))?,
            }))
        };
        settle(read())
    }

    /// MSG_INFO.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn msg_info(&self) -> Result<MsgInfo, Errno> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let count = || -> Verdict<MsgInfo> {
            let queues = load_value(map, per_kind!(layout, in_use, Kind::Queue))?;
            let high = load_value(map, per_kind!(layout, high_water, Kind::Queue))?;
            let mut info = MsgInfo { queues, messages: 0, bytes: 0, highest: 0 };
            for index in 0..high.min(layout.msg.count as u32) {
                let slot = registry::slot_at(layout, Kind::Queue, index)?;
                if registry::standing(map, slot)?.is(ObjectState::Live) {
                    let messages = load_value(map, field!(slot, MsgSlot, count))?;
                    let bytes = load_value(map, field!(slot, MsgSlot, bytes))?;
                    info.messages = info.messages.saturating_add(messages);
                    info.bytes = info.bytes.saturating_add(bytes);
                    info.highest = index;
                }
            }
            Ok(Ok(info))
        };
        settle(count())
    }
}

/// Sends those senders to try again whose message would fit now (`ss_wakeup` of `ipc/msg.c`).
fn wake_senders(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    rings: &mut Rings,
) -> Result<bool, Fault> {
    if txn.get(at!(queue, send_head))? == 0 {
        return Ok(false);
    }
    retry(txn, layout, queue.senders(), rings, WaitState::Retry, 0, |txn, at| {
        let size = txn.desk().map.load(field!(at, ThreadSlot, size), Ordering::Relaxed)?;
        fits(txn, queue, size)
    })
}

/// A line of sleepers of the queue in a slot.
pub(crate) fn line_of(slot: u64, senders: bool) -> Line {
    let queue = Queue { index: 0, sequence: 0, slot };
    if senders { queue.senders() } else { queue.receivers() }
}
