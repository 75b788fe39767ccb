//! Repairs at once what crashes have left, for an operator who does not want to wait until other
//! clients do.

use vshmem_sync::{Fault, holder_of, load_state, load_value, load_word, with_lock};
use vshmem_wire::{
    ClientId, ClientSlot, ClientState, DomainSlot, DomainState, FutexBucket, ObjectHeader,
    ObjectState, Place, RawCell, Registry, ShmSlot, ThreadSlot, field,
};

use crate::check::check;
use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::msg::queue::Queue;
use crate::pool::clients::{self, slot_of};
use crate::pool::id::{Kind, ObjectSlot};
use crate::recovery::{departure, domain, reap, reclaim};
use crate::registry::table::{self, per_kind};
use crate::sem::set::Set;
use crate::shm::{clean, create};
use crate::wait::doorbell;
use crate::{msg, sem};

/// Repairs what a crash can leave behind: carries out what was committed, reaps dead clients, takes
/// removed objects apart, serves waiters that could go on. Returns, in sentences, what is still not
/// right: nothing, unless a peer has corrupted the pool or a client is using it just now.
pub(crate) fn repair(context: &Context) -> Result<Vec<String>, Failure> {
    let mut left = Vec::new();
    // Each step is tried, whatever became of those before it.
    for (step, what) in [
        (repair_locks as fn(&Context) -> Result<(), Failure>, "locks"),
        (repair_clients, "clients"),
        (repair_objects, "objects"),
        (repair_counters, "counters"),
        (repair_free_clients, "free client slots"),
        (reclaim::reclaim_all, "memory of clients that have ended"),
    ] {
        if let Err(errno) = step(context) {
            left.push(format!("the {what} cannot be mended ({errno})"));
        }
    }
    left.extend(check(context.pool())?.into_iter().map(|finding| finding.what));
    Ok(left)
}

/// Takes every lock whose holder is gone, or has committed: that carries its change out.
fn repair_locks(context: &Context) -> Result<(), Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mend = |lock: Place<RawCell>| -> Result<(), Fault> {
        let Some(holder) = holder_of(map, lock)? else { return Ok(()) };
        let owner = match layout.threads.row(holder.slot) {
            Ok(at) => load_word(map, field!(at, ThreadSlot, owner))?,
            Err(_) => 0,
        };
        let lives = match ClientId::of(owner) {
            Some(client) if client.is_joining() => true,
            _ => is_somebody(context, owner)?,
        };
        if holder.committed || !lives {
            with_lock(lock_context, lock, "repair-lock", |_| Ok(()))?;
        }
        Ok(())
    };
    let lock_table = field!(layout.registry, Registry, lock_table);
    let mut locks = vec![context.pool().registry_lock(), lock_table];
    for kind in [Kind::Semaphore, Kind::Queue] {
        for index in 0..kind.slots(layout) as u32 {
            locks.extend(kind.row(layout, index).map(|at| field!(at, ObjectHeader, lock)));
        }
    }
    let buckets = (0..layout.futexes.count as u32).filter_map(|index| layout.futexes.at(index));
    locks.extend(buckets.map(|bucket| field!(bucket, FutexBucket, lock)));
    locks.into_iter().try_for_each(|lock| mend(lock).map_err(Failure::from))
}

