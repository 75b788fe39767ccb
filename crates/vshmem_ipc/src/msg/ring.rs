//! Between a ring and the list: the changes under the lock that close a ring, empty it into the
//! list, and open it again. See [`crate::msg::ring_chunk`] for the chunks of its messages.

use vshmem_mem::Map;
use vshmem_sync::{Decision, Fault, LockContext, MessageRing, RingSlot, Txn, load_cell};
use vshmem_wire::{
    LONG_RING_SLOTS, Layout, Place, QueueMode, RING_LEAST_LIMIT, RING_PAYLOAD_BYTES, RING_SLOTS,
    RawCell,
};

use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::memory::change;
use crate::msg::count::{count_of, lengthen, open_slot};
use crate::msg::list::last;
use crate::msg::message::Header;
use crate::msg::mode::{
    AwaitedTypes, RingInUse, is_turn, long_ring, ring_base, ring_in_use, with_ring,
};
use crate::msg::queue::{Queue, at};
use crate::msg::reserve::Reserve;
use crate::msg::ring_chunk::SpareChunk;
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::registry::table::MOST_TRIES;

/// Frees the chunks that the slots of a queue note; says whether there were any.
pub(crate) fn free_spare(map: &Map, layout: &Layout, queue: &Queue) -> Result<bool, Fault> {
    let freed = free_spare_of::<RING_SLOTS>(map, layout, queue, queue.ring())?;
    Ok(match long_ring(map, layout, queue)? {
        Some(base) => freed | free_spare_of::<LONG_RING_SLOTS>(map, layout, queue, base)?,
        None => freed,
    })
}

fn free_spare_of<const N: usize>(
    map: &Map,
    layout: &Layout,
    queue: &Queue,
    base: Place<[RawCell; N]>,
) -> Result<bool, Fault> {
    let mut freed = false;
    for ring_slot in MessageRing::<N>::read(map, base)?.vacant() {
        if let Some(spare) = SpareChunk::of(map, layout, queue.index, ring_slot)? {
            freed |= spare.free(map)?;
        }
    }
    Ok(freed)
}

/// The chunk of a message that lies in one.
pub(crate) fn chunk_of<const N: usize>(ring_slot: RingSlot<N>) -> Result<Chunk, Fault> {
    ring_slot.chunk().map(Chunk).ok_or(Fault::corrupt(ring_slot.at, "a message without a chunk"))
}

/// Type and size of a message in the ring.
#[inline(always)]
pub(crate) fn header_of<const N: usize>(
    map: &Map,
    layout: &Layout,
    ring_slot: RingSlot<N>,
) -> Result<Header, Fault> {
    match ring_slot.inline() {
        Some((mtype, size)) => Ok(Header { mtype, size: size as u64 }),
        None => Header::read_untagged(map, chunk_of(ring_slot)?.place(layout)?),
    }
}

/// Whether a message of that type may follow the last one in the ring of a POSIX queue, `ring_slot`
/// being the tail: none of a higher priority may.
#[cold]
pub(crate) fn may_follow<const N: usize>(
    map: &Map,
    layout: &Layout,
    ring_slot: RingSlot<N>,
    mtype: i64,
) -> Result<bool, Fault> {
    let Some(last) = ring_slot.last_before(map)? else {
        // The swap that would fill the slot fails.
        return Ok(true);
    };
    if last.is_full() || last.was_oldest() {
        return follows_last(map, layout, last, mtype);
    }
    // As in a ring that was just opened. What was taken stays so.
    let ring = MessageRing::<N>::read(map, ring_slot.base())?;
    Ok(ring.tail_slot().word == ring_slot.word && ring.messages().next().is_none())
}

