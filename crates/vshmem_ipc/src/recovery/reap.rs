//! Reaping a client that has ended: it is marked, the steps of [`crate::recovery::steps`] are done,
//! and its slot becomes free.

use vshmem_sync::{Desk, Fault, field, load_value, with_lock};
use vshmem_wire::{ClientName, ClientSlot, ClientState, Party, Registry};

use crate::context::Context;
use crate::error::{Failure, settle};
use crate::listing::rows::Resident;
use crate::pool::clients::{self, client_at, slot_of};
use crate::recovery::steps::{self, Ended, Occasion};

/// Buries those clients of this domain with a pid that are no more, as `gone` says by pid and
/// start time. False if there are none.
pub(crate) fn bury_process(
    context: &Context,
    pid: u32,
    gone: fn(u32, u64) -> bool,
) -> Result<bool, Failure> {
    let seat = context.seat()?;
    let desk = context.desk_of(&seat);
    bury_pid(context, &desk, pid, gone).map_err(Failure::from)
}

/// Without the heap: this is called after waitpid, which programs call in signal handlers.
fn bury_pid(
    context: &Context,
    desk: &Desk<'_>,
    pid: u32,
    gone: fn(u32, u64) -> bool,
) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    let map = context.pool().map();
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    let mut found = false;
    for client in 0..high.min(layout.clients.count as u32) {
        let slot = client_at(layout, client)?;
        // The name first: should the slot change hands now, the burial finds somebody else in
        // it. Whether the process lives is asked last: its pid may be another's by then.
        let name = context.pool().named(client)?;
        let state = load_value(map, field!(slot, ClientSlot, state))?;
        let same = state != ClientState::Free as u32
            && load_value(map, field!(slot, ClientSlot, domain))? == context.domain()
            && load_value(map, field!(slot, ClientSlot, pid))? == pid;
        if same && gone(pid, context.pool().start_of(slot)?) {
            bury_client(context, desk, name)?;
            found = true;
        }
    }
    Ok(found)
}

/// Buries one client. By name: its slot may have changed hands since it was found dead.
pub(crate) fn bury(context: &Context, client: ClientName) -> Result<(), Failure> {
    let seat = context.seat()?;
    let desk = context.desk_of(&seat);
    bury_client(context, &desk, client).map_err(Failure::from)
}

/// Buries the client that a census has found dead, unless its slot has changed hands since.
/// False when it has.
pub(crate) fn bury_resident(context: &Context, dead: &Resident) -> Result<bool, Failure> {
    let seat = context.seat()?;
    let desk = context.desk_of(&seat);
    let claim = || -> Result<bool, Fault> {
        let slot = client_at(context.pool().layout(), dead.index)?;
        with_lock(desk, context.pool().registry_lock(), "bury-claim", |txn| {
            let state_at = field!(slot, ClientSlot, state);
            // A child may have taken the slot over that was kept for it, or got its name.
            let same = txn.get(state_at)? == dead.state as u32
                && txn.get(field!(slot, ClientSlot, pid))? == dead.pid
                && clients::is_in(txn, slot, dead.name)?;
            if same {
                txn.update(state_at, ClientState::Dying as u32)?;
            }
            Ok(same)
        })
    };
    if !claim()? {
        return Ok(false);
    }
    settle(bury_client(context, &desk, dead.name).map(|()| Ok(true)))
}

/// Buries a client, named by slot and incarnation. If the slot has changed hands since, it has
/// been done: every step acts on what names the same incarnation alone.
pub(crate) fn bury_client(
    context: &Context,
    desk: &Desk<'_>,
    client: ClientName,
) -> Result<(), Fault> {
    let pool = context.pool();
    let layout = pool.layout();
    let slot = slot_of(layout, client)?;
    if client == context.me() {
        // Whoever buries itself goes on until that is done.
        context.seats.stand_always();
    }
    let state_at = field!(slot, ClientSlot, state);
    let party = with_lock(*desk, pool.registry_lock(), "bury-mark", |txn| {
        let state = txn.get(state_at)?;
        if state == ClientState::Free as u32 || !clients::is_in(txn, slot, client)? {
            return Ok(None);
        }
        txn.update(state_at, ClientState::Dying as u32)?;
        let domain = txn.get(field!(slot, ClientSlot, domain))?;
        let pid = txn.get(field!(slot, ClientSlot, pid))?;
        Ok(Some(Party { domain, pid }.pack()))
    })?;
    let Some(party) = party else { return Ok(()) };
    steps::run(context, desk, Ended { client, party }, Occasion::Death)?;
    with_lock(*desk, pool.registry_lock(), "bury-free", |txn| {
        let dying = txn.get(state_at)? == ClientState::Dying as u32;
        if dying && clients::is_in(txn, slot, client)? {
            clients::free_client(txn, layout, client.slot().unwrap_or(u32::MAX))?;
        }
        let deaths_at = field!(layout.registry, Registry, deaths);
        let deaths = txn.get(deaths_at)?;
        txn.set(deaths_at, deaths.wrapping_add(1))
    })
}
