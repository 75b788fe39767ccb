//! Finding objects by key and by index.

use rustix::io::Errno;
use vshmem_sync::{load_word, read_if_free};
use vshmem_wire::ObjectState;

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::table::{self, find_key};

/// Finds a live object by key, without the lock where that can be. "None" is only true if no other
/// thread has changed the index meanwhile.
///
/// In place of each call, and the other parts out of line: what is found stays in registers. Nested
/// results are passed through memory, in pieces of other sizes than they are read in, which the
/// processor has to wait for.
#[inline(always)]
pub(super) fn find_existing(
    context: &Context,
    kind: Kind,
    key: i32,
) -> Result<Option<ObjectSlot>, Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    match find_key(layout, kind, key, |at| load_word(map, at)) {
        Ok(Some(object_slot)) => Ok(Some(object_slot)),
        _ if is_absent(context, kind, key) => Ok(None),
        _ => find_under_lock(context, kind, key),
    }
}

/// Whether there is no live object of that key: the index was looked through while no thread held
/// its lock. False: it may be there, or this domain was evicted, which is reported under the lock.
#[inline(never)]
fn is_absent(context: &Context, kind: Kind, key: i32) -> bool {
    let (pool, map) = (context.pool(), context.pool().map());
    let found = read_if_free(map, pool.registry_lock(), || {
        find_key(pool.layout(), kind, key, |at| load_word(map, at))
    });
    matches!(found, Ok(Some(None))) && context.is_current()
}

#[cold]
#[inline(never)]
fn find_under_lock(context: &Context, kind: Kind, key: i32) -> Result<Option<ObjectSlot>, Failure> {
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::run(context, &lock_context, context.pool().registry_lock(), "find-key", |txn| {
        find_key(layout, kind, key, |at| txn.get_word(at))
    })
}

/// The id of the live object in a slot, for *_STAT.
pub(crate) fn id_at(context: &Context, kind: Kind, index: u32) -> Result<i32, Failure> {
    let Ok(slot) = kind.row(context.pool().layout(), index) else {
        return Err(Errno::INVAL.into());
    };
    let slot_state = table::slot_state(context.pool().map(), slot)?;
    if !slot_state.is(ObjectState::Live) && !slot_state.is(ObjectState::Doomed) {
        return Err(Errno::INVAL.into());
    }
    Ok(ObjectSlot { index, sequence: slot_state.sequence }.id())
}
