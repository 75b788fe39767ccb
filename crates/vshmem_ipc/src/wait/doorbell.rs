//! Which threads are woken after a change. (How soon a waiter polls by itself: `sleep.rs`.)
//!
//! Threads of this domain are woken at their wait words. Another domain is notified once as a
//! whole, over the link's doorbell; there its agent wakes those that have been served
//! (`Client::deliver_wakeups`). Domains that share a kernel and keep their words in the pool need
//! no doorbell. Where the link has no doorbell, the domain's agent may notify the other's by
//! datagram ([`crate::wait::datagrams`]).
//!
//! Memory ordering: a waiter announces itself in its wait word, then looks at its wait cell; a
//! waker changes the cell, then notifies the domain; the agent is notified, then looks at the
//! words. So a waiter that the agent does not find announced has not looked at its wait cell yet,
//! and will see the change there.

use std::sync::Arc;

use vshmem_mem::Ordering;
use vshmem_sync::{Doorbell, Fault, claim_cell, load_state, load_value};
use vshmem_wire::{
    DOORBELL_LOST, DomainSlot, DomainState, ProcessRef, RATES, State, ThreadSlot, WaitState, field,
};

use crate::context::Context;
use crate::context::waking::WakeScope;
use crate::error::Failure;
use crate::pool::domains::{self, DomainSet};
use crate::wait::datagrams::{self, NotifySet};
use crate::wait::domain_users;
use crate::wait::wait_queue::WakeList;

/// Whether an address cell says where a domain can be notified.
pub(super) fn is_address(cell: u32) -> bool {
    cell != 0 && cell != DOORBELL_LOST
}

/// Notifies other domains over `doorbell` from now on, and has this one notified by it. Only the
/// first one counts.
pub(crate) fn use_doorbell(context: &Context, doorbell: Arc<dyn Doorbell>) {
    let _ = context.waking.doorbell.set(doorbell);
    // Until it is known this domain counts as one that cannot be notified.
    let _ = publish_address(context);
}

/// Tells the others where this domain can be notified, as its doorbell says now.
pub(crate) fn publish_address(context: &Context) -> Result<(), Failure> {
    let address = match context.waking.doorbell.get().and_then(|doorbell| doorbell.own_address()) {
        Some(address) => address.wrapping_add(1),
        // This domain's programs may have had a doorbell before.
        None if context.waking.scope == WakeScope::Domain => 0,
        // Another thread may speak for a domain that keeps its words in the pool: its server.
        None => return Ok(()),
    };
    let publish = || -> Result<(), Fault> {
        let layout = context.pool().layout();
        let at = field!(layout.domains.row(context.domain())?, DomainSlot, address);
        let before = load_value(context.pool().map(), at)?;
        // The device still shows the address of a doorbell whose server is gone.
        if before != address && before != DOORBELL_LOST {
            claim_cell(context.pool().map(), at, before, address)?;
        }
        Ok(())
    };
    publish().map_err(Failure::from)
}

/// Wakes waiters of this domain one by one, and notifies each other domain that has some once. A
/// waiter that can be reached in neither way polls.
pub(crate) fn wake_listed(context: &Context, wakes: &WakeList) {
    if wakes.all {
        wake_every_waiter(context);
        return;
    }
    let mut far = DomainSet::default();
    for &slot in &wakes.slots {
        let Some(domain) = domain_of_waiter(context, slot) else { continue };
        if domain == context.domain() || context.waking.scope == WakeScope::Kernel {
            domain_users::wake_local(context, slot);
        }
        if domain != context.domain() {
            far.add(domain);
        }
    }
    notify_domains(context, far);
}

/// Wakes every thread slot that is waiting, and notifies every domain.
pub(crate) fn wake_every_waiter(context: &Context) {
    let layout = context.pool().layout();
    for slot in 0..layout.threads.count as u32 {
        let Ok(at) = layout.threads.row(slot) else {
            continue;
        };
        let wait = load_state(context.pool().map(), field!(at, ThreadSlot, wait));
        if wait.is_ok_and(|wait| wait != Some(WaitState::Idle)) {
            domain_users::wake_local(context, slot);
        }
    }
    notify_domains(context, DomainSet(!0));
}

/// Wakes every thread that sleeps although it has been served, and notifies every domain: the
/// thread that should have done so may have died.
pub(crate) fn wake_served(context: &Context) {
    deliver_wakeups(context);
    notify_domains(context, DomainSet(!0));
}

/// Wakes those threads of this domain, or of this kernel, that sleep although they have been
/// served. This is what an agent does on a notification. Returns how many of them belong to this
/// user.
pub(crate) fn deliver_wakeups(context: &Context) -> usize {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mut woken = 0;
    for slot in 0..layout.threads.count as u32 {
        if !context.waking.words.is_asleep(slot)
            && !domain_users::is_other_user_waiting(context, slot)
        {
            continue;
        }
        let Ok(at) = layout.threads.row(slot) else { continue };
        let served = map
            .load(field!(at, ThreadSlot, wait).cell().word(), Ordering::SeqCst)
            .is_ok_and(|word| WaitState::of(word as u32) != Some(WaitState::Waiting));
        if served && domain_users::wake_local(context, slot) {
            woken += 1;
        }
    }
    woken
}

