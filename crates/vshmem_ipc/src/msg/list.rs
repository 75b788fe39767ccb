//! The list of messages, and the wait queues of those who wait for one or for room.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{ClientId, Layout, Place, RawCell, SendWait, ThreadSlot, WaitState, field};

use crate::msg::count::lengthen;
use crate::msg::message::{Header, Search};
use crate::msg::queue::{Queue, at};
use crate::pool::chunk::Chunk;
use crate::wait::wait_queue::{self, WaitQueue, WakeList};

/// The last message of the list: the tail says it only as long as there is one.
pub(crate) fn last(txn: &mut Txn<'_>, queue: &Queue) -> Result<Option<Chunk>, Fault> {
    if txn.get(at!(queue, head))? == 0 {
        return Ok(None);
    }
    Ok(txn.get(at!(queue, tail_or_reserve))?.checked_sub(1).map(Chunk))
}

/// A message in the list: its chunk, and the cell that points to it.
pub(crate) struct Found {
    pub(crate) chunk: Chunk,
    pub(crate) header: Header,
    pub(crate) link: Place<RawCell>,
    pub(crate) before: Option<Chunk>,
}

/// Finds the message that a receiver wants (`find_msg` of `ipc/msg.c`).
pub(crate) fn find(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    search: Search,
) -> Result<Option<Found>, Fault> {
    let mut best: Option<Found> = None;
    let mut link = at!(queue, head);
    let mut before = None;
    for nth in 0..=layout.unit_meta.count {
        let Some(unit) = txn.get(link)?.checked_sub(1) else {
            return Ok(best);
        };
        let chunk = Chunk(unit);
        let header = Header::read(txn.lock_context().map, layout, chunk)?;
        let wanted = match search {
            Search::Nth(wanted) => nth == wanted,
            Search::AtMost(highest) => {
                header.mtype
                    <= best.as_ref().map_or(highest, |found| found.header.mtype.saturating_sub(1))
            }
            other => other.accepts(header.mtype),
        };
        if wanted {
            best = Some(Found { chunk, header, link, before });
            if !matches!(search, Search::AtMost(_)) || header.mtype == 1 {
                return Ok(best);
            }
        }
        before = Some(chunk);
        link = chunk.next(layout)?;
    }
    Err(Fault::corrupt(link, "a queue without an end"))
}

/// Stages the removal of a message from the list; it then belongs to `client`.
pub(crate) fn take(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    found: &Found,
    client: ClientId,
) -> Result<(), Fault> {
    let next = txn.get(found.chunk.next(layout)?)?;
    txn.set(found.link, next)?;
    if next == 0
        && let Some(before) = found.before
    {
        txn.set(at!(queue, tail_or_reserve), before.0 + 1)?;
    }
    pass_from_list(txn, layout, found.chunk, client.word())?;
    let bytes = txn.get(at!(queue, bytes))?;
    txn.set(at!(queue, bytes), bytes.saturating_sub(found.header.size as u32))?;
    lengthen(txn, queue, -1)
}

/// Stages the passage of a message's chunk out of the list.
pub(crate) fn pass_from_list(
    txn: &mut Txn<'_>,
    layout: &Layout,
    chunk: Chunk,
    to: u64,
) -> Result<(), Fault> {
    let owner = chunk.owner(layout)?;
    // Usually `IN_OBJECT`; for a moment the name of who reaps the sender, see `reap_chunk`.
    if txn.get_word(owner)? == 0 {
        return Err(Fault::corrupt(owner, "a message in a chunk that is free"));
    }
    txn.set_word(owner, to)
}

/// Whether a message of `size` bytes fits: into a System V queue by its bytes
/// (`msg_fits_inqueue` of `ipc/msg.c`), into a POSIX queue by the number of messages
/// (`do_mq_timedsend` of `ipc/mqueue.c`).
pub(crate) fn fits(txn: &mut Txn<'_>, queue: &Queue, size: u64) -> Result<bool, Fault> {
    let count = txn.get(at!(queue, count))?;
    let most = txn.get(at!(queue, most_messages))?;
    if most != 0 {
        return Ok(count < most);
    }
    let limit = txn.get(at!(queue, limit))?;
    let bytes = u64::from(txn.get(at!(queue, bytes))?);
    Ok(bytes.saturating_add(size) <= limit.into() && count < limit)
}

