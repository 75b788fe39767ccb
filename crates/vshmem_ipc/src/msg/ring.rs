//! Between the ring and the list: the chunks of messages in the ring, and the changes under the
//! lock that close it, empty it into the list, and open it again.
//!
//! # Who owns a chunk of the ring
//! Sending does not touch the chunk's owner cell: as long as the message is in the ring, and after
//! it has been taken, the cell names its sender, who does not count on it any more. The slot goes
//! on noting the chunk of the message that was taken last, and the thread that sends into it next
//! makes that chunk its own. The header in the chunk says which message it carried last and what
//! its owner cell said then; so of several who claim it one alone succeeds, and none when it has
//! been claimed or freed since. A note is thus no more than a hint: any thread may free what it
//! names at any time.

use std::mem::offset_of;

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{
    Fault, LockContext, MessageRing, RingSlot, Txn, field, load_cell, load_value, load_word,
    structure,
};
use vshmem_wire::{
    Cell, ClientId, Layout, MSG_HEADER_BYTES, MsgHeader, MsgSlot, QueueMode, RING_LEAST_LIMIT,
    RING_PAYLOAD_BYTES, RING_SLOTS, UNIT_BYTES, tag_at,
};

use crate::context::Context;
use crate::error::ChangeResult;
use crate::memory::change;
use crate::msg::awaited_types::{AwaitedTypes, says_list};
use crate::msg::count::{lengthen, open_slot};
use crate::msg::list::last;
use crate::msg::message::Header;
use crate::msg::queue::{Queue, at};
use crate::msg::reserve::Reserve;
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::registry::table::MOST_TRIES;

/// Above index and position in the place of a message: tells it from what else a chunk may hold.
const MARK: u64 = 0x5a3 << MARK_SHIFT;

const MARK_SHIFT: u32 = 53;

const INDEX_SHIFT: u32 = 39;

const INDEX_MASK: u64 = (1 << 14) - 1;

/// Where a message was put: the queue's slot and the position in its ring.
pub(crate) fn place_of(index: u32, position: u64) -> u64 {
    MARK | u64::from(index) << INDEX_SHIFT | position
}

/// The queue's slot in such a place.
pub(super) fn index_in(place: u64) -> Option<u32> {
    let index = (place >> INDEX_SHIFT) & INDEX_MASK;
    (place >> MARK_SHIFT == MARK >> MARK_SHIFT).then_some(index as u32)
}

/// Offset of the word of a message's chunk that says where in a ring it was put.
pub(crate) fn place_in(layout: &Layout, chunk: Chunk) -> Result<u64, Fault> {
    Ok(field!(chunk.offset(layout)?, MsgHeader, place))
}

/// A chunk that this client owns and counts on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingChunk {
    pub chunk: Chunk,
    /// Offset of its owner cell.
    owner_at: u64,
    /// What that says as long as the chunk is ours.
    owner: Cell,
    /// Offset of the chunk.
    header: u64,
}

impl RingChunk {
    /// Takes a chunk that has just been allocated into the service of a queue.
    pub fn take_ring_chunk(
        map: &Map,
        layout: &Layout,
        index: u32,
        chunk: Chunk,
    ) -> Result<Self, Fault> {
        let (owner_at, header) = (chunk.owner(layout)?, chunk.offset(layout)?);
        let at = field!(header, MsgHeader, place);
        let place = map.load(at, Ordering::SeqCst)?;
        if index_in(place) != Some(index) {
            // Reaping changes the owner cell and then reads the place; here the place is changed
            // and then `is_ours` reads the owner cell. All of it is sequentially consistent, so one
            // of them sees the other. Refused only when a peer writes into the chunk.
            map.replace(at, place, place_of(index, 0))?;
        }
        Ok(Self { chunk, owner_at, owner: load_cell(map, owner_at)?, header })
    }

    /// Whether a payload of so many bytes fits into it.
    #[inline]
    pub fn fits(&self, map: &Map, layout: &Layout, bytes: u64) -> Result<bool, Fault> {
        let needed = MSG_HEADER_BYTES + bytes;
        // The smallest chunk is one unit.
        Ok(needed <= UNIT_BYTES || needed <= crate::pool::chunk::bytes_of(map, layout, self.chunk)?)
    }

    /// Whether no thread has taken it away from a client that was thought to be dead.
    #[inline]
    pub fn is_ours(&self, map: &Map) -> Result<bool, Fault> {
        Ok(map.load(tag_at(self.owner_at), Ordering::SeqCst)? == self.owner.tag)
    }

