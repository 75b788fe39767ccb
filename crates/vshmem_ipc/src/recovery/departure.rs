//! A domain that leaves the pool in good order, and joins it again.
//!
//! `Alive` -> `Leaving`: what is new is refused, all else goes on, and clients that want to be told
//! part by themselves. -> `Left`: its clients are quarantined, as those of an evicted domain are,
//! all but the one that carries the leave out. That one sees, by what its kernel says, when no
//! process of the domain has the pool mapped any more, and reaps them then. It may be killed at any
//! point: another one begins again where the domain stands.

use vshmem_sync::{Fault, load_state, load_value, with_lock};
use vshmem_wire::{ClientSlot, ClientState, DomainSlot, DomainState, Place, WANTS_NOTICE, field};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::clients::{self, slot_of};
use crate::recovery::domain::{clients_of, reap_domain_from};
use crate::wait::doorbell;

/// Changes where a domain stands, if it stands at one of `from` in this boot epoch. `by_agent`: its
/// agent is to carry out what comes next, if that is to be said.
fn change_state(
    context: &Context,
    (domain, epoch): (u32, u32),
    from: &[DomainState],
    to: DomainState,
    by_agent: Option<bool>,
) -> Result<bool, Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let slot: Place<DomainSlot> = context.pool().layout().domains.row(domain)?;
    let change = || -> Result<bool, Fault> {
        with_lock(lock_context, context.pool().registry_lock(), "leave-domain", |txn| {
            let state_at = field!(slot, DomainSlot, state);
            let stands = txn.state(state_at)?.is_some_and(|state| from.contains(&state))
                && txn.get(field!(slot, DomainSlot, epoch))? == epoch;
            if stands {
                txn.update_state(state_at, to)?;
                if let Some(by_agent) = by_agent {
                    txn.update(field!(slot, DomainSlot, drained), by_agent.into())?;
                }
            }
            Ok(stands)
        })
    };
    change().map_err(Failure::from)
}

/// What is new is refused from now on; the domain's agent carries the rest out, or else the caller
/// does. False: no such domain takes part.
pub(crate) fn begin(
    context: &Context,
    domain: u32,
    epoch: u32,
    by_agent: bool,
) -> Result<bool, Failure> {
    let begun = change_state(
        context,
        (domain, epoch),
        &[DomainState::Alive, DomainState::Leaving],
        DomainState::Leaving,
        Some(by_agent),
    )?;
    if begun {
        // Its agent, and those who wait for this.
        doorbell::wake_every_waiter(context);
    }
    Ok(begun)
}

/// Its clients make no more changes; calls that sleep end. False: it does not leave.
pub(crate) fn depart(context: &Context, domain: u32, epoch: u32) -> Result<bool, Failure> {
    let from = [DomainState::Leaving, DomainState::Left];
    if !change_state(context, (domain, epoch), &from, DomainState::Left, None)? {
        return Ok(false);
    }
    let slot_guard = context.slot_guard()?;
    reap_domain_from(context, &slot_guard, domain, epoch, DomainState::Left)?;
    Ok(true)
}

/// The domain takes part again. False: it has not left.
pub(crate) fn come_back(context: &Context) -> Result<bool, Failure> {
    change_state(
        context,
        (context.domain(), context.epoch()),
        &[DomainState::Leaving, DomainState::Left],
        DomainState::Alive,
        Some(false),
    )
}

/// Whether this domain's agent is to carry out that it leaves.
pub(crate) fn is_drained(context: &Context) -> Result<bool, Failure> {
    let pool = context.pool();
    let slot = pool.layout().domains.row(context.domain())?;
    Ok(pool.own_domain_leaves() && load_value(pool.map(), field!(slot, DomainSlot, drained))? == 1)
}

/// This process is given time to part when its domain leaves.
pub(crate) fn ask_for_notice(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let slot = slot_of(context.pool().layout(), context.client_id())?;
    let ask = || -> Result<(), Fault> {
        with_lock(lock_context, context.pool().registry_lock(), "ask-notice", |txn| {
            if clients::is_in(txn, slot, context.client_id())? {
                txn.update(field!(slot, ClientSlot, leaving), WANTS_NOTICE)?;
            }
            Ok(())
        })
    };
    ask().map_err(Failure::from)
}

/// Pids of the clients of this domain that want to part by themselves.
pub(crate) fn to_be_told(context: &Context) -> Result<Vec<u32>, Failure> {
    let map = context.pool().map();
    let mut pids = Vec::new();
    for client in clients_of(context, context.domain(), context.epoch())? {
        let slot = slot_of(context.pool().layout(), client)?;
        let waits = load_state(map, field!(slot, ClientSlot, state))? == Some(ClientState::Active)
            && load_value(map, field!(slot, ClientSlot, leaving))? == WANTS_NOTICE;
        if waits && client != context.client_id() {
            pids.push(load_value(map, field!(slot, ClientSlot, pid))?);
        }
    }
    Ok(pids)
}
