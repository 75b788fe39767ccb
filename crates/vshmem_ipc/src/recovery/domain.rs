//! A whole domain that has died, or is evicted.

use vshmem_mem::Ordering;
use vshmem_sync::{
    Fault, LockContext, SlotGuard, holder_of, load_state, load_value, load_word, with_lock,
};
use vshmem_wire::{
    ClientId, ClientSlot, ClientState, DomainSlot, DomainState, FutexBucket, ObjectHeader,
    ProcessRef, Registry, ThreadSlot, field,
};

use crate::claims::end;
use crate::context::Context;
use crate::error::Failure;
use crate::pool::clients::{self, slot_of};
use crate::pool::domains;
use crate::pool::id::Kind;
use crate::recovery::steps::{self, Ended, Occasion};
use crate::recovery::{reap, threads};
use crate::wait::doorbell;

/// Frees the thread slots of processes of a domain that have died while they were joining, as
/// `gone` says by their pids.
pub(crate) fn free_joining_slots(
    context: &Context,
    domain: u32,
    gone: &dyn Fn(u32) -> bool,
) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let free = || -> Result<(), Fault> {
        let digest = domains::digest_at(context.pool(), domain)?;
        threads::reap_joining(context, &context.lock_context_of(&slot_guard), digest, gone)
    };
    free().map_err(Failure::from)
}

/// Declares whatever domain is in a slot now dead, and reaps all its clients.
pub(crate) fn reap_domain(context: &Context, domain: u32) -> Result<(), Failure> {
    reap_epoch(context, domain, context.pool().epoch_of(domain)?)
}

/// As `reap_domain`, unless the slot has been taken anew since it had this boot epoch.
pub(crate) fn reap_epoch(context: &Context, domain: u32, epoch: u32) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    reap_domain_from(context, &slot_guard, domain, epoch, DomainState::Dead).map_err(Failure::from)
}

/// Declares a domain evicted: its adjustments are applied and its waiters leave, and what it has
/// attached stays as it is until its death is confirmed by `reap_domain`.
pub(crate) fn evict_domain(context: &Context, domain: u32) -> Result<(), Failure> {
    evict_epoch(context, domain, context.pool().epoch_of(domain)?)
}

/// Before the name of a domain that several machines had.
const TWINS: &str = "twins of ";

/// Evicts the domain of this process, which is that of several machines: copies of one. One of them
/// may boot again under its name, and the others still have its memory: so the slot gets another.
pub(crate) fn evict_twins(context: &Context) -> Result<(), Failure> {
    let (pool, domain) = (context.pool(), context.domain());
    let slot_guard = context.slot_guard()?;
    let name = domains::name_of(pool, domain)?;
    // Another of them may be about to evict it.
    if !name.starts_with(TWINS) {
        let lock_context = context.lock_context_of(&slot_guard);
        with_lock(lock_context, pool.registry_lock(), "evict-twins", |txn| {
            domains::rename(txn, pool.layout().domains.row(domain)?, &format!("{TWINS}{name}"))
        })?;
    }
    drop(slot_guard);
    evict_domain(context, domain)
}

/// As `evict_domain`, unless the slot has been taken anew since it had this boot epoch.
pub(crate) fn evict_epoch(context: &Context, domain: u32, epoch: u32) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    reap_domain_from(context, &slot_guard, domain, epoch, DomainState::Evicted)
        .map_err(Failure::from)
}

pub(crate) fn reap_domain_from(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    domain: u32,
    epoch: u32,
    state: DomainState,
) -> Result<(), Fault> {
    let pool = context.pool();
    let lock_context = context.lock_context_of(slot_guard);
    let slot = pool.layout().domains.row(domain)?;
    let there = with_lock(lock_context, pool.registry_lock(), "reap-domain", |txn| {
        let state_at = field!(slot, DomainSlot, state);
        if txn.state(state_at)? == Some(DomainState::Free)
            || txn.get(field!(slot, DomainSlot, epoch))? != epoch
        {
            return Ok(false);
        }
        txn.update_state(state_at, state)?;
        txn.update(field!(slot, DomainSlot, agent), 0)?;
        txn.update(field!(slot, DomainSlot, address), 0)?;
        Ok(true)
    })?;
    if !there {
        return Ok(());
    }
    end::drop_claims(context, &lock_context, domain, epoch)?;
    // If the caller is of that domain, it comes last: once it is reaped, its changes are refused,
    // and its thread slot may already belong to another client.
    let (own, others): (Vec<_>, Vec<_>) = clients_of(context, domain, epoch)?
        .into_iter()
        .partition(|client| *client == context.client_id());
    match state {
        DomainState::Evicted => evict_clients(context, &lock_context, domain, &others, &own),
        // It carries the leave out, and goes last.
        DomainState::Left => evict_clients(context, &lock_context, domain, &others, &[]),
        _ => reap_clients(context, &lock_context, domain, &others, &own),
    }
}

/// Reaps all clients of a domain that has died.
fn reap_clients(
    context: &Context,
    lock_context: &LockContext<'_>,
    domain: u32,
    others: &[ClientId],
    own: &[ClientId],
) -> Result<(), Fault> {
    for client in others {
        reap::reap_client(context, lock_context, *client)?;
    }
    let digest = domains::digest_at(context.pool(), domain)?;
    if !is_of_another_domain(context, domain, digest)? {
        threads::reap_joining(context, lock_context, digest, &|_| true)?;
    }
    for client in own {
        reap::reap_client(context, lock_context, *client)?;
    }
    doorbell::wake_served(context);
    Ok(())
}

