//! How much has been done in a pool, and who waits for whom: read off what calls leave behind
//! anyway, without a store on their fast paths and without joining.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, load_state, load_value, load_word};
use vshmem_wire::{
    ClientId, MsgSlot, Place, ProcessRef, RawCell, ShmSlot, ThreadSlot, WaitCounts, WaitKind,
    WaitState, field,
};

use crate::error::Failure;
use crate::listing::address::address_of;
use crate::listing::object_rows::objects;
use crate::listing::rows::{Awaited, ObjectActivity, ObjectRow, ThreadActivity, ThreadWait};
use crate::msg::count::sent;
use crate::msg::queue::Queue;
use crate::msg::status::sizes;
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::open::Pool;
use crate::registry::table;
use crate::sem::set::{Set, last_operator};

/// What has been done with each object. One that changes hands at this moment is left out.
pub(crate) fn object_activities(pool: &Pool) -> Result<Vec<ObjectActivity>, Failure> {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        for row in objects(pool, kind)? {
            let slot = row.kind.row(pool.layout(), row.index)?;
            let before = table::slot_state(pool.map(), slot)?;
            let object_slot = ObjectSlot { index: row.index, sequence: before.sequence };
            let activity = object_activity(pool, row, object_slot)?;
            if table::slot_state(pool.map(), slot)?.sequence == before.sequence {
                rows.push(activity);
            }
        }
    }
    Ok(rows)
}

fn object_activity(
    pool: &Pool,
    row: ObjectRow,
    object_slot: ObjectSlot,
) -> Result<ObjectActivity, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let mut seen = (0, 0);
    let (count, modulus) = match row.kind {
        // Each attach and each detach writes the number of attaches.
        Kind::Segment => {
            let attached = field!(layout.shm.row(row.index)?, ShmSlot, attached);
            (map.load(attached.tag(), Ordering::Acquire)?, 0)
        }
        Kind::Semaphore => {
            let slot = layout.sem.row(row.index)?;
            (Set::read(pool, object_slot, slot)?.operations(map)?, 0)
        }
        Kind::Queue => {
            let queue = Queue::at(object_slot, layout.msg.row(row.index)?);
            seen = sizes(map, layout, &queue)?;
            (sent(map, layout, &queue)?.into(), 1 << 32)
        }
    };
    let id = object_slot.id();
    let (messages_seen, bytes_seen) = seen;
    Ok(ObjectActivity { kind: row.kind, id, count, modulus, messages_seen, bytes_seen })
}

/// How often threads have waited, and what the present waiters wait for.
pub(crate) fn thread_activities(pool: &Pool) -> Result<Vec<ThreadActivity>, Failure> {
    let (map, layout) = (pool.map(), pool.layout());
    let mut rows = Vec::new();
    for slot in 0..layout.threads.count as u32 {
        let at = layout.threads.row(slot)?;
        let word =
            map.load(field!(at, ThreadSlot, waits), Ordering::Relaxed).map_err(Fault::from)?;
        let client = ClientId::of(load_word(map, field!(at, ThreadSlot, owner))?);
        if word == 0 && client.is_none() {
            continue;
        }
        let WaitCounts { waits, wakeups } = WaitCounts::unpack(word);
        let wait = match client {
            Some(_) => thread_wait(pool, at)?,
            None => None,
        };
        rows.push(ThreadActivity { slot, client, waits, wakeups, wait });
    }
    Ok(rows)
}

/// What the thread in a slot waits for, if it does, as far as its own words say.
fn thread_wait(pool: &Pool, at: Place<ThreadSlot>) -> Result<Option<ThreadWait>, Fault> {
    let map = pool.map();
    if load_state(map, field!(at, ThreadSlot, wait))? != Some(WaitState::Waiting) {
        return Ok(None);
    }
    let kind = load_state(map, field!(at, ThreadSlot, kind))?;
    let index = load_value(map, field!(at, ThreadSlot, object))?;
    if kind == Some(WaitKind::Address) {
        return wait_by_address(pool, at);
    }
    let (object, awaited) = if kind == Some(WaitKind::Semaphore) {
        let blocked = load_value(map, field!(at, ThreadSlot, blocked))?;
        let number = blocked & !(1 << 31);
        (Kind::Semaphore, Awaited::Semaphore { number, zero: blocked >> 31 == 1 })
    } else if kind == Some(WaitKind::Receive) || kind == Some(WaitKind::Notify) {
        (Kind::Queue, Awaited::Message)
    } else {
        (Kind::Queue, Awaited::Room)
    };
    // What it waits at may have gone just now, or be what a peer has made up.
    let Ok(slot) = object.row(pool.layout(), index) else { return Ok(None) };
    let object_slot = ObjectSlot { index, sequence: table::slot_state(map, slot)?.sequence };
    let last = last_active(pool, object_slot, awaited)?;
    Ok(Some(ThreadWait { kind: object, id: object_slot.id(), awaited, last }))
}

fn wait_by_address(pool: &Pool, at: Place<ThreadSlot>) -> Result<Option<ThreadWait>, Fault> {
    let Some(address) = address_of(pool, at)? else { return Ok(None) };
    let slot = Kind::Segment.row(pool.layout(), address.segment)?;
    let sequence = table::slot_state(pool.map(), slot)?.sequence;
    let id = ObjectSlot { index: address.segment, sequence }.id();
    let awaited = Awaited::Address { offset: address.offset };
    Ok(Some(ThreadWait { kind: Kind::Segment, id, awaited, last: None }))
}

/// Who can be expected to end a wait: the process that did the opposite there last.
fn last_active(
    pool: &Pool,
    object_slot: ObjectSlot,
    awaited: Awaited,
) -> Result<Option<ProcessRef>, Fault> {
    let (map, layout) = (pool.map(), pool.layout());
    let last_at_queue = |field: fn(Place<MsgSlot>) -> Place<RawCell>| {
        let slot = layout.msg.row(object_slot.index)?;
        load_value(map, field(slot)).map(ProcessRef::unpack)
    };
    let process_ref = match awaited {
        Awaited::Semaphore { number, .. } => {
            let slot = layout.sem.row(object_slot.index)?;
            let Ok(set) = Set::read(pool, object_slot, slot) else { return Ok(None) };
            if number >= set.count {
                return Ok(None);
            }
            last_operator(pool, &set, number)?
        }
        Awaited::Message => last_at_queue(|slot| field!(slot, MsgSlot, sender))?,
        Awaited::Room => last_at_queue(|slot| field!(slot, MsgSlot, receiver))?,
        Awaited::Address { .. } => return Ok(None),
    };
    Ok((process_ref.pid != 0).then_some(process_ref))
}
