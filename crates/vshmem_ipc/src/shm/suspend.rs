//! Attaches of a program that is about to be replaced: given up before exec is tried, and taken
//! again when it fails.
//!
//! A removed segment is freed with its last attach, and its pages may become another segment's at
//! once; a program whose exec fails still has them mapped. So an attach that keeps a removed
//! segment is not given up here. The new program does it when it joins (`Client::join`), or the
//! client that sees the process end. An attach of a POSIX object is not given up either: the
//! object's memory may move while no process has it mapped.

use rustix::io::Errno;
use vshmem_mem::Scratch;
use vshmem_sync::{Fault, Txn, load_value, load_word, with_lock};
use vshmem_wire::{
    ATTACHED_QUEUE, AttachCount, AttachSlot, ClientSlot, ObjectName, ObjectState, Place, RawCell,
    ShmSlot, field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::clients::slot_of;
use crate::pool::id::ObjectSlot;
use crate::registry::attach_records::{count_at, nth_of_segment};
use crate::registry::table::{self, SlotState};
use crate::shm::attach;
use crate::shm::record::detach;
use crate::shm::segment::{self, at};

/// Attaches that were given up for the time of an exec.
#[derive(Debug)]
pub struct Suspended {
    /// Id and count of each segment, in two halves of a word.
    rows: Scratch<u64>,
    used: usize,
}

/// An attach record of this process.
#[derive(Debug, Clone, Copy)]
struct HeldAttach {
    object_slot: ObjectSlot,
    count: u32,
    /// It is a POSIX object, or no other process has it attached, and it is removed.
    must_stay: bool,
}

impl Suspended {
    /// Nothing given up.
    fn nothing(room: usize) -> Option<Self> {
        Some(Self { rows: Scratch::new(room)?, used: 0 })
    }

    fn add(&mut self, held: HeldAttach) {
        let (id, used) = (u64::from(held.object_slot.id() as u32), self.used);
        if let Some(row) = self.rows.values().get_mut(used) {
            *row = id << 32 | u64::from(held.count);
            self.used += 1;
        }
    }
}

/// Gives up the attaches of this process, whose only thread asks, but those that keep removed
/// segments and those of POSIX objects. Uses no heap.
pub(crate) fn suspend_attaches(context: &Context) -> Result<Suspended, Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let records = count_attach_records(context)?;
    let mut suspended = Suspended::nothing(records).ok_or(Errno::NOMEM)?;
    let head_at = slot_of(context.pool().layout(), context.client_id())?;
    let head_at = field!(head_at, ClientSlot, attaches);
    let mut suspend = || -> Result<(), Fault> {
        let mut kept = 0;
        for _ in 0..records {
            let lock = context.pool().registry_lock();
            let held = with_lock(lock_context, lock, "suspend-attach", |txn| {
                let Some(held) = held_behind(context, txn, head_at, kept)? else { return Ok(None) };
                if !held.must_stay {
                    let all = AttachCount::ALL_MAPPINGS;
                    detach(
                        txn,
                        context.pool().layout(),
                        context.client_id(),
                        held.object_slot.index,
                        all,
                    )?;
                }
                Ok(Some(held))
            })?;
            match held {
                Some(held) if held.must_stay => kept += 1,
                Some(held) => suspended.add(held),
                None => break,
            }
        }
        Ok(())
    };
    suspend()?;
    Ok(suspended)
}

/// Takes attaches again that were given up, and calls `gone` with the ids of segments that have
/// ended: removed since then.
pub(crate) fn resume_attaches(
    context: &Context,
    mut suspended: Suspended,
    mut gone: impl FnMut(i32),
) {
    let used = suspended.used;
    for row in &suspended.rows.values()[..used] {
        let (id, count) = ((row >> 32) as i32, *row as u32);
        let again = || -> Result<bool, Failure> {
            let (object_slot, _) = segment::find(context, id)?;
            let slot_guard = context.slot_guard()?;
            let lock_context = context.lock_context_of(&slot_guard);
            let count = AttachCount::mappings(count);
            attach::add_attaches(context, &lock_context, object_slot, count).map_err(Failure::from)
        };
        if again() != Ok(true) {
            gone(id);
        }
    }
}

/// Whether this process keeps a segment that is removed, or a POSIX object: `suspend_attaches`
/// would not give that up.
pub(crate) fn keeps_removed_segments(context: &Context) -> bool {
    let look = || -> Result<bool, Fault> {
        let (map, layout) = (context.pool().map(), context.pool().layout());
        let mut next =
            load_value(map, field!(slot_of(layout, context.client_id())?, ClientSlot, attaches))?;
        for _ in 0..layout.attaches.count {
            let Some(record) = next.checked_sub(1) else { break };
            let at = layout.attaches.row(record)?;
            let segment = load_value(map, field!(at, AttachSlot, segment))?;
            next = load_value(map, field!(at, AttachSlot, next))?;
            if segment & ATTACHED_QUEUE != 0 {
                continue;
            }
            let Some(slot) = segment.checked_sub(1).and_then(|index| layout.shm.at(index)) else {
                break;
            };
            let is_posix = ObjectName::is_posix(load_word(map, at!(slot, name))?);
            let is_last = load_word(map, at!(slot, attached))?
                == load_word(map, field!(at, AttachSlot, count))?;
            if is_posix || is_last && table::slot_state(map, slot.header())?.is(ObjectState::Doomed)
            {
                return Ok(true);
            }
        }
        Ok(false)
    };
    look().unwrap_or(false)
}

fn count_attach_records(context: &Context) -> Result<usize, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let mut next =
        load_value(map, field!(slot_of(layout, context.client_id())?, ClientSlot, attaches))?;
    // A client has one record of a segment, and of a queue, at most.
    for records in 0..=layout.attaches.count.min(layout.shm.count + layout.msg.count) {
        let Some(record) = next.checked_sub(1) else { return Ok(records as usize) };
        next = load_value(map, field!(layout.attaches.row(record)?, AttachSlot, next))?;
    }
    Err(Fault::corrupt(layout.attaches.offset(), "an attach list without an end"))
}

/// The record behind the first `passed` of this process's.
fn held_behind(
    context: &Context,
    txn: &mut Txn<'_>,
    head_at: Place<RawCell>,
    passed: u32,
) -> Result<Option<HeldAttach>, Fault> {
    let layout = context.pool().layout();
    let Some(at) = nth_of_segment(txn, layout, head_at, passed)? else { return Ok(None) };
    let segment = txn.get(field!(at, AttachSlot, segment))?;
    let Some(index) = segment.checked_sub(1) else {
        return Err(Fault::corrupt(at, "an attach record of nothing"));
    };
    let slot = layout.shm.row(index)?;
    let slot_state = SlotState::unpack(txn.get(field!(slot, ShmSlot, header.state))?);
    let is_posix = ObjectName::is_posix(txn.get_word(at!(slot, name))?);
    let held = count_at(txn, field!(at, AttachSlot, count))?;
    let is_last = count_at(txn, at!(slot, attached))? == held;
    Ok(Some(HeldAttach {
        object_slot: ObjectSlot { index, sequence: slot_state.sequence },
        count: held.attached,
        must_stay: is_posix || is_last && slot_state.is(ObjectState::Doomed),
    }))
}
