//! Processes that announce their exit.
//!
//! exit(3) calls this library while other threads, and destructors that run later, still store into
//! attached segments. So nothing may be released yet. The process sets a flag instead, and the
//! first process that notices its end releases what it held: its parent, the agent, or a process
//! that queries objects.

use vshmem_sync::{Fault, LockContext, load_state, load_value, with_lock};
use vshmem_wire::{ClientSlot, ClientState, ENDING, Registry, field};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::clients::{self, slot_of};
use crate::recovery::reap;

/// Notes that this process is about to end.
pub(crate) fn announce_end(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let layout = context.pool().layout();
    let announce = || -> Result<(), Fault> {
        let slot = slot_of(layout, context.client_id())?;
        with_lock(lock_context, context.pool().registry_lock(), "announce-end", |txn| {
            if clients::is_in(txn, slot, context.client_id())? {
                txn.update(field!(slot, ClientSlot, leaving), ENDING)?;
                txn.update(field!(layout.registry, Registry, leavers), 1)?;
            }
            Ok(())
        })
    };
    announce().map_err(Failure::from)
}

/// Whether a client may have announced its exit. Costs one load.
#[inline]
pub(crate) fn has_exiting_clients(context: &Context) -> bool {
    let at = field!(context.pool().layout().registry, Registry, leavers);
    load_value(context.pool().map(), at).is_ok_and(|leavers| leavers != 0)
}

/// Reaps the processes of this domain that had announced their end and have come to it, as `gone`
/// says by their pids. Without the heap. True when there was one.
pub(crate) fn reap_exiting(context: &Context, gone: &dyn Fn(u32) -> bool) -> Result<bool, Failure> {
    let slot_guard = context.slot_guard()?;
    reap_announced(context, &context.lock_context_of(&slot_guard), gone).map_err(Failure::from)
}

fn reap_announced(
    context: &Context,
    lock_context: &LockContext<'_>,
    gone: &dyn Fn(u32) -> bool,
) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    let (mut found, mut others_leave) = (false, false);
    for index in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(index)?;
        // The client id first: if the slot changes hands after this, the reaping finds another one
        // there.
        let client = context.pool().client_id_in(index)?;
        let state = load_state(map, field!(slot, ClientSlot, state))?;
        let leaves = load_value(map, field!(slot, ClientSlot, leaving))? == ENDING;
        if !leaves || state == Some(ClientState::Free) {
            continue;
        }
        let here = state == Some(ClientState::Active)
            && load_value(map, field!(slot, ClientSlot, domain))? == context.domain();
        let pid = load_value(map, field!(slot, ClientSlot, pid))?;
        if here && gone(pid) {
            reap::reap_client(context, lock_context, client)?;
            found = true;
        } else {
            others_leave = true;
        }
    }
    // A slow one, perhaps in another domain, must not make every process take the registry lock.
    if !others_leave {
        clear_exiting(context, lock_context)?;
    }
    Ok(found)
}

/// Clears the pool's flag that a client is exiting, if no client is.
fn clear_exiting(context: &Context, lock_context: &LockContext<'_>) -> Result<(), Fault> {
    let layout = context.pool().layout();
    with_lock(*lock_context, context.pool().registry_lock(), "clear-exiting", |txn| {
        let high = txn.get(field!(layout.registry, Registry, clients_high))?;
        for index in 0..high.min(layout.clients.count as u32) {
            let slot = layout.clients.row(index)?;
            if txn.state(field!(slot, ClientSlot, state))? != Some(ClientState::Free)
                && txn.get(field!(slot, ClientSlot, leaving))? == ENDING
            {
                return Ok(());
            }
        }
        txn.update(field!(layout.registry, Registry, leavers), 0)
    })
}