/// Which end of those of its own priority a message comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Oldest,
    Newest,
}

/// Stages that a message is in the list. A System V queue is in the order of arrival; a POSIX queue
/// in that of priorities, highest first: so in both the first is what a receiver of any takes.
pub(crate) fn insert(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    chunk: Chunk,
    header: Header,
    end: End,
) -> Result<(), Fault> {
    let before = match txn.get(at!(queue, most_messages))? {
        0 if end == End::Oldest => None,
        0 => last(txn, queue)?,
        _ => last_before(txn, layout, queue, header.mtype, end)?,
    };
    let link = match before {
        Some(before) => before.next(layout)?,
        None => at!(queue, head),
    };
    let after = txn.get(link)?;
    txn.update(chunk.next(layout)?, after)?;
    txn.set(link, chunk.0 + 1)?;
    if after == 0 {
        txn.update(at!(queue, tail_or_reserve), chunk.0 + 1)?;
    }
    let bytes = txn.get(at!(queue, bytes))?;
    txn.update(at!(queue, bytes), bytes.saturating_add(header.size as u32))?;
    lengthen(txn, queue, 1)
}

/// The message of a POSIX queue behind which one of this type comes; none where it is the first.
/// Usually that is the last of the list, as all have the same priority.
fn last_before(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    mtype: i64,
    end: End,
) -> Result<Option<Chunk>, Fault> {
    let map = txn.lock_context().map;
    let goes_first = |chunk: Chunk| -> Result<bool, Fault> {
        let other = Header::read(map, layout, chunk)?.mtype;
        Ok(other > mtype || other == mtype && end == End::Newest)
    };
    let Some(last) = last(txn, queue)? else { return Ok(None) };
    if goes_first(last)? {
        return Ok(Some(last));
    }
    let mut before = None;
    let mut next = txn.get(at!(queue, head))?;
    for _ in 0..=layout.unit_meta.count {
        let Some(chunk) = next.checked_sub(1).map(Chunk) else { return Ok(before) };
        if !goes_first(chunk)? {
            return Ok(before);
        }
        before = Some(chunk);
        next = txn.get(chunk.next(layout)?)?;
    }
    Err(Fault::corrupt(queue.slot, "a queue without an end"))
}

/// Sends waiters of a wait queue to try again. True when the record is full and there are more.
pub(crate) fn retry(
    txn: &mut Txn<'_>,
    layout: &Layout,
    wait_queue: WaitQueue,
    wakes: &mut WakeList,
    state: WaitState,
    result: u32,
    mut wanted: impl FnMut(&mut Txn<'_>, Place<ThreadSlot>) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let mut more = false;
    wait_queue::walk(txn, layout, wait_queue, |txn, slot| {
        if txn.remaining_entries() < 8 {
            more = true;
            return Ok(false);
        }
        if wanted(txn, layout.threads.row(slot)?)? {
            wait_queue::dequeue(txn, layout, wait_queue, slot, state, result)?;
            wakes.add(slot);
        }
        Ok(true)
    })?;
    Ok(more)
}

/// Sends those senders to try again whose message would fit now (`ss_wakeup` of `ipc/msg.c`).
pub(crate) fn wake_senders(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    wakes: &mut WakeList,
) -> Result<bool, Fault> {
    if txn.get(at!(queue, send_head))? == 0 {
        return Ok(false);
    }
    retry(txn, layout, queue.senders(), wakes, WaitState::Retry, 0, |txn, at| {
        let size = txn
            .lock_context()
            .map
            .load(field!(at.send_wait(), SendWait, size), Ordering::Relaxed)?;
        fits(txn, queue, size)
    })
}
