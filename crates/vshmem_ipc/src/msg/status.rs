//! msgctl(2): owner, mode, limit, and totals. For listings the sizes of messages.

use rustix::io::Errno;
use vshmem_mem::Map;
use vshmem_sync::Decision::{Commit, CommitThenFail};
use vshmem_sync::{Fault, MessageRing, load_cell, load_value};
use vshmem_wire::{
    LONG_RING_SLOTS, Layout, MsgSlot, ObjectState, Place, RING_PAYLOAD_BYTES, RING_SLOTS, RawCell,
    WaitState, field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::msg::count::MOST_LOOKS;
use crate::msg::list::retry;
use crate::msg::message::Header;
use crate::msg::mode::long_ring;
use crate::msg::queue::{self, MsgInfo, Queue, QueueStat, at};
use crate::msg::ring::{self, header_of, ring_totals};
use crate::msg::ring_chunk::SpareChunk;
use crate::msg::serve;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::lookup;
use crate::registry::permission::{Caller, Permission, READ};
use crate::registry::table::{self, per_kind};

/// Messages of the queue in a slot and their bytes, in list and ring.
pub(crate) fn totals(
    map: &Map,
    layout: &Layout,
    slot: Place<MsgSlot>,
) -> Result<(u32, u32), Fault> {
    let queue = Queue { index: 0, sequence: 0, slot };
    let count_at = field!(slot, MsgSlot, count);
    let mut totals = (0, 0);
    for _ in 0..MOST_LOOKS {
        let before = load_cell(map, count_at)?;
        let (count, bytes) = ring_totals(map, layout, &queue)?;
        let bytes_listed = load_value(map, field!(slot, MsgSlot, bytes))?;
        let listed = before.word as u32;
        totals = (listed.saturating_add(count), bytes_listed.saturating_add(bytes));
        // Otherwise some may have gone from the ring to the list, and were counted twice.
        if load_cell(map, count_at)? == before {
            break;
        }
    }
    Ok(totals)
}

/// IPC_SET.
pub(crate) fn queue_change(
    context: &Context,
    id: i32,
    uid: u32,
    gid: u32,
    mode: u32,
    limit: u64,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let queue = queue::find(context, id)?;
    queue::permission(context, &queue)?.allow_control(caller)?;
    if limit > u64::from(context.pool().geometry().msgmnb) && !caller.unlimited() {
        return Err(Errno::PERM.into());
    }
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    ring::decide_list(context, &lock_context, &queue, "msg-set", |txn| {
        if !queue.alive(txn)? {
            return Ok(CommitThenFail(Errno::IDRM));
        }
        txn.update(at!(queue, limit), limit)?;
        table::set_owner(txn, queue.slot.header(), uid, gid, mode).map(Commit)
    })?;
    // Every thread looks again: modes and room may be other ones now.
    serve::serve_all(context, &lock_context, &queue, "msg-set-wake", |txn, wakes| {
        let mut more = false;
        for wait_queue in [queue.receivers(), queue.senders()] {
            more |= retry(txn, layout, wait_queue, wakes, WaitState::Retry, 0, |_, _| Ok(true))?;
        }
        Ok(more)
    })
}

/// IPC_STAT.
pub(crate) fn queue_stat(
    context: &Context,
    id: i32,
    caller: &dyn Caller,
) -> Result<QueueStat, Failure> {
    let stat = queue_row(context, &queue::find(context, id)?)?;
    stat.permission.allow(caller, READ)?;
    Ok(stat)
}

/// MSG_STAT (`any` false) and MSG_STAT_ANY.
pub(crate) fn queue_at_index(
    context: &Context,
    index: u32,
    any: bool,
    caller: &dyn Caller,
) -> Result<QueueStat, Failure> {
    let id = lookup::id_at(context, Kind::Queue, index)?;
    let stat = queue_row(context, &queue::find(context, id)?)?;
    if !any {
        stat.permission.allow(caller, READ)?;
    }
    Ok(stat)
}

fn queue_row(context: &Context, queue: &Queue) -> Result<QueueStat, Failure> {
    let map = context.pool().map();
    let get = |at: Place<RawCell>| load_value(map, at);
    let (count, bytes) = totals(map, context.pool().layout(), queue.slot)?;
    Ok(QueueStat {
        id: ObjectSlot { index: queue.index, sequence: queue.sequence }.id(),
        permission: Permission::read(map, queue.slot.header())?,
        bytes,
        count,
        limit: get(at!(queue, limit))?,
        sender: context.pid_here(get(at!(queue, sender))?),
        receiver: context.pid_here(get(at!(queue, receiver))?),
        sent: get(at!(queue, sent))?,
        received: get(at!(queue, received))?,
        changed: get(field!(queue.slot, MsgSlot, header.changed))?,
    })
}

/// MSG_INFO.
pub(crate) fn msg_info(context: &Context) -> Result<MsgInfo, Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let queues = load_value(map, per_kind!(layout, in_use, Kind::Queue))?;
    let high = load_value(map, per_kind!(layout, high_water, Kind::Queue))?;
    let mut info = MsgInfo { queues, messages: 0, bytes: 0, highest: 0 };
    for index in 0..high.min(layout.msg.count as u32) {
        let slot = layout.msg.row(index)?;
        if table::slot_state(map, slot.header())?.is(ObjectState::Live) {
            let (messages, bytes) = totals(map, layout, slot)?;
            info.messages = info.messages.saturating_add(messages);
            info.bytes = info.bytes.saturating_add(bytes);
            info.highest = index;
        }
    }
    Ok(info)
}

/// Messages whose sizes can be seen, those in the queue and the last that its ring has passed on,
/// and their bytes.
pub(crate) fn sizes(map: &Map, layout: &Layout, queue: &Queue) -> Result<(u32, u64), Fault> {
    let mut messages = load_value(map, at!(queue, count))?;
    let mut bytes = u64::from(load_value(map, at!(queue, bytes))?);
    let mut see = |size: u64| {
        messages = messages.saturating_add(1);
        bytes += size.min(RING_PAYLOAD_BYTES);
    };
    see_ring::<RING_SLOTS>(map, layout, queue, queue.ring(), &mut see)?;
    if let Some(base) = long_ring(map, layout, queue)? {
        see_ring::<LONG_RING_SLOTS>(map, layout, queue, base, &mut see)?;
    }
    Ok((messages, bytes))
}

fn see_ring<const N: usize>(
    map: &Map,
    layout: &Layout,
    queue: &Queue,
    base: Place<[RawCell; N]>,
    see: &mut impl FnMut(u64),
) -> Result<(), Fault> {
    let ring = MessageRing::<N>::read(map, base)?;
    for ring_slot in ring.messages() {
        see(header_of(map, layout, ring_slot).map_or(0, |header| header.size));
    }
    for ring_slot in ring.vacant() {
        if let Some(spare) = SpareChunk::of(map, layout, queue.index, ring_slot)? {
            see(Header::read(map, layout, spare.chunk)?.size);
        }
    }
    Ok(())
}
