//! Processes that are about to end, and say so.
//!
//! exit(3) calls us while other threads, and destructors after ours, still store into what is
//! attached: nothing of it may be given away yet. So the process leaves a note, and who sees that
//! it has ended gives back what it held: its parent, the agent, or whoever asks about objects
//! first.

use vshmem_sync::{Desk, Fault, field, load_value, with_lock};
use vshmem_wire::{ClientSlot, ClientState, Registry};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::clients::{self, client_at, slot_of};
use crate::recovery::reap;

/// Notes that this process is about to end.
pub(crate) fn announce_end(context: &Context) -> Result<(), Failure> {
    let seat = context.seat()?;
    let desk = context.desk_of(&seat);
    let layout = context.pool().layout();
    let announce = || -> Result<(), Fault> {
        let slot = slot_of(layout, context.me())?;
        with_lock(desk, context.pool().registry_lock(), "announce-end", |txn| {
            if clients::is_in(txn, slot, context.me())? {
                txn.update(field!(slot, ClientSlot, leaving), 1)?;
                txn.update(field!(layout.registry, Registry, leavers), 1)?;
            }
            Ok(())
        })
    };
    announce().map_err(Failure::from)
}

/// Whether somebody may have announced its end. Costs one load.
#[inline]
pub(crate) fn somebody_leaves(context: &Context) -> bool {
    let at = field!(context.pool().layout().registry, Registry, leavers);
    load_value(context.pool().map(), at).is_ok_and(|leavers| leavers != 0)
}

/// Buries the processes of this domain that had announced their end and have come to it, as `gone`
/// says by their pids. Without the heap. True when there was one.
pub(crate) fn bury_leavers(context: &Context, gone: &dyn Fn(u32) -> bool) -> Result<bool, Failure> {
    let seat = context.seat()?;
    bury_announced(context, &context.desk_of(&seat), gone).map_err(Failure::from)
}

fn bury_announced(
    context: &Context,
    desk: &Desk<'_>,
    gone: &dyn Fn(u32) -> bool,
) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    let (mut found, mut others_leave) = (false, false);
    for index in 0..high.min(layout.clients.count as u32) {
        let slot = client_at(layout, index)?;
        // The name first: if the slot changes hands after this, the burial finds another one there.
        let client = context.pool().named(index)?;
        let state = load_value(map, field!(slot, ClientSlot, state))?;
        let leaves = load_value(map, field!(slot, ClientSlot, leaving))? != 0;
        if !leaves || state == ClientState::Free as u32 {
            continue;
        }
        let here = state == ClientState::Active as u32
            && load_value(map, field!(slot, ClientSlot, domain))? == context.domain();
        let pid = load_value(map, field!(slot, ClientSlot, pid))?;
        if here && gone(pid) {
            reap::bury_client(context, desk, client)?;
            found = true;
        } else {
            others_leave = true;
        }
    }
    // One that takes its time, perhaps in another domain, must not have everybody at the registry's
    // lock.
    if !others_leave {
        forget_leavers(context, desk)?;
    }
    Ok(found)
}

/// Takes the note away that somebody leaves, if nobody does any more.
fn forget_leavers(context: &Context, desk: &Desk<'_>) -> Result<(), Fault> {
    let layout = context.pool().layout();
    with_lock(*desk, context.pool().registry_lock(), "forget-leavers", |txn| {
        let high = txn.get(field!(layout.registry, Registry, clients_high))?;
        for index in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, index)?;
            if txn.get(field!(slot, ClientSlot, state))? != ClientState::Free as u32
                && txn.get(field!(slot, ClientSlot, leaving))? != 0
            {
                return Ok(());
            }
        }
        txn.update(field!(layout.registry, Registry, leavers), 0)
    })
}
