//! Joining: a process finds or makes its domain's slot and its own.

use std::sync::Arc;

use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::{
    Fault, LockContext, SlotGuard, SlotOwner, Txn, load_cell, load_value, with_lock,
};
use vshmem_wire::{
    ClientId, ClientSlot, ClientState, DomainSlot, DomainState, Place, Registry, State, field,
};

use crate::context::entry::Entry;
use crate::context::wait_file::WaitFile;
use crate::context::wait_policy::WaitPolicy;
use crate::context::waking::WakeScope;
use crate::context::{Context, UpperLayers, await_slot};
use crate::error::Failure;
use crate::listing::client_rows;
use crate::msg;
use crate::pool::chunk::Chunk;
use crate::pool::clients::{
    Process, is_in, is_same_start, slot_of, start_in, take_client, write_client,
};
use crate::pool::domains::{self, DomainIdentity, Seek};
use crate::pool::limits::limit_name;
use crate::pool::open::Pool;
use crate::recovery::steps::{self, Ended, Occasion};
use crate::recovery::{domain, reap, threads};

/// The steps of joining that may be refused. Returns the client's id.
fn claim_client_slot(
    context: &Context,
    identity: &DomainIdentity,
    process: Process,
    gone: &dyn Fn(u32, u64) -> bool,
) -> Result<ClientId, JoinError> {
    let entered = match enter_through(context, identity, process, gone) {
        // The slot of a domain without clients is given to another one when there is no other.
        Err(JoinError::Evicted) => enter_through(context, identity, process, gone),
        entered => entered,
    };
    let Entered { client, before_exec } = entered?;
    if before_exec {
        // What the former program left is given back; its adjustments stay.
        let slot_guard = joining_slot_guard(context)?;
        let lock_context = context.lock_context_of(&slot_guard);
        steps::run(context, &lock_context, Ended { client, process_ref: 0 }, Occasion::Exec)?;
    }
    Ok(client)
}

fn enter_through(
    context: &Context,
    identity: &DomainIdentity,
    process: Process,
    gone: &dyn Fn(u32, u64) -> bool,
) -> Result<Entered, JoinError> {
    context.slot_cache.unbind();
    enter_domain(context, identity)?;
    bind_to_domain(context)?;
    match enter(context, process, None) {
        Err(JoinError::Full { table, .. }) if table == limit_name!(clients) => {
            reap_gone(context, gone)?;
            enter(context, process, None)
        }
        entered => entered,
    }
}

pub(crate) fn enter_domain(context: &Context, identity: &DomainIdentity) -> Result<(), JoinError> {
    // Each round but the last reaps a former context.
    for _ in 0..=context.pool.layout().domains.count {
        let pool = Arc::clone(&context.pool);
        let layout = pool.layout();
        let sought = {
            let slot_guard = joining_slot_guard(context)?;
            let lock_context = context.lock_context_of(&slot_guard);
            with_lock(lock_context, pool.registry_lock(), "join-domain", |txn| {
                let mut used = [false; 128];
                let high = txn.get(field!(layout.registry, Registry, clients_high))?;
                for client in 0..high.min(layout.clients.count as u32) {
                    let slot = layout.clients.row(client)?;
                    if txn.state(field!(slot, ClientSlot, state))? != Some(ClientState::Free) {
                        let domain = txn.get(field!(slot, ClientSlot, domain))?;
                        used[domain as usize & 127] = true;
                    }
                }
                domains::seek(txn, &pool, identity, seconds_now(), |index| {
                    Ok(!used[index as usize & 127])
                })
            })?
        };
        match sought {
            Seek::Left(_) if context.entry == Entry::User => return Err(JoinError::Left),
            Seek::Mine(index) | Seek::Taken(index) | Seek::Left(index) => {
                context.identity.epoch.store(pool.epoch_of(index)?, Ordering::Relaxed);
                context.identity.domain.store(index, Ordering::Release);
                pool.set_own_domain(index);
                return Ok(());
            }
            Seek::Former(index) => {
                let slot_guard = joining_slot_guard(context)?;
                let epoch = context.pool.epoch_of(index)?;
                domain::reap_domain_from(context, &slot_guard, index, epoch, DomainState::Dead)?;
            }
            Seek::Evicted => return Err(JoinError::Evicted),
            Seek::Full => {
                return Err(JoinError::Full {
                    table: limit_name!(domains),
                    count: layout.domains.count,
                });
            }
        }
    }
    let table = context.pool.layout().domains.offset();
    Err(Fault::corrupt(table, "a domain that cannot be reaped").into())
}

