//! msgget(2).

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::{Fault, field};
use vshmem_wire::{ObjectHeader, ObjectState};

use crate::context::Context;
use crate::error::{Failure, flatten};
use crate::memory::change;
use crate::msg::count::begin_count;
use crate::msg::queue::{self, Queue, at};
use crate::msg::ring::new_ring;
use crate::pool::id::Kind;
use crate::registry::lookup;
use crate::registry::permission::{Caller, Permission, mode_of};
use crate::registry::table::{self, MOST_TRIES};

/// msgget(2).
pub(crate) fn msgget(
    context: &Context,
    key: i32,
    flags: i32,
    caller: &dyn Caller,
) -> Result<i32, Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    for _ in 0..MOST_TRIES {
        if let Some(place) = lookup::existing(context, Kind::Queue, key, flags)? {
            let queue = match queue::find(context, place.id()) {
                Err(Failure::Errno(Errno::INVAL)) => continue,
                found => found?,
            };
            queue::permission(context, &queue)?.allow(caller, mode_of(flags))?;
            return Ok(place.id());
        }
        let permission = Permission::of_new(key, flags, caller);
        let slot_guard = context.slot_guard()?;
        let lock_context = context.lock_context_of(&slot_guard);
        let made = change::run(context, &lock_context, pool.registry_lock(), "msgget", |txn| {
            let exists =
                key != 0 && table::find_key(layout, Kind::Queue, key, |at| txn.get(at))?.is_some();
            if exists {
                return Ok(Ok(None));
            }
            let Some(place) = table::take_slot(txn, layout, Kind::Queue)? else {
                return Ok(Err(Errno::NOSPC));
            };
            let slot = table::slot_at(layout, Kind::Queue, place.index)?;
            let queue = Queue { index: place.index, sequence: place.sequence, slot };
            table::describe(txn, slot, &permission, seconds_now())?;
            txn.update(at!(queue, limit), pool.geometry().msgmnb)?;
            for cell in [
                at!(queue, bytes),
                at!(queue, head),
                at!(queue, tail),
                at!(queue, sender),
                at!(queue, receiver),
                at!(queue, sent),
                at!(queue, received),
            ] {
                txn.update(cell, 0)?;
            }
            new_ring(txn, &queue, pool.geometry().msgmnb)?;
            begin_count(txn, &queue)?;
            if key != 0 {
                table::enter_key(txn, layout, Kind::Queue, place.index, key)?;
            }
            txn.set(field!(slot, ObjectHeader, state), queue.state_word(ObjectState::Live))?;
            Ok(Ok(Some(place)))
        });
        if let Some(place) = flatten(made)? {
            return Ok(place.id());
        }
    }
    let keys = layout.keys[Kind::Queue as usize];
    Err(Fault::corrupt(keys.offset, "a key that is found and is no client's").into())
}
