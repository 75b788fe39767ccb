//! semget(2).

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn, field, load_word};
use vshmem_wire::{CELL_BYTES, Geometry, Layout, ObjectHeader, ObjectState, SemSlot, SemWord};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks, heap};
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::pool::tag_floor;
use crate::registry::lookup;
use crate::registry::permission::{Caller, Permission, mode_of};
use crate::registry::table::{self, MOST_TRIES, SlotState, per_kind};
use crate::sem::set;

/// semget(2).
pub(crate) fn semget(
    context: &Context,
    key: i32,
    count: i32,
    flags: i32,
    caller: &dyn Caller,
) -> Result<i32, Failure> {
    let pool = context.pool();
    if count < 0 || count as u32 > pool.geometry().semmsl {
        return Err(Errno::INVAL.into());
    }
    let count = count as u32;
    for _ in 0..MOST_TRIES {
        if let Some(object_slot) = lookup::existing(context, Kind::Semaphore, key, flags)? {
            let set = match set::find(context, object_slot.id()) {
                Err(Failure::Errno(Errno::INVAL)) => continue,
                found => found?,
            };
            if count > set.count {
                return Err(Errno::INVAL.into());
            }
            Permission::check_mode(pool.map(), set.slot, caller, mode_of(flags))??;
            context.reported_sizes.record_size(Kind::Semaphore, object_slot, set.count)?;
            return Ok(object_slot.id());
        }
        if count == 0 {
            return Err(Errno::INVAL.into());
        }
        let slot_guard = context.slot_guard()?;
        let lock_context = context.lock_context_of(&slot_guard);
        let chunk = chunks::take(context, &lock_context, u64::from(count) * CELL_BYTES)?;
        let new = New { key, flags, count, chunk };
        let made = make_set(context, &lock_context, &new, caller);
        if !matches!(made, Ok(Some(_))) {
            let _ = chunks::release(context, &lock_context, chunk);
        }
        if let Some(object_slot) = made? {
            context.reported_sizes.record_size(Kind::Semaphore, object_slot, count)?;
            return Ok(object_slot.id());
        }
    }
    let keys = pool.layout().keys[Kind::Semaphore as usize];
    Err(Fault::corrupt(keys.offset, "a key that is in use and leads to no set").into())
}

/// A set that is to be made.
#[derive(Debug, Clone, Copy)]
struct New {
    key: i32,
    flags: i32,
    count: u32,
    /// Room for its semaphores.
    chunk: Chunk,
}

/// Makes a set. `None` when another thread has made one of that key meanwhile.
fn make_set(
    context: &Context,
    lock_context: &LockContext<'_>,
    new: &New,
    caller: &dyn Caller,
) -> Result<Option<ObjectSlot>, Failure> {
    let pool = context.pool();
    let (layout, geometry) = (pool.layout(), pool.geometry());
    let New { key, flags, count, chunk } = *new;
    let base = chunk.offset(layout)?;
    let tag = tag_floor::lay_cells(pool.map(), layout, base, count, SemWord::default().pack())?;
    let permission = Permission::of_new(key, flags, caller);
    change::decide(context, lock_context, pool.registry_lock(), "semget", |txn| {
        let exists = key != 0
            && table::find_key(layout, Kind::Semaphore, key, |at| txn.get_word(at))?.is_some();
        if exists {
            return Ok(Commit(None));
        }
        if !has_room(txn, layout, geometry, count)? {
            return Ok(Abandon(pool.full(limit_name!(semmns), Errno::NOSPC)));
        }
        let Some(object_slot) = table::take_slot(txn, layout, Kind::Semaphore)? else {
            return Ok(Abandon(pool.full(limit_name!(semmni), Errno::NOSPC)));
        };
        let slot = table::slot_at(layout, Kind::Semaphore, object_slot.index)?;
        table::describe(txn, slot, &permission, seconds_now())?;
        txn.update(field!(slot, SemSlot, count), count)?;
        txn.update(field!(slot, SemSlot, words), chunk.0)?;
        txn.update(field!(slot, ObjectHeader, used), 0)?;
        let other_writes = load_word(pool.map(), field!(slot, SemSlot, other_writes))?;
        let tags = tag.wrapping_mul(u64::from(count));
        txn.set_word(field!(slot, SemSlot, tags_before), tags.wrapping_sub(other_writes))?;
        heap::pass(txn, layout, chunk, context.client_id().word(), IN_OBJECT)?;
        if key != 0 {
            table::enter_key(txn, layout, Kind::Semaphore, object_slot.index)?;
        }
        let live = SlotState { state: ObjectState::Live as u32, sequence: object_slot.sequence };
        txn.set(field!(slot, ObjectHeader, state), live.pack())?;
        Ok(Commit(Some(object_slot)))
    })
}

/// Whether a set of `count` semaphores keeps within SEMMNS, the limit on all of them together.
///
/// They are counted one set after the other, and only where the other limits allow as many at all:
/// Linux's defaults do not. A counter would be one more word to go wrong.
fn has_room(
    txn: &mut Txn<'_>,
    layout: &Layout,
    geometry: &Geometry,
    count: u32,
) -> Result<bool, Fault> {
    let most = u64::from(geometry.semmni) * u64::from(geometry.semmsl);
    if u64::from(geometry.semmns) >= most {
        return Ok(true);
    }
    let mut used = u64::from(count);
    let high = txn.get(per_kind!(layout, high_water, Kind::Semaphore))?;
    for index in 0..high.min(layout.sem.count as u32) {
        let slot = table::slot_at(layout, Kind::Semaphore, index)?;
        if SlotState::unpack(txn.get(field!(slot, ObjectHeader, state))?).is(ObjectState::Live) {
            used += u64::from(txn.get(field!(slot, SemSlot, count))?);
        }
    }
    Ok(used <= u64::from(geometry.semmns))
}