    /// Writes the message, to be put where `ring_slot` is.
    #[inline(always)]
    pub fn write(
        &self,
        map: &Map,
        index: u32,
        ring_slot: RingSlot,
        mtype: i64,
        payload: &[u8],
    ) -> Result<(), Fault> {
        let header = structure!(map, self.header, MsgHeader)?;
        let place = place_of(index, ring_slot.position());
        header.store(offset_of!(MsgHeader, place), place, Ordering::Relaxed);
        header.store(offset_of!(MsgHeader, owner), self.owner.word, Ordering::Relaxed);
        // Pairs with the acquire in `SpareChunk::of`: a thread that reads this tag reads that
        // place or a later one.
        header.store(offset_of!(MsgHeader, tag), self.owner.tag, Ordering::Release);
        Header::write_tagged(map, self.header, mtype, payload)
    }

    /// Gives it back to the heap.
    pub fn free(self, map: &Map) -> Result<(), Fault> {
        map.replace_cell(self.owner_at, self.owner, 0)?;
        Ok(())
    }
}

/// The chunk of the message that was taken last from a slot, if no thread has claimed it since.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpareChunk {
    pub chunk: Chunk,
    owner_at: u64,
    owner: Cell,
    header: u64,
}

impl SpareChunk {
    /// What the slot at `ring_slot` notes.
    #[inline(always)]
    pub fn of(
        map: &Map,
        layout: &Layout,
        index: u32,
        ring_slot: RingSlot,
    ) -> Result<Option<Self>, Fault> {
        let Some(chunk) = ring_slot.chunk().map(Chunk) else { return Ok(None) };
        // A note that a peer has made up is as good as none.
        let (Ok(owner_at), Ok(header)) = (chunk.owner(layout), chunk.offset(layout)) else {
            return Ok(None);
        };
        let fields = structure!(map, header, MsgHeader)?;
        let tag = fields.load(offset_of!(MsgHeader, tag), Ordering::Acquire);
        let word = fields.load(offset_of!(MsgHeader, owner), Ordering::Acquire);
        let place = fields.load(offset_of!(MsgHeader, place), Ordering::Acquire);
        // The thread that has claimed it since has written another place before another owner's
        // cell.
        let owner = Cell { word, tag };
        let spare = place == place_of(index, ring_slot.former_position()) && word > IN_OBJECT;
        Ok(spare.then_some(Self { chunk, owner_at, owner, header }))
    }

    /// Makes it this client's own.
    #[inline(always)]
    fn claim(self, map: &Map, client: ClientId) -> Result<Option<RingChunk>, Fault> {
        let mine = client.word();
        let claimed = map.replace_cell(self.owner_at, self.owner, mine)?;
        let owner = self.owner.successor(mine);
        let Self { chunk, owner_at, header, .. } = self;
        Ok(claimed.then_some(RingChunk { chunk, owner_at, owner, header }))
    }

    fn free(self, map: &Map) -> Result<bool, Fault> {
        Ok(map.replace_cell(self.owner_at, self.owner, 0)?)
    }
}

/// Claims the chunk that the slot at `ring_slot` notes.
#[inline(always)]
pub(crate) fn claim_spare(
    map: &Map,
    layout: &Layout,
    index: u32,
    ring_slot: RingSlot,
    client: ClientId,
) -> Result<Option<RingChunk>, Fault> {
    match SpareChunk::of(map, layout, index, ring_slot)? {
        Some(spare) => spare.claim(map, client),
        None => Ok(None),
    }
}

/// Frees the chunks that the slots of a queue note; says whether there were any.
pub(crate) fn free_spare(map: &Map, layout: &Layout, queue: &Queue) -> Result<bool, Fault> {
    let mut freed = false;
    for ring_slot in MessageRing::read(map, queue.ring())?.vacant() {
        if let Some(spare) = SpareChunk::of(map, layout, queue.index, ring_slot)? {
            freed |= spare.free(map)?;
        }
    }
    Ok(freed)
}

/// The chunk of a message that lies in one.
pub(crate) fn chunk_of(ring_slot: RingSlot) -> Result<Chunk, Fault> {
    ring_slot.chunk().map(Chunk).ok_or(Fault::corrupt(ring_slot.at, "a message without a chunk"))
}

/// Type and size of a message in the ring.
#[inline(always)]
pub(crate) fn header_of(map: &Map, layout: &Layout, ring_slot: RingSlot) -> Result<Header, Fault> {
    match ring_slot.inline() {
        Some((mtype, size)) => Ok(Header { mtype, size: size as u64 }),
        None => Header::read_untagged(map, chunk_of(ring_slot)?.offset(layout)?),
    }
}

