//! Joining: a process finds or makes its domain's slot and its own.

use std::sync::Arc;

use vshmem_mem::{Ordering, seconds_now};
use vshmem_sync::{Claimant, Fault, Seat, Txn, field, load_cell, load_value, with_lock};
use vshmem_wire::{ClientName, ClientSlot, ClientState, DomainSlot, DomainState, Registry};

use crate::context::wait_file::WaitFile;
use crate::context::{Context, Reach, Upcalls};
use crate::listing::client_rows;
use crate::msg;
use crate::pool::clients::{
    Process, client_at, is_in, is_same_start, slot_of, start_in, take_client, write_client,
};
use crate::pool::domains::{self, DomainIdentity, Seek};
use crate::pool::limits::limit_name;
use crate::pool::open::Pool;
use crate::recovery::steps::{self, Ended, Occasion};
use crate::recovery::{domain, reap, threads};

/// Everything of joining that may be refused. Returns the client's name.
fn find_place(
    context: &Context,
    identity: &DomainIdentity,
    process: Process,
    gone: &dyn Fn(u32, u64) -> bool,
) -> Result<ClientName, JoinError> {
    let entered = match enter_through(context, identity, process, gone) {
        // The slot of a domain without clients is given to another one when there is no other.
        Err(JoinError::Evicted) => enter_through(context, identity, process, gone),
        entered => entered,
    };
    let Entered { client, before_exec } = entered?;
    if before_exec {
        // What the former program left is given back; its adjustments stay.
        let seat = stranger_seat(context)?;
        let desk = context.desk_of(&seat);
        steps::run(context, &desk, Ended { client, party: 0 }, Occasion::Exec)?;
    }
    Ok(client)
}

fn enter_through(
    context: &Context,
    identity: &DomainIdentity,
    process: Process,
    gone: &dyn Fn(u32, u64) -> bool,
) -> Result<Entered, JoinError> {
    context.seats.stand_always();
    enter_domain(context, identity)?;
    stand_on_domain(context)?;
    match enter(context, process, None) {
        Err(JoinError::Full { table, .. }) if table == limit_name!(clients) => {
            bury_gone(context, gone)?;
            enter(context, process, None)
        }
        entered => entered,
    }
}