/// Reaps clients that are dying, clients of a domain that has ended, and slots that were reserved
/// for a child of a process that is no client.
fn repair_clients(context: &Context) -> Result<(), Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mut parents = std::collections::HashSet::new();
    let mut rows = Vec::new();
    let look = |client: u32| -> Result<(Option<ClientState>, u32, u32, u32), Fault> {
        let slot = layout.clients.row(client)?;
        Ok((
            load_state(map, field!(slot, ClientSlot, state))?,
            load_value(map, field!(slot, ClientSlot, domain))?,
            load_value(map, field!(slot, ClientSlot, pid))?,
            load_value(map, field!(slot, ClientSlot, epoch))?,
        ))
    };
    for client in 0..layout.clients.count as u32 {
        // The client id first: if the slot gets a new owner now, reaping sees another client in it.
        let id = context.pool().client_id_in(client)?;
        let row = look(client)?;
        if row.0 == Some(ClientState::Active) {
            parents.insert((row.1, row.2));
        }
        if row.0 != Some(ClientState::Free) {
            rows.push((id, row));
        }
    }
    for (id, (state, domain, pid, joined)) in rows {
        let domain_state = domain_state_of(context, domain)?;
        let gone = state == Some(ClientState::Dying)
            || domain_state.is_none_or(|(domain, epoch)| {
                epoch != joined
                    || domain == Some(DomainState::Dead)
                    || domain == Some(DomainState::Free)
            })
            || (state == Some(ClientState::Reserved) && !parents.contains(&(domain, pid)));
        if gone {
            reap::reap(context, id)?;
        }
    }
    for index in 0..layout.domains.count as u32 {
        match domain_state_of(context, index)? {
            Some((Some(DomainState::Evicted), _)) => {
                domain::evict_domain(context, index)?;
            }
            Some((Some(DomainState::Left), epoch)) => {
                departure::depart(context, index, epoch)?;
            }
            Some((Some(DomainState::Dead), _)) => {
                domain::free_joining_slots(context, index, &|_| true)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// State and epoch of a domain; `None` when there is no such slot.
fn domain_state_of(
    context: &Context,
    index: u32,
) -> Result<Option<(Option<DomainState>, u32)>, Fault> {
    let Ok(slot) = context.pool().layout().domains.row(index) else { return Ok(None) };
    let map = context.pool().map();
    let state = load_state(map, field!(slot, DomainSlot, state))?;
    Ok(Some((state, load_value(map, field!(slot, DomainSlot, epoch))?)))
}

/// Goes on with what was begun at objects.
fn repair_objects(context: &Context) -> Result<(), Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    for kind in Kind::ALL {
        for index in 0..kind.slots(layout) as u32 {
            let slot = kind.row(layout, index)?;
            let slot_state = table::slot_state(map, slot)?;
            let object_slot = ObjectSlot { index, sequence: slot_state.sequence };
            let there = slot_state.is(ObjectState::Live) || slot_state.is(ObjectState::Dying);
            match kind {
                Kind::Segment if slot_state.is(ObjectState::Creating) => {
                    let slot = layout.shm.row(index)?;
                    let maker = load_word(map, field!(slot, ShmSlot, maker))?;
                    if !is_somebody(context, maker)? {
                        create::abandon_segment(context, &lock_context, object_slot);
                    }
                }
                Kind::Semaphore if there => {
                    let slot = layout.sem.row(index)?;
                    let set = Set::read(context.pool(), object_slot, slot)?;
                    sem::serve::recover_set(context, &lock_context, &set)?;
                }
                Kind::Queue if there => {
                    let queue = Queue::at(object_slot, layout.msg.row(index)?);
                    msg::serve::recover_queue(context, &lock_context, &queue)?;
                }
                _ => {}
            }
        }
    }
    let cleaner = load_word(map, field!(layout.registry, Registry, cleaner));
    let cleaner = cleaner?;
    if cleaner != 0 && !is_somebody(context, cleaner)? {
        clean::release_cleaning(context, &lock_context, cleaner)?;
    }
    doorbell::wake_every_waiter(context);
    Ok(())
}

/// Whether an owner cell carries the id of a client that is still there.
fn is_somebody(context: &Context, owner: u64) -> Result<bool, Fault> {
    let Some(client) = ClientId::of(owner) else { return Ok(false) };
    let Ok(slot) = slot_of(context.pool().layout(), client) else { return Ok(false) };
    let state = load_state(context.pool().map(), field!(slot, ClientSlot, state))?;
    Ok(state != Some(ClientState::Free) && context.pool().still_holds(slot, client)?)
}

/// Counts again what the registry counts.
fn repair_counters(context: &Context) -> Result<(), Failure> {
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::run(context, &lock_context, context.pool().registry_lock(), "repair-counters", |txn| {
        let mut pages = 0u32;
        for kind in Kind::ALL {
            let mut used = 0;
            for index in 0..kind.slots(layout) as u32 {
                let slot = kind.row(layout, index)?;
                let state = txn.get(field!(slot, ObjectHeader, state))? & 0xff;
                if state == ObjectState::Free as u32 {
                    continue;
                }
                used += 1;
                if kind == Kind::Segment {
                    let slot = layout.shm.row(index)?;
                    pages = pages.saturating_add(txn.get(field!(slot, ShmSlot, pages))?);
                }
            }
            txn.update(per_kind!(layout, in_use, kind), used)?;
        }
        txn.update(field!(layout.registry, Registry, pages_used), pages)?;
        Ok(())
    })
}

/// Queues the free client slots again, if any is missing.
fn repair_free_clients(context: &Context) -> Result<(), Failure> {
    let layout = context.pool().layout();
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    for client in 0..layout.clients.count as u32 {
        change::run(
            context,
            &lock_context,
            context.pool().registry_lock(),
            "repair-free",
            |txn| {
                let high = txn.get(field!(layout.registry, Registry, clients_high))?;
                let slot = layout.clients.row(client)?;
                let free = txn.state(field!(slot, ClientSlot, state))? == Some(ClientState::Free);
                if client < high && free && !clients::is_queued(txn, layout, client)? {
                    clients::free_client(txn, layout, client)?;
                }
                Ok(())
            },
        )?;
    }
    Ok(())
}
