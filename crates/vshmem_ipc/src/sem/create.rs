//! semget(2).

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn, load_word};
use vshmem_wire::{CELL_BYTES, Geometry, Layout, ObjectState, SemSlot, SemWord, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::{change, chunks, heap};
use crate::pool::chunk::{Chunk, IN_OBJECT};
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::pool::tag_floor;
use crate::registry::get::{self, Asked, Request};
use crate::registry::permission::Caller;
use crate::registry::table::{self, SlotState, per_kind};
use crate::sem::set::{self, Set};

/// semget(2).
pub(crate) fn semget(
    context: &Context,
    key: i32,
    count: i32,
    flags: i32,
    caller: &dyn Caller,
) -> Result<i32, Failure> {
    if count < 0 || count as u32 > context.pool().geometry().semmsl {
        return Err(Errno::INVAL.into());
    }
    let request = SetRequest { count: count as u32 };
    get::get(context, Asked { key, flags, caller }, &request)
}

/// What semget(2) asks for beside.
struct SetRequest {
    count: u32,
}

impl Request for SetRequest {
    const KIND: Kind = Kind::Semaphore;
    const LOST: &'static str = "a key that is in use and leads to no set";

    type Found = Set;

    #[inline(always)]
    fn find(context: &Context, object_slot: ObjectSlot) -> Result<Set, Failure> {
        set::find(context, object_slot.id())
    }

    #[inline(always)]
    fn check(
        &self,
        context: &Context,
        asked: Asked<'_>,
        object_slot: ObjectSlot,
        set: Set,
    ) -> Result<(), Failure> {
        if self.count > set.count {
            return Err(Errno::INVAL.into());
        }
        asked.check_mode(context, set.slot.header())?;
        context.reported_sizes.record_size(Kind::Semaphore, object_slot, set.count)
    }

    fn make(&self, context: &Context, asked: Asked<'_>) -> Result<Option<ObjectSlot>, Failure> {
        if self.count == 0 {
            return Err(Errno::INVAL.into());
        }
        let slot_guard = context.slot_guard()?;
        let lock_context = context.lock_context_of(&slot_guard);
        let chunk = chunks::take(context, &lock_context, u64::from(self.count) * CELL_BYTES)?;
        let made = make_set(context, &lock_context, asked, self.count, chunk);
        match made {
            Ok(Some(object_slot)) => {
                context.reported_sizes.record_size(Kind::Semaphore, object_slot, self.count)?;
            }
            _ => {
                let _ = chunks::release(context, &lock_context, chunk);
            }
        }
        made
    }
}

/// Makes a set, with room for its semaphores in `chunk`. `None` when another thread has made one of
/// that key meanwhile.
fn make_set(
    context: &Context,
    lock_context: &LockContext<'_>,
    asked: Asked<'_>,
    count: u32,
    chunk: Chunk,
) -> Result<Option<ObjectSlot>, Failure> {
    let pool = context.pool();
    let (layout, geometry) = (pool.layout(), pool.geometry());
    let base = chunk.place(layout)?;
    let tag = tag_floor::lay_cells(pool.map(), layout, base, count, SemWord::default().pack())?;
    let permission = asked.permission();
    change::decide(context, lock_context, pool.registry_lock(), "semget", |txn| {
        if table::is_taken(txn, layout, Kind::Semaphore, asked.key)? {
            return Ok(Commit(None));
        }
        if !has_room(txn, layout, geometry, count)? {
            return Ok(Abandon(pool.full(limit_name!(semmns), Errno::NOSPC)));
        }
        let Some(object_slot) = table::take_slot(txn, layout, Kind::Semaphore)? else {
            return Ok(Abandon(pool.full(limit_name!(semmni), Errno::NOSPC)));
        };
        let slot = layout.sem.row(object_slot.index)?;
        table::describe(txn, slot.header(), &permission, seconds_now())?;
        txn.update(field!(slot, SemSlot, count), count)?;
        txn.update(field!(slot, SemSlot, words), chunk.0)?;
        txn.update(field!(slot, SemSlot, header.operated), 0)?;
        let other_writes = load_word(pool.map(), field!(slot, SemSlot, other_writes))?;
        let tags = tag.wrapping_mul(u64::from(count));
        txn.set_word(field!(slot, SemSlot, tags_before), tags.wrapping_sub(other_writes))?;
        heap::pass(txn, layout, chunk, context.client_id().word(), IN_OBJECT)?;
        if asked.key != 0 {
            table::enter_key(txn, layout, Kind::Semaphore, object_slot.index)?;
        }
        let live = SlotState { state: ObjectState::Live as u32, sequence: object_slot.sequence };
        txn.set(field!(slot, SemSlot, header.state), live.pack())?;
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
        let slot = layout.sem.row(index)?;
        if SlotState::unpack(txn.get(field!(slot, SemSlot, header.state))?).is(ObjectState::Live) {
            used += u64::from(txn.get(field!(slot, SemSlot, count))?);
        }
    }
    Ok(used <= u64::from(geometry.semmns))
}
