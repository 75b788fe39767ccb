//! Attach records: the list of what a client holds. A record counts attaches of a segment and
//! descriptors of a POSIX object, or descriptors of a POSIX queue.

use vshmem_sync::{Fault, Txn};
use vshmem_wire::{
    ATTACHED_QUEUE, AttachCount, AttachSlot, ClientId, ClientSlot, Layout, Place, RawCell,
    Registry, field,
};

use crate::pool::clients::slot_of;

/// A record, and the cell that leads to it.
pub(crate) type FoundRecord = (Place<AttachSlot>, Place<RawCell>);

/// Finds a client's record whose word says `held`, with the cell that points to it.
pub(crate) fn find_record(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    held: u32,
) -> Result<Option<FoundRecord>, Fault> {
    find_where(txn, layout, client, |word| word == held)
}

/// Finds a client's first record of a queue: what its word says.
pub(crate) fn first_of_queue(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
) -> Result<Option<u32>, Fault> {
    let found = find_where(txn, layout, client, |word| word & ATTACHED_QUEUE != 0)?;
    let Some((at, _)) = found else { return Ok(None) };
    // Otherwise the client's slot has its next holder, and that one has begun to open queues.
    let is_its = txn.get_word(field!(at, AttachSlot, client))? == client.word();
    if is_its { txn.get(field!(at, AttachSlot, segment)).map(Some) } else { Ok(None) }
}

fn find_where(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    is_it: impl Fn(u32) -> bool,
) -> Result<Option<FoundRecord>, Fault> {
    let mut link = field!(slot_of(layout, client)?, ClientSlot, attaches);
    for _ in 0..=layout.attaches.count {
        let Some(record) = txn.get(link)?.checked_sub(1) else {
            return Ok(None);
        };
        let at = layout.attaches.row(record)?;
        if is_it(txn.get(field!(at, AttachSlot, segment))?) {
            return Ok(Some((at, link)));
        }
        link = field!(at, AttachSlot, next);
    }
    Err(Fault::corrupt(link, "an attach list without an end"))
}

/// The record behind the first `passed` of segments in a client's list.
pub(crate) fn nth_of_segment(
    txn: &mut Txn<'_>,
    layout: &Layout,
    head_at: Place<RawCell>,
    passed: u32,
) -> Result<Option<Place<AttachSlot>>, Fault> {
    let mut left = passed;
    let mut next = txn.get(head_at)?;
    for _ in 0..=layout.attaches.count {
        let Some(record) = next.checked_sub(1) else { return Ok(None) };
        let at = layout.attaches.row(record)?;
        if txn.get(field!(at, AttachSlot, segment))? & ATTACHED_QUEUE == 0 {
            if left == 0 {
                return Ok(Some(at));
            }
            left -= 1;
        }
        next = txn.get(field!(at, AttachSlot, next))?;
    }
    Err(Fault::corrupt(head_at, "an attach list without an end"))
}

/// What a cell counts.
#[inline]
pub(crate) fn count_at(txn: &mut Txn<'_>, at: Place<RawCell>) -> Result<AttachCount, Fault> {
    txn.get_word(at).map(AttachCount::unpack)
}

/// Stages that a client holds so much more; false when there is no record left.
///
/// Inline, as `subtract`: the kernel's part of shmat(2) has just taken the first cache for its own
/// code, so that each further line of this one has to be fetched.
#[inline(always)]
pub(crate) fn add(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    held: u32,
    more: AttachCount,
) -> Result<bool, Fault> {
    if let Some((at, _)) = find_record(txn, layout, client, held)? {
        let before = count_at(txn, field!(at, AttachSlot, count))?;
        txn.set_word(field!(at, AttachSlot, count), before.plus(more).pack())?;
        return Ok(true);
    }
    let hint_at = field!(layout.registry, Registry, attach_hint);
    let records = layout.attaches.count as u32;
    let hint = txn.get(hint_at)? % records;
    let mut free = None;
    for step in 0..records {
        let record = (hint + step) % records;
        let at = layout.attaches.row(record)?;
        if txn.get(field!(at, AttachSlot, segment))? == 0 {
            free = Some((record, at));
            break;
        }
    }
    let Some((record, at)) = free else {
        return Ok(false);
    };
    let head_at = field!(slot_of(layout, client)?, ClientSlot, attaches);
    let head = txn.get(head_at)?;
    // That one and not the next: a client that attaches and detaches in turn then writes no hint.
    txn.update(hint_at, record)?;
    txn.set(field!(at, AttachSlot, segment), held)?;
    txn.set_word(field!(at, AttachSlot, count), more.pack())?;
    txn.set(field!(at, AttachSlot, next), head)?;
    txn.set_word(field!(at, AttachSlot, client), client.word())?;
    txn.set(head_at, record + 1)?;
    Ok(true)
}

/// Stages that a client holds so much less, or as much of that as it has: what that is.
#[inline(always)]
pub(crate) fn subtract(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    held: u32,
    fewer: AttachCount,
) -> Result<AttachCount, Fault> {
    let Some((at, link)) = find_record(txn, layout, client, held)? else {
        return Ok(AttachCount::default());
    };
    let before = count_at(txn, field!(at, AttachSlot, count))?;
    let gone = before.at_most(fewer);
    if gone == before {
        let next = txn.get(field!(at, AttachSlot, next))?;
        txn.set(link, next)?;
        txn.set(field!(at, AttachSlot, segment), 0)?;
        txn.set(field!(at, AttachSlot, client), 0)?;
    } else if !gone.is_none() {
        txn.set_word(field!(at, AttachSlot, count), before.minus(gone).pack())?;
    }
    Ok(gone)
}