/// Whether the ring of a POSIX queue has no message of a lower priority, `last` being the slot of
/// the one that was sent last. Each was let in so, and they are taken in turn: it has the lowest.
#[inline]
pub(crate) fn follows_last<const N: usize>(
    map: &Map,
    layout: &Layout,
    last: RingSlot<N>,
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

/// Stages the passage of what is in the ring to the end of the list, and the mode. False when this
/// change can do nothing else, and there has to be another one: the ring was open, or it held more
/// messages than one change moves.
#[inline]
pub(crate) fn leave_ring(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<bool, Fault> {
    match RingInUse::of(txn.get_word(at!(queue, mode))?) {
        None => Ok(true),
        Some(ring) => with_ring!(ring, N => empty_ring::<N>(txn, layout, queue)),
    }
}

/// Closes the ring that a queue uses: when this returns, it has been frozen, or the queue used its
/// list.
pub(crate) fn close_ring(map: &Map, layout: &Layout, queue: &Queue) -> Result<(), Fault> {
    match ring_in_use(map, queue)? {
        Some(ring) => with_ring!(ring, N => {
            MessageRing::<N>::close(map, ring_base::<N>(map, layout, queue)?)
        }),
        None => Ok(()),
    }
}

/// Messages that go from a ring to the list in one change: an intent record has no room for those
/// of a long ring. Between two such changes the ring is closed, and the list holds the messages
/// that come before those in the ring; the next thread under the lock continues.
const MOST_AT_ONCE: usize = RING_SLOTS;

/// Stages a cell that this change has not written yet.
fn write_first(txn: &mut Txn<'_>, at: Place<RawCell>, word: u64) -> Result<(), Fault> {
    let seen = load_cell(txn.lock_context().map, at)?;
    txn.replace_first(at, seen, word)
}

#[cold]
fn empty_ring<const N: usize>(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
) -> Result<bool, Fault> {
    let map = txn.lock_context().map;
    let ring = MessageRing::<N>::read(map, ring_base::<N>(map, layout, queue)?)?;
    if !ring.is_frozen() {
        return Ok(false);
    }
    let (mut bytes, mut count) = (0u32, 0);
    let mut end = last(txn, queue)?;
    // Nothing lies in the slots of a long ring themselves.
    let mut reserve = if N == RING_SLOTS { Reserve::of(txn, queue)? } else { Reserve::NONE };
    for ring_slot in ring.messages().take(MOST_AT_ONCE) {
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
    for (ring_slot, word) in ring.words_to_empty().take(MOST_AT_ONCE) {
        txn.replace_first(ring_slot.at, ring_slot.cell(map)?, word)?;
    }
    if N == RING_SLOTS {
        reserve.free(txn, layout)?;
        txn.update(at!(queue, tail_or_reserve), 0)?;
    }
    if let Some(last) = end.filter(|_| count > 0) {
        txn.update(last.next(layout)?, 0)?;
        txn.update(at!(queue, tail_or_reserve), last.0 + 1)?;
        let before = txn.get(at!(queue, bytes))?;
        txn.update(at!(queue, bytes), before.saturating_add(bytes))?;
        lengthen(txn, queue, count)?;
    }
    let is_empty = ring.messages().nth(MOST_AT_ONCE).is_none();
    if is_empty {
        txn.set(at!(queue, mode), QueueMode::List as u32)?;
    }
    Ok(is_empty)
}

/// Stages the opening of a ring, if there is nothing in the list, no sender asleep, always room for
/// as many messages as the ring has slots, and no thread registered for a notice.
#[inline]
pub(crate) fn enter_ring(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<(), Fault> {
    if txn.get(at!(queue, head))? == 0 { open_ring(txn, layout, queue) } else { Ok(()) }
}

/// Whether a queue with this limit of bytes, and of messages if that is not 0, has always room for
/// as many messages as a ring has slots.
pub(crate) fn is_roomy<const N: usize>(limit: u32, most_messages: u32) -> bool {
    let has_slots = most_messages == 0 || most_messages >= N as u32;
    has_slots && u64::from(limit) >= RING_LEAST_LIMIT
}

#[cold]
fn open_ring(txn: &mut Txn<'_>, layout: &Layout, queue: &Queue) -> Result<(), Fault> {
    if txn.get(at!(queue, send_head))? != 0 {
        return Ok(());
    }
    let (limit, most) = (txn.get(at!(queue, limit))?, txn.get(at!(queue, most_messages))?);
    if !is_roomy::<RING_SLOTS>(limit, most)
        || txn.get(at!(queue, notify_head))? != 0
        || txn.remaining_entries() < 7
    {
        return Ok(());
    }
    let map = txn.lock_context().map;
    let in_use = RingInUse::of(txn.get_word(at!(queue, mode))?);
    let short = MessageRing::<RING_SLOTS>::read(map, queue.ring())?;
    let is_long = in_use == Some(RingInUse::Long);
    if (is_long || in_use.is_none() && may_use_long(txn, queue, (limit, most), &short)?)
        && let Some(base) = long_ring(map, layout, queue)?
    {
        let ring = MessageRing::<LONG_RING_SLOTS>::read(map, base)?;
        // One that a peer has spoiled is not used any more.
        if is_long || ring.makes_sense() && ring.is_frozen() {
            return open(txn, layout, queue, &ring);
        }
    }
    open(txn, layout, queue, &short)
}

/// Whether a queue that uses its list is to use its long ring next.
fn may_use_long(
    txn: &mut Txn<'_>,
    queue: &Queue,
    (limit, most_messages): (u32, u32),
    short: &MessageRing,
) -> Result<bool, Fault> {
    if txn.get(at!(queue, long_ring))? == 0 || !is_roomy::<LONG_RING_SLOTS>(limit, most_messages) {
        return Ok(false);
    }
    let rarity = txn.get(at!(queue, long_ring_rarity))?;
    if rarity == 0 {
        return Ok(true);
    }
    // Messages that were not sent through the long ring: with each opening there are more.
    let past_ring = count_of(txn, queue)?.past_ring;
    let is_its_turn = is_turn((short.next_position() as u32).wrapping_add(past_ring), rarity);
    if is_its_turn {
        txn.set(at!(queue, long_ring_rarity), 0)?;
    }
    Ok(is_its_turn)
}

/// Stages the opening of a ring that is empty and closed.
fn open<const N: usize>(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    ring: &MessageRing<N>,
) -> Result<(), Fault> {
    // The words of a ring that this change has just closed are not these yet.
    let Some((ring_slot, word)) =
        ring.words_to_open().filter(|(ring_slot, _)| !txn.has_written(ring_slot.at))
    else {
        return Ok(());
    };
    forget_spare(txn, layout, queue, ring_slot)?;
    let awaited_types = AwaitedTypes::waiting_types(txn, layout, queue)?;
    txn.set_word(at!(queue, mode), awaited_types.mode(RingInUse::of_slots::<N>()))?;
    // Nothing is in reserve.
    txn.update(at!(queue, tail_or_reserve), 0)?;
    open_slot(txn, queue, ring_slot, word)
}

/// Stages that senders pass a tail that is closed: the slot and its new word.
pub(crate) fn let_senders_pass<const N: usize>(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    (ring_slot, word): (RingSlot<N>, u64),
) -> Result<(), Fault> {
    forget_spare(txn, layout, queue, ring_slot)?;
    open_slot(txn, queue, ring_slot, word)
}

/// Stages that the chunk is free that a slot notes: it is about to forget it.
fn forget_spare<const N: usize>(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    ring_slot: RingSlot<N>,
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
/// eight messages. The long ring that the slot may have is closed and empty.
pub(crate) fn new_ring(
    txn: &mut Txn<'_>,
    queue: &Queue,
    limit: u32,
    most_messages: u32,
) -> Result<(), Fault> {
    let map = txn.lock_context().map;
    let mut ring = MessageRing::<RING_SLOTS>::read(map, queue.ring())?;
    if !ring.makes_sense() || ring.messages().next().is_some() {
        // A peer has written into it.
        for (ring_slot, word) in ring.words_to_renew() {
            txn.replace(ring_slot.at, ring_slot.cell(map)?, word)?;
        }
        ring = MessageRing::of(queue.ring(), ring.renewed_words());
    }
    let open = is_roomy::<RING_SLOTS>(limit, most_messages);
    if let Some((ring_slot, word)) = if open { ring.words_to_open() } else { ring.words_to_close() }
    {
        // What is staged for it already keeps the cell that was there before.
        txn.replace(ring_slot.at, ring_slot.cell(map)?, word)?;
    }
    txn.update(at!(queue, long_ring_rarity), 0)?;
    let mode = if open { QueueMode::Ring } else { QueueMode::List };
    txn.update_word(at!(queue, mode), mode as u64)
}

/// Messages in the ring that the queue in a slot uses, and their bytes.
pub(crate) fn ring_totals(map: &Map, layout: &Layout, queue: &Queue) -> Result<(u32, u32), Fault> {
    let mut totals = (0, 0);
    for _ in 0..MOST_TRIES {
        let mode = ring_in_use(map, queue)?;
        let Some(ring) = mode else { return Ok((0, 0)) };
        let (seen, still) = with_ring!(ring, N => {
            let ring = MessageRing::<N>::read(map, ring_base::<N>(map, layout, queue)?)?;
            (totals_of(map, layout, &ring), ring.still(map)?)
        });
        totals = seen;
        if still && ring_in_use(map, queue)? == mode {
            break;
        }
    }
    Ok(totals)
}

fn totals_of<const N: usize>(map: &Map, layout: &Layout, ring: &MessageRing<N>) -> (u32, u32) {
    ring.messages().fold((0, 0), |(count, bytes), ring_slot| {
        let size = header_of(map, layout, ring_slot).map_or(0, |header| header.size);
        (count + 1, bytes + size.min(RING_PAYLOAD_BYTES) as u32)
    })
}

/// Whether a queue uses its list, for all that can be seen without the lock.
#[inline]
pub(crate) fn is_in_list(context: &Context, queue: &Queue) -> Result<bool, Fault> {
    Ok(ring_in_use(context.pool().map(), queue)?.is_none())
}

/// Runs a change under the lock of a queue, with all its messages in the list.
#[inline]
pub(crate) fn change_list<'a, T>(
    context: &'a Context,
    lock_context: &LockContext<'a>,
    queue: &Queue,
    name: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> Result<T, Fault>,
) -> Result<T, Failure> {
    decide_list(context, lock_context, queue, name, |txn| body(txn).map(Decision::Commit))
}

/// As [`change_list`], for a change that may be refused. Before `body` runs, the passage of the
/// ring's messages to the list is staged, which is right also if the call then fails: it fails
/// with [`Decision::CommitThenFail`], or the ring would stay closed with messages in it, and each
/// call after this one would begin with the same.
#[inline]
pub(crate) fn decide_list<'a, T>(
    context: &'a Context,
    lock_context: &LockContext<'a>,
    queue: &Queue,
    name: &'static str,
    mut body: impl FnMut(&mut Txn<'a>) -> ChangeResult<T>,
) -> Result<T, Failure> {
    let layout = context.pool().layout();
    for _ in 0..MOST_TRIES {
        close_ring(lock_context.map, layout, queue)?;
        let done = change::decide(context, lock_context, queue.lock(), name, |txn| {
            if !leave_ring(txn, layout, queue)? {
                return Ok(Decision::Commit(None));
            }
            Ok(body(txn)?.map(Some))
        })?;
        if let Some(done) = done {
            return Ok(done);
        }
    }
    Err(Fault::corrupt(queue.slot, "a ring that does not stay closed").into())
}