/// Whether a message of that type may follow the last one in the ring, `ring_slot` being the tail.
/// In a POSIX queue none of a higher priority may.
#[cold]
pub(crate) fn may_follow(
    map: &Map,
    layout: &Layout,
    queue: &Queue,
    ring_slot: RingSlot,
    mtype: i64,
) -> Result<bool, Fault> {
    if load_value(map, at!(queue, most_messages))? == 0 {
        return Ok(true);
    }
    let Some(last) = ring_slot.last_before(map, queue.ring())? else {
        // The swap that would fill the slot fails.
        return Ok(true);
    };
    if last.is_full() || last.was_oldest() {
        return follows_last(map, layout, last, mtype);
    }
    // As in a ring that was just opened. What was taken stays so.
    let ring = MessageRing::read(map, queue.ring())?;
    Ok(ring.tail_slot().word == ring_slot.word && ring.messages().next().is_none())
}

/// Whether the ring of a POSIX queue has no message of a lower priority, `last` being the slot of
/// the one that was sent last. Each was let in so, and they are taken in turn: it has the lowest.
#[inline]
pub(crate) fn follows_last(
    map: &Map,
    layout: &Layout,
    last: RingSlot,
    mtype: i64,
) -> Result<bool, Fault> {
    if !last.is_full() {
        // It was taken, and all before it: the ring is empty.
        return Ok(last.was_oldest());
    }
    let is_lower = header_of(map, layout, last)?.mtype < mtype;
    // Once it is taken its chunk may carry another message.
    Ok(!is_lower && !last.has_moved(map))
}