fn domain_of_waiter(context: &Context, slot: u32) -> Option<u32> {
    let at = context.pool().layout().threads.row(slot).ok()?;
    let process_ref = load_value(context.pool().map(), field!(at, ThreadSlot, process_ref)).ok()?;
    Some(ProcessRef::unpack(process_ref).domain)
}

/// Notifies those domains of a set that are alive, are not reached otherwise, and can be notified
/// over the link; and has the agent notify those that rely on its datagrams.
fn notify_domains(context: &Context, set: DomainSet) {
    if set.0 == 0 {
        return;
    }
    let notifies = datagrams::is_notifying(context);
    if !notifies && context.waking.doorbell.get().is_none() {
        return;
    }
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mut notified = 0;
    let mut to_notify = NotifySet::default();
    for index in 0..layout.domains.count as u32 {
        if !set.has(index) || index == context.domain() || is_near(context, index).unwrap_or(false)
        {
            continue;
        }
        let Ok(slot) = layout.domains.row(index) else { continue };
        let state = load_state(map, field!(slot, DomainSlot, state));
        if !state.is_ok_and(|state| state.is_some_and(DomainState::takes_part)) {
            continue;
        }
        let address = load_value(map, field!(slot, DomainSlot, address)).unwrap_or(0);
        if let Some(doorbell) = context.waking.doorbell.get().filter(|_| is_address(address)) {
            // Domains that share a device mostly get one notification for all.
            if address != notified {
                // Waiters of a domain that cannot be notified poll.
                let _ = doorbell.notify(address - 1);
                notified = address;
            }
        } else if notifies && datagrams::relies_on_us(context, index) {
            to_notify.add(index);
        }
    }
    if !to_notify.is_empty() {
        datagrams::ask_agent(context, to_notify);
    }
}

/// Whether another domain's wait words are within reach.
pub(super) fn is_near(context: &Context, index: u32) -> Result<bool, Fault> {
    Ok(context.waking.scope == WakeScope::Kernel
        && domains::boot_of(context.pool(), index)?
            == domains::boot_of(context.pool(), context.domain())?)
}

/// Boot id of this domain's kernel, as the domain table holds it.
pub(crate) fn boot(context: &Context) -> Result<[u32; 4], Failure> {
    domains::boot_of(context.pool(), context.domain()).map_err(Failure::from)
}

/// Says where a domain of this kernel can be notified; `None`: nowhere. Called by the process that
/// receives its notifications. Returns whether that is new.
pub(crate) fn publish_for(
    context: &Context,
    domain: u32,
    address: Option<u32>,
) -> Result<bool, Failure> {
    let value = address.map_or(0, |address| address.wrapping_add(1));
    set_address(context, domain, |_| value).map_err(Failure::from)
}

/// Withdraws a domain's address for good: its doorbell no longer works. Returns whether that is
/// new.
pub(crate) fn lose_doorbell(context: &Context, domain: u32) -> Result<bool, Failure> {
    let lost = |before| if before == 0 { 0 } else { DOORBELL_LOST };
    set_address(context, domain, lost).map_err(Failure::from)
}

/// Withdraws every address: notifications are no longer forwarded. Waiters that can be reached are
/// woken, so that they no longer rely on being notified.
pub(crate) fn lose_doorbells(context: &Context) -> Result<(), Failure> {
    let mut changed = false;
    for index in 0..context.pool().layout().domains.count as u32 {
        changed |= if is_near(context, index)? {
            // Its next server speaks for it again.
            publish_for(context, index, None)?
        } else {
            lose_doorbell(context, index)?
        };
    }
    if changed {
        wake_every_waiter(context);
    }
    Ok(())
}

fn set_address(context: &Context, domain: u32, to: impl Fn(u32) -> u32) -> Result<bool, Fault> {
    let map = context.pool().map();
    let at = field!(context.pool().layout().domains.row(domain)?, DomainSlot, address);
    let before = load_value(map, at)?;
    let after = to(before);
    Ok(before != after && claim_cell(map, at, before, after)?)
}

/// Notes how fast this domain reaches the pool's memory, beside private memory: for listings of
/// domains.
pub(crate) fn note_rates(context: &Context, rates: [u32; RATES]) -> Result<(), Failure> {
    let note = || -> Result<(), Fault> {
        let map = context.pool().map();
        let slot = context.pool().layout().domains.row(context.domain())?;
        for (i, rate) in rates.into_iter().enumerate() {
            let at = field!(slot, DomainSlot, rates).element(i as u64);
            let before = load_value(map, at)?;
            claim_cell(map, at, before, rate)?;
        }
        Ok(())
    };
    note().map_err(Failure::from)
}