/// A process that is only just joining stands as its domain does.
pub(crate) fn bind_to_domain(context: &Context) -> Result<(), Fault> {
    let slot = context.pool.layout().domains.row(context.domain())?;
    let state_at = field!(slot, DomainSlot, state).cell();
    let state = load_cell(context.pool.map(), state_at)?;
    let epoch = load_value(context.pool.map(), field!(slot, DomainSlot, epoch))?;
    let stands = DomainState::of(state.value());
    let is_open = stands.is_some_and(|state| state.takes_part() || context.entry.is_for(state));
    if !is_open || epoch != context.epoch() {
        return Err(Fault::Evicted);
    }
    context.slot_cache.bind_to(state_at, state);
    Ok(())
}

/// Takes a client slot: the one that this process had before an exec, the one that its parent
/// has kept for it, or a new one.
pub(crate) fn enter(
    context: &Context,
    process: Process,
    kept: Option<ClientId>,
) -> Result<Entered, JoinError> {
    let pool = &context.pool;
    let layout = pool.layout();
    let (domain, epoch) = (context.domain(), context.epoch());
    let slot_guard = joining_slot_guard(context)?;
    let lock_context = context.lock_context_of(&slot_guard);
    let domain_slot = layout.domains.row(domain).map_err(Fault::from)?;
    let taken = with_lock(lock_context, pool.registry_lock(), "join", |txn| {
        // It may have been evicted since this process found it, or be about to leave.
        let state = txn.state(field!(domain_slot, DomainSlot, state))?;
        let is_open = state.is_some_and(|state| {
            state == DomainState::Alive
                || state.takes_part() && kept.is_some()
                || context.entry.is_for(state)
        });
        if !is_open || txn.get(field!(domain_slot, DomainSlot, epoch))? != epoch {
            return Err(Fault::Evicted);
        }
        if let Some(client) = kept {
            let slot = slot_of(layout, client)?;
            let reserved =
                txn.state(field!(slot, ClientSlot, state))? == Some(ClientState::Reserved);
            if reserved && is_in(txn, slot, client)? {
                name_words(context, txn, slot)?;
                write_client(txn, slot, ClientState::Active, domain, epoch, process)?;
                return Ok(Some(Entered { client, before_exec: false }));
            }
        }
        let high_at = field!(layout.registry, Registry, clients_high);
        let high = txn.get(high_at)?.min(layout.clients.count as u32);
        for client in 0..high {
            let slot = layout.clients.row(client)?;
            if txn.state(field!(slot, ClientSlot, state))? == Some(ClientState::Active)
                && txn.get(field!(slot, ClientSlot, pid))? == process.pid
                && txn.get(field!(slot, ClientSlot, domain))? == domain
                && is_same_start(start_in(txn, slot)?, process.start)
            {
                let taken = txn.get_word(field!(slot, ClientSlot, taken))?;
                let client = ClientId::new(client, taken);
                // It may be another user by now.
                name_words(context, txn, slot)?;
                return Ok(Some(Entered { client, before_exec: true }));
            }
        }
        let Some(client) = take_client(txn, layout)? else { return Ok(None) };
        let slot = slot_of(layout, client)?;
        name_words(context, txn, slot)?;
        write_client(txn, slot, ClientState::Active, domain, epoch, process)?;
        Ok(Some(Entered { client, before_exec: false }))
    })?;
    taken.ok_or(JoinError::Full { table: limit_name!(clients), count: layout.clients.count })
}

/// Notes in a client's slot whose file this process's wait words lie in.
fn name_words(context: &Context, txn: &mut Txn<'_>, slot: Place<ClientSlot>) -> Result<(), Fault> {
    let owner = context.waking.domain_users.as_ref().map(|here| here.own);
    let uid = owner.map_or(0, |owner| owner.uid.wrapping_add(1));
    txn.update(field!(slot, ClientSlot, words_uid), uid)?;
    txn.update(field!(slot, ClientSlot, words_nonce), owner.map_or(0, |owner| owner.nonce))
}

/// A thread slot for the time of joining: its owner is not a client yet.
pub(crate) fn joining_slot_guard(context: &Context) -> Result<SlotGuard<'_>, JoinError> {
    let threads = context.pool.layout().threads;
    let slot_owner = SlotOwner { client: context.as_joining(), list: None };
    let take = || context.slot_cache.take(context.pool.map(), threads, slot_owner);
    let taken = match take()? {
        None => await_slot(take)?,
        taken => taken,
    };
    taken.ok_or(JoinError::Full { table: limit_name!(threads), count: threads.count })
}