/// Stages the passage of everything in the ring to the end of the list, and the mode. False when
/// the ring has to be closed first.
#[inline]
pub(crate) fn leave_ring(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<bool, Fault> {
    if says_list(txn.get_word(at!(queue, mode))?) {
        return Ok(true);
    }
    empty_ring(txn, layout, queue)
}

/// Stages a cell that this change has not written yet.
fn write_first(txn: &mut Txn<'_>, at: u64, word: u64) -> Result<(), Fault> {
    let seen = load_cell(txn.lock_context().map, at)?;
    txn.replace_first(at, seen, word)
}

#[cold]
fn empty_ring(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<bool, Fault> {
    let map = txn.lock_context().map;
    let ring = MessageRing::read(map, queue.ring())?;
    if !ring.is_frozen() {
        return Ok(false);
    }
    let (mut bytes, mut count) = (0u32, 0);
    let mut end = last(txn, queue)?;
    let mut reserve = Reserve::of(txn, queue)?;
    for ring_slot in ring.messages() {
        let chunk = match ring_slot.is_inline() {
            true => reserve.take_for(txn, layout, ring_slot)?,
            false => chunk_of(ring_slot)?,
        };
        let unit = chunk.0;
        let header = Header::read(map, layout, chunk)?;
        if header.size > RING_PAYLOAD_BYTES {
            return Err(Fault::corrupt(ring_slot.at, "a message that is too long for the ring"));
        }
        match end {
            // That of a message of the ring is not written before its successor is known.
            Some(last) => write_first(txn, last.next(layout)?, u64::from(unit) + 1)?,
            None => txn.set(at!(queue, head), unit + 1)?,
        }
        if !ring_slot.is_inline() {
            write_first(txn, chunk.owner(layout)?, IN_OBJECT)?;
        }
        end = Some(chunk);
        bytes += header.size as u32;
        count += 1;
    }
    // After the owner cells: what is not in the ring any more is in an object.
    for (ring_slot, word) in ring.emptied() {
        txn.replace_first(ring_slot.at, ring_slot.cell(map)?, word)?;
    }
    reserve.free(txn, layout)?;
    txn.update(at!(queue, tail), 0)?;
    if let Some(last) = end.filter(|_| count > 0) {
        txn.update(last.next(layout)?, 0)?;
        txn.update(at!(queue, tail), last.0 + 1)?;
        let before = txn.get(at!(queue, bytes))?;
        txn.update(at!(queue, bytes), before.saturating_add(bytes))?;
        lengthen(txn, queue, count)?;
    }
    txn.set(at!(queue, mode), QueueMode::List as u32)?;
    Ok(true)
}

/// Stages the opening of the ring, if there is nothing in the list, no sender asleep, always room
/// for eight messages, and no thread to be told of the first message.
#[inline]
pub(crate) fn enter_ring(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<(), Fault> {
    if txn.get(at!(queue, head))? == 0 { open_ring(txn, layout, queue) } else { Ok(()) }
}

/// Whether a queue with this limit of bytes, and of messages if that is not 0, has always room for
/// as many messages as a ring has slots.
fn is_roomy(limit: u32, most_messages: u32) -> bool {
    let has_slots = most_messages == 0 || most_messages >= RING_SLOTS as u32;
    has_slots && u64::from(limit) >= RING_LEAST_LIMIT
}

#[cold]
fn open_ring(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<(), Fault> {
    if txn.get(at!(queue, send_head))? != 0 {
        return Ok(());
    }
    let (limit, most) = (txn.get(at!(queue, limit))?, txn.get(at!(queue, most_messages))?);
    if !is_roomy(limit, most)
        || txn.get(at!(queue, notify_head))? != 0
        || txn.remaining_entries() < 6
    {
        return Ok(());
    }
    let map = txn.lock_context().map;
    let ring = MessageRing::read(map, queue.ring())?;
    // The words of a ring that this change has just closed are not these yet.
    let Some((ring_slot, word)) =
        ring.opened().filter(|(ring_slot, _)| !txn.has_written(ring_slot.at))
    else {
        return Ok(());
    };
    forget_spare(txn, layout, queue, ring_slot)?;
    let awaited_types = AwaitedTypes::waiting_types(txn, layout, queue)?;
    txn.set_word(at!(queue, mode), awaited_types.mode())?;
    // Nothing is in reserve.
    txn.update(at!(queue, tail), 0)?;
    open_slot(txn, queue, ring_slot, word)
}

/// Stages that senders pass a tail that is closed: the slot and its new word.
pub(crate) fn let_senders_pass(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    (ring_slot, word): (RingSlot, u64),
) -> Result<(), Fault> {
    forget_spare(txn, layout, queue, ring_slot)?;
    open_slot(txn, queue, ring_slot, word)
}

/// Stages that the chunk is free that a slot notes: it is about to forget it.
fn forget_spare(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    ring_slot: RingSlot,
) -> Result<(), Fault> {
    let map = txn.lock_context().map;
    if let Some(spare) = SpareChunk::of(map, layout, queue.index, ring_slot)?
        && txn.cell(spare.owner_at)? == spare.owner
    {
        txn.replace(spare.owner_at, spare.owner, 0)?;
    }
    Ok(())
}

/// Stages the ring of a new queue: empty, whatever was there, and open if there is always room for
/// eight messages.
pub(crate) fn new_ring(
    txn: &mut Txn<'_>,
    queue: &Queue,
    limit: u32,
    most_messages: u32,
) -> Result<(), Fault> {
    let map = txn.lock_context().map;
    let mut ring = MessageRing::read(map, queue.ring())?;
    if !ring.makes_sense() || ring.messages().next().is_some() {
        // A peer has written into it.
        for (ring_slot, word) in ring.renewed() {
            txn.replace(ring_slot.at, ring_slot.cell(map)?, word)?;
        }
        ring = MessageRing::of(queue.ring(), ring.renewed_words());
    }
    let open = is_roomy(limit, most_messages);
    if let Some((ring_slot, word)) = if open { ring.opened() } else { ring.closed() } {
        // What is staged for it already keeps the cell that was there before.
        txn.replace(ring_slot.at, ring_slot.cell(map)?, word)?;
    }
    let mode = if open { QueueMode::Ring } else { QueueMode::List };
    txn.update_word(at!(queue, mode), mode as u64)
}

/// Messages in a ring and their bytes.
pub(crate) fn ring_totals(map: &Map, layout: &Layout, slot: u64) -> Result<(u32, u32), Fault> {
    let base = field!(slot, MsgSlot, ring);
    let mut totals = (0, 0);
    for _ in 0..MOST_TRIES {
        let ring = MessageRing::read(map, base)?;
        totals = (0, 0);
        for ring_slot in ring.messages() {
            let size = header_of(map, layout, ring_slot).map_or(0, |header| header.size);
            totals.0 += 1;
            totals.1 += size.min(RING_PAYLOAD_BYTES) as u32;
        }
        if ring.still(map)? {
            break;
        }
    }
    Ok(totals)
}

/// Whether a queue uses its list, for all that can be seen without the lock.
#[inline]
pub(crate) fn is_in_list(context: &Context, queue: &Queue) -> Result<bool, Fault> {
    Ok(says_list(load_word(context.pool().map(), at!(queue, mode))?))
}

/// Runs a change under the lock of a queue, with all its messages in the list.
#[inline]
pub(crate) fn change_list<'a, T>(
    context: &'a Context,
    lock_context: &LockContext<'a>,
    queue: &Queue,
    name: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> ChangeResult<T>,
) -> ChangeResult<T> {
    let layout = context.pool().layout();
    for _ in 0..MOST_TRIES {
        if !is_in_list(context, queue)? {
            MessageRing::close(lock_context.map, queue.ring())?;
        }
        let done = change::run(context, lock_context, queue.lock(), name, |txn| {
            if !leave_ring(txn, layout, queue)? {
                // Opened since, by a thread that was faster.
                return Ok(Ok(None));
            }
            Ok(body(txn)?.map(Some))
        })?;
        if let Some(outcome) = done.transpose() {
            return Ok(outcome);
        }
    }
    Err(Fault::corrupt(queue.slot, "a ring that does not stay closed"))
}
