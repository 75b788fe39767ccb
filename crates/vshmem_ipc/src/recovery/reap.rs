//! Reaping a client that has ended: it is marked, the steps of [`crate::recovery::steps`] are done,
//! and its slot becomes free.

use vshmem_sync::{Fault, LockContext, load_state, load_value, with_lock};
use vshmem_wire::{ClientId, ClientSlot, ClientState, ProcessRef, Registry, field};

use crate::context::Context;
use crate::error::Failure;
use crate::listing::rows::LocalClient;
use crate::pool::clients::{self, slot_of};
use crate::recovery::steps::{self, Ended, Occasion};

/// Reaps those clients of this domain with a pid that have ended, as `gone` says by pid and start
/// time. False if there are none.
pub(crate) fn reap_process(
    context: &Context,
    pid: u32,
    gone: fn(u32, u64) -> bool,
) -> Result<bool, Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    reap_pid(context, &lock_context, pid, gone).map_err(Failure::from)
}

/// Without the heap: this is called after waitpid, which programs call in signal handlers.
fn reap_pid(
    context: &Context,
    lock_context: &LockContext<'_>,
    pid: u32,
    gone: fn(u32, u64) -> bool,
) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    let map = context.pool().map();
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    let mut found = false;
    for client in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(client)?;
        let pid_at = field!(slot, ClientSlot, pid);
        // Nearly all slots are other processes', which one look shows.
        if load_value(map, pid_at)? != pid {
            continue;
        }
        // The client id first: if the slot gets a new owner now, reaping sees another client in it.
        // Whether the process lives is asked last: its pid may be another's by then.
        let id = context.pool().client_id_in(client)?;
        let state = load_state(map, field!(slot, ClientSlot, state))?;
        let same = state != Some(ClientState::Free)
            && load_value(map, field!(slot, ClientSlot, domain))? == context.domain()
            && load_value(map, pid_at)? == pid;
        if same && gone(pid, context.pool().start_of(slot)?) {
            reap_client(context, lock_context, id)?;
            found = true;
        }
    }
    Ok(found)
}

/// Reaps one client, by its id: another client may have its slot since it was found dead.
pub(crate) fn reap(context: &Context, client: ClientId) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    reap_client(context, &lock_context, client).map_err(Failure::from)
}

/// Reaps the client that a listing has shown to be dead, unless its slot has changed hands since.
/// False when it has.
pub(crate) fn reap_local(context: &Context, dead: &LocalClient) -> Result<bool, Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let claim = || -> Result<bool, Fault> {
        let slot = context.pool().layout().clients.row(dead.index)?;
        with_lock(lock_context, context.pool().registry_lock(), "reap-claim", |txn| {
            let state_at = field!(slot, ClientSlot, state);
            // A child may have taken over the slot that was reserved for it.
            let same = txn.state(state_at)? == Some(dead.state)
                && txn.get(field!(slot, ClientSlot, pid))? == dead.pid
                && clients::is_in(txn, slot, dead.id)?;
            if same {
                txn.update_state(state_at, ClientState::Dying)?;
            }
            Ok(same)
        })
    };
    if !claim()? {
        return Ok(false);
    }
    reap_client(context, &lock_context, dead.id)?;
    Ok(true)
}

/// Reaps the client with this id. If another client has its slot by now, then it has been reaped
/// already, and nothing happens: every step acts only on what carries this id.
pub(crate) fn reap_client(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
) -> Result<(), Fault> {
    let pool = context.pool();
    let layout = pool.layout();
    let slot = slot_of(layout, client)?;
    if client == context.client_id() {
        // A client that reaps itself: from here on its changes are not refused, so that it can
        // finish.
        context.slot_cache.unbind();
    }
    let state_at = field!(slot, ClientSlot, state);
    let process_ref = with_lock(*lock_context, pool.registry_lock(), "reap-mark", |txn| {
        let state = txn.state(state_at)?;
        if state == Some(ClientState::Free) || !clients::is_in(txn, slot, client)? {
            return Ok(None);
        }
        txn.update_state(state_at, ClientState::Dying)?;
        let domain = txn.get(field!(slot, ClientSlot, domain))?;
        let pid = txn.get(field!(slot, ClientSlot, pid))?;
        Ok(Some(ProcessRef { domain, pid }.pack()))
    })?;
    let Some(process_ref) = process_ref else { return Ok(()) };
    steps::run(context, lock_context, Ended { client, process_ref }, Occasion::Death)?;
    with_lock(*lock_context, pool.registry_lock(), "reap-free", |txn| {
        let dying = txn.state(state_at)? == Some(ClientState::Dying);
        if dying && clients::is_in(txn, slot, client)? {
            clients::free_client(txn, layout, client.slot().unwrap_or(u32::MAX))?;
        }
        let deaths_at = field!(layout.registry, Registry, deaths);
        let deaths = txn.get(deaths_at)?;
        txn.set(deaths_at, deaths.wrapping_add(1))
    })
}