/// Reaps the clients of this domain that have ended.
fn reap_gone(context: &Context, gone: &dyn Fn(u32, u64) -> bool) -> Result<(), JoinError> {
    let slot_guard = joining_slot_guard(context)?;
    let lock_context = context.lock_context_of(&slot_guard);
    let rows = client_rows::local_clients(&context.pool, context.domain()).map_err(|_| {
        JoinError::Damaged(Fault::corrupt(context.pool.layout().clients.offset(), "client table"))
    })?;
    for row in rows.into_iter().filter(|row| gone(row.pid, row.start)) {
        reap::reap_client(context, &lock_context, row.id)?;
    }
    Ok(())
}

/// Ends joining: from now on this process acts as `client`.
///
/// Its changes count as long as its client slot stays as it is now. A thread that evicts its domain
/// or reaps the client changes the slot, and from then on every change of this process is refused.
pub(crate) fn finish_join(context: &Context, client: ClientId) -> Result<(), Fault> {
    let map = context.pool.map();
    let threads = context.pool.layout().threads;
    let slot = slot_of(context.pool.layout(), client)?;
    let state_at = field!(slot, ClientSlot, state).cell();
    let state = load_cell(map, state_at)?;
    let mine = ClientState::of(state.value()) == Some(ClientState::Active)
        && context.pool.still_holds(slot, client)?;
    context.slot_cache.give_back(map, threads, context.as_joining());
    if !mine {
        return Err(Fault::Evicted);
    }
    context.slot_cache.bind_to(state_at, state);
    context.identity.client.store(client.word(), Ordering::Release);
    Ok(())
}

/// Why a process cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// A table is full.
    #[error(
        "its table of {table} is full ({count}). End some programs, or create a pool with a larger one, as in `vshmem pool create big --size 1G --limit {table}={}`", .count.saturating_mul(2)
    )]
    Full {
        /// Which table.
        table: &'static str,
        /// Its size.
        count: u64,
    },
    /// This domain has been evicted.
    #[error(
        "this domain was evicted from the pool: by an operator, or because this machine was migrated or restored and has only a copy of the pool (the kernel's log says so). It can join again after a reboot, or after `vshmem pool evict POOL DOMAIN --dead`"
    )]
    Evicted,
    /// This domain leaves the pool, or has left it.
    #[error(
        "this domain has left the pool, or is about to (`vshmem pool leave`, `vshmem pool drain`). `vshmem pool join POOL`, as root or the pool's owner, lets programs use it again"
    )]
    Left,
    /// The pool is corrupt.
    #[error("the pool is damaged ({0:?}). `vshmem pool check` says more")]
    Damaged(Fault),
}

impl From<Fault> for JoinError {
    fn from(fault: Fault) -> Self {
        if fault == Fault::Evicted { Self::Evicted } else { Self::Damaged(fault) }
    }
}

/// A slot that `enter` has found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entered {
    pub client: ClientId,
    /// It is this very process's, from before an exec.
    before_exec: bool,
}

/// Joins. When the client table is full, first reaps those clients of this domain of which `gone`
/// says, by pid and start time, that they have ended.
pub(crate) fn join(
    pool: Arc<Pool>,
    identity: &DomainIdentity,
    process: Process,
    words: Option<WaitFile>,
    (wake_scope, wait_policy): (WakeScope, WaitPolicy),
    (gone, entry): (&dyn Fn(u32, u64) -> bool, Entry),
) -> Result<Context, JoinError> {
    let (digest, pid) = (identity.digest(), process.pid);
    let waits = (wake_scope, wait_policy);
    let context = Context::new(pool, digest, pid, words, waits, &Layers, entry);
    match claim_client_slot(&context, identity, process, gone) {
        Ok(client) => finish_join(&context, client)?,
        Err(error) => {
            let (map, threads) = (context.pool.map(), context.pool.layout().threads);
            context.slot_cache.give_back(map, threads, context.as_joining());
            return Err(error);
        }
    }
    Ok(context)
}

/// What carries out the steps of upper layers.
#[derive(Debug)]
struct Layers;

impl UpperLayers for Layers {
    fn recover_thread(&self, context: &Context, lock_context: &LockContext<'_>, slot: u32) -> bool {
        threads::recover_thread(context, lock_context, slot)
    }

    fn free_spare_chunks(
        &self,
        context: &Context,
        lock_context: &LockContext<'_>,
    ) -> Result<bool, Failure> {
        msg::stock::free_spare_chunks(context, lock_context)
    }

    fn reap_chunk(
        &self,
        context: &Context,
        lock_context: &LockContext<'_>,
        chunk: Chunk,
        dead: u64,
    ) -> Result<(), Fault> {
        msg::reap::reap_chunk(context.pool(), lock_context, chunk, dead, context.client_id().word())
    }
}