pub(crate) fn enter_domain(context: &Context, identity: &DomainIdentity) -> Result<(), JoinError> {
    // Each round but the last buries a former context.
    for _ in 0..=context.pool.layout().domains.count {
        let pool = Arc::clone(&context.pool);
        let layout = pool.layout();
        let sought = {
            let seat = stranger_seat(context)?;
            let desk = context.desk_of(&seat);
            with_lock(desk, pool.registry_lock(), "join-domain", |txn| {
                let mut used = [false; 128];
                let high = txn.get(field!(layout.registry, Registry, clients_high))?;
                for client in 0..high.min(layout.clients.count as u32) {
                    let slot = client_at(layout, client)?;
                    if txn.get(field!(slot, ClientSlot, state))? != ClientState::Free as u32 {
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
            Seek::Mine(index) | Seek::Taken(index) => {
                context.epoch.store(pool.epoch_of(index)?, Ordering::Relaxed);
                context.domain.store(index, Ordering::Release);
                return Ok(());
            }
            Seek::Former(index) => {
                let seat = stranger_seat(context)?;
                let epoch = context.pool.epoch_of(index)?;
                domain::bury_domain_from(context, &seat, index, epoch, DomainState::Dead)?;
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
    let table = context.pool.layout().domains.offset;
    Err(Fault::corrupt(table, "a domain that cannot be buried").into())
}

/// A process that is only just joining stands as its domain does.
pub(crate) fn stand_on_domain(context: &Context) -> Result<(), Fault> {
    let slot = domains::slot_at(context.pool.layout(), context.domain())?;
    let state_at = field!(slot, DomainSlot, state);
    let state = load_cell(context.pool.map(), state_at)?;
    let epoch = load_value(context.pool.map(), field!(slot, DomainSlot, epoch))?;
    if state.value() != DomainState::Alive as u32 || epoch != context.epoch() {
        return Err(Fault::Evicted);
    }
    context.seats.stand_on(state_at, state);
    Ok(())
}

/// Takes a client slot: the one that this process had before an exec, the one that its parent
/// has kept for it, or a new one.
pub(crate) fn enter(
    context: &Context,
    process: Process,
    kept: Option<ClientName>,
) -> Result<Entered, JoinError> {
    let pool = &context.pool;
    let layout = pool.layout();
    let (domain, epoch) = (context.domain(), context.epoch());
    let seat = stranger_seat(context)?;
    let desk = context.desk_of(&seat);
    let home = domains::slot_at(layout, domain)?;
    let taken = with_lock(desk, pool.registry_lock(), "join", |txn| {
        // It may have been evicted since this process found it.
        if txn.get(field!(home, DomainSlot, state))? != DomainState::Alive as u32
            || txn.get(field!(home, DomainSlot, epoch))? != epoch
        {
            return Err(Fault::Evicted);
        }
        if let Some(client) = kept {
            let slot = slot_of(layout, client)?;
            let reserved =
                txn.get(field!(slot, ClientSlot, state))? == ClientState::Reserved as u32;
            if reserved && is_in(txn, slot, client)? {
                name_words(context, txn, slot)?;
                write_client(txn, slot, ClientState::Active, domain, epoch, process)?;
                return Ok(Some(Entered { client, before_exec: false }));
            }
        }
        let high_at = field!(layout.registry, Registry, clients_high);
        let high = txn.get(high_at)?.min(layout.clients.count as u32);
        for client in 0..high {
            let slot = client_at(layout, client)?;
            if txn.get(field!(slot, ClientSlot, state))? == ClientState::Active as u32
                && txn.get(field!(slot, ClientSlot, pid))? == process.pid
                && txn.get(field!(slot, ClientSlot, domain))? == domain
                && is_same_start(start_in(txn, slot)?, process.start)
            {
                let taken = txn.get_word(field!(slot, ClientSlot, taken))?;
                let client = ClientName::new(client, taken);
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
fn name_words(context: &Context, txn: &mut Txn<'_>, slot: u64) -> Result<(), Fault> {
    let owner = context.neighbourhood.as_ref().map(|here| here.own);
    let uid = owner.map_or(0, |owner| owner.uid.wrapping_add(1));
    txn.update(field!(slot, ClientSlot, words_uid), uid)?;
    txn.update(field!(slot, ClientSlot, words_nonce), owner.map_or(0, |owner| owner.nonce))
}

/// A thread slot for the time of joining: its owner is nobody yet.
pub(crate) fn stranger_seat(context: &Context) -> Result<Seat<'_>, JoinError> {
    let threads = context.pool.layout().threads;
    let claimant = Claimant { client: context.as_stranger(), list: None };
    context
        .seats
        .take(context.pool.map(), threads, claimant)?
        .ok_or(JoinError::Full { table: limit_name!(threads), count: threads.count })
}

/// Buries the clients of this domain that are no more.
fn bury_gone(context: &Context, gone: &dyn Fn(u32, u64) -> bool) -> Result<(), JoinError> {
    let seat = stranger_seat(context)?;
    let desk = context.desk_of(&seat);
    let rows = client_rows::residents(&context.pool, context.domain()).map_err(|_| {
        JoinError::Damaged(Fault::corrupt(context.pool.layout().clients.offset, "client table"))
    })?;
    for row in rows.into_iter().filter(|row| gone(row.pid, row.start)) {
        reap::bury_client(context, &desk, row.name)?;
    }
    Ok(())
}

/// Ends the time of joining: from now on this process works as `client`.
///
/// It works for as long as its slot says what it says now. Who evicts its domain, or buries it,
/// changes that, and then every change that it makes is refused.
pub(crate) fn settle_in(context: &Context, client: ClientName) -> Result<(), Fault> {
    let map = context.pool.map();
    let threads = context.pool.layout().threads;
    let slot = slot_of(context.pool.layout(), client)?;
    let state_at = field!(slot, ClientSlot, state);
    let state = load_cell(map, state_at)?;
    let mine =
        state.value() == ClientState::Active as u32 && context.pool.still_holds(slot, client)?;
    context.seats.give_back(map, threads, context.as_stranger());
    if !mine {
        return Err(Fault::Evicted);
    }
    context.seats.stand_on(state_at, state);
    context.client.store(client.word(), Ordering::Release);
    Ok(())
}

/// Why a process cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// A table is full.
    #[error(
        "its table of {table} is full ({count}). Create the pool with a larger `--limit {table}=N`, or end some programs"
    )]
    Full {
        /// Which table.
        table: &'static str,
        /// Its size.
        count: u64,
    },
    /// This domain has been evicted.
    #[error(
        "this domain was evicted from the pool, by an operator or because it was cut off from the others with a copy of it (after a migration or a restored snapshot; the kernel's log says so); it may join again once `vshmem pool evict --dead` has confirmed its death, or after a reboot"
    )]
    Evicted,
    /// The pool does not make sense.
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
    pub client: ClientName,
    /// It is this very process's, from before an exec.
    before_exec: bool,
}

/// Joins. When the client table is full, first reaps those clients of this domain of which `gone`
/// says, by pid and start time, that they are no more.
pub(crate) fn join(
    pool: Arc<Pool>,
    identity: &DomainIdentity,
    process: Process,
    words: Option<WaitFile>,
    reach: Reach,
    gone: &dyn Fn(u32, u64) -> bool,
) -> Result<Context, JoinError> {
    let context = Context::new(pool, identity.digest(), process.pid, words, reach, &UPCALLS);
    match find_place(&context, identity, process, gone) {
        Ok(client) => settle_in(&context, client)?,
        Err(error) => {
            let (map, threads) = (context.pool.map(), context.pool.layout().threads);
            context.seats.give_back(map, threads, context.as_stranger());
            return Err(error);
        }
    }
    Ok(context)
}

/// What lower rooms have done by upper ones.
static UPCALLS: Upcalls = Upcalls {
    recover_thread: threads::recover_thread,
    free_spare_chunks: msg::stock::free_parked_chunks,
    reap_chunk: |context, desk, chunk, dead| {
        msg::ring::bury_chunk(context.pool(), desk, chunk, dead, context.me().word())
    },
};