/// Whether this is the digest of another domain as well, whose processes may be joining now: the
/// inode of a PID namespace that has ended is given again. That domain's own agent finds those
/// which have died.
fn is_of_another_domain(context: &Context, dead: u32, digest: u64) -> Result<bool, Fault> {
    // This process joins, and its domain has no slot yet.
    if context.client_id().joiner().is_some_and(|(own, _)| own == digest) {
        return Ok(true);
    }
    let (layout, map) = (context.pool().layout(), context.pool().map());
    for other in (0..layout.domains.count as u32).filter(|other| *other != dead) {
        let state_at = field!(layout.domains.row(other)?, DomainSlot, state);
        let lives = load_state(map, state_at)?.is_some_and(DomainState::takes_part);
        if lives && domains::digest_at(context.pool(), other)? == digest {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends what the clients of an evicted domain have begun, and refuses what they do from now on.
fn evict_clients(
    context: &Context,
    lock_context: &LockContext<'_>,
    domain: u32,
    others: &[ClientId],
    own: &[ClientId],
) -> Result<(), Fault> {
    let pool = context.pool();
    for client in others {
        quarantine(context, lock_context, *client)?;
    }
    // Marked, they make no more changes. What they have begun ends here.
    break_locks(context, lock_context, domain)?;
    for client in others.iter().chain(own) {
        let slot = slot_of(pool.layout(), *client)?;
        let pid = load_value(pool.map(), field!(slot, ClientSlot, pid))?;
        let ended = Ended { client: *client, process_ref: ProcessRef { domain, pid }.pack() };
        steps::run(context, lock_context, ended, Occasion::Eviction)?;
    }
    for client in own {
        // Its other threads that have gone to sleep since find this when they look again.
        quarantine(context, lock_context, *client)?;
    }
    // Threads elsewhere may wait for a lock that one of these clients held, or for a wake-up that
    // one of them did not send.
    doorbell::wake_every_waiter(context);
    Ok(())
}

/// The clients of a domain in one of its boot epochs.
pub(crate) fn clients_of(
    context: &Context,
    domain: u32,
    epoch: u32,
) -> Result<Vec<ClientId>, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    let mut clients = Vec::new();
    for client in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(client)?;
        // The client id first: if the slot gets a new owner now, the id no longer matches.
        let id = context.pool().client_id_in(client)?;
        let same = load_state(map, field!(slot, ClientSlot, state))? != Some(ClientState::Free)
            && load_value(map, field!(slot, ClientSlot, domain))? == domain
            && load_value(map, field!(slot, ClientSlot, epoch))? == epoch;
        if same {
            clients.push(id);
        }
    }
    Ok(clients)
}

fn quarantine(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
) -> Result<(), Fault> {
    let pool = context.pool();
    let slot = slot_of(pool.layout(), client)?;
    with_lock(*lock_context, pool.registry_lock(), "quarantine", |txn| {
        if clients::is_in(txn, slot, client)? {
            txn.update_state(field!(slot, ClientSlot, state), ClientState::Quarantined)?;
        }
        Ok(())
    })
}

/// Takes every lock over that a quarantined client holds, or one that was only just joining:
/// what it has committed is carried out, what it has not will be refused.
///
/// Not only the locks that thread slots name: those words are plain, and a thread that has been
/// refused may be naming one now. Pairs with `SlotCache::check_current`.
fn break_locks(
    context: &Context,
    lock_context: &LockContext<'_>,
    domain: u32,
) -> Result<(), Fault> {
    let pool = context.pool();
    let (layout, map) = (pool.layout(), pool.map());
    let objects = Kind::ALL.into_iter().flat_map(|kind| {
        (0..kind.slots(layout) as u32).filter_map(move |index| kind.row(layout, index).ok())
    });
    let objects = objects.map(|slot| field!(slot, ObjectHeader, lock));
    let buckets = (0..layout.futexes.count as u32).filter_map(|nth| layout.futexes.at(nth));
    let buckets = buckets.map(|bucket| field!(bucket, FutexBucket, lock));
    vshmem_mem::fence(Ordering::SeqCst);
    let tables = [pool.registry_lock(), field!(layout.registry, Registry, lock_table)];
    for lock in tables.into_iter().chain(objects).chain(buckets) {
        let Some(holder) = holder_of(map, lock)? else { continue };
        let Ok(thread) = layout.threads.row(holder.slot) else { continue };
        let owner = load_word(map, field!(thread, ThreadSlot, owner))?;
        if is_out(context, owner, domain)? {
            with_lock(*lock_context, lock, "evict-lock", |_| Ok(()))?;
        }
    }
    Ok(())
}

/// Whether the owner of a thread slot may make no more changes, now that `domain` is evicted.
fn is_out(context: &Context, owner: u64, domain: u32) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let Some(client) = ClientId::of(owner) else { return Ok(false) };
    if let Some((digest, _)) = client.joiner() {
        return Ok(digest == domains::digest_at(context.pool(), domain)?);
    }
    let Ok(slot) = slot_of(layout, client) else { return Ok(false) };
    let state = load_state(map, field!(slot, ClientSlot, state))?;
    Ok(state == Some(ClientState::Quarantined))
}
