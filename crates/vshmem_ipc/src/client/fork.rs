//! Fork: the parent keeps a slot with its attaches, and the child takes it over.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::io::Errno;
use vshmem_mem::{Instant, Ordering, StallProofTimeout};
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn, decide_with_lock, with_lock};
use vshmem_wire::{
    ATTACHED_QUEUE, AttachCount, AttachSlot, Cell, ClientId, ClientSlot, ClientState, Layout, field,
};

use crate::client::join::{self, JoinError};
use crate::context::Context;
use crate::error::Failure;
use crate::msg::posix::descriptors;
use crate::pool::clients::{Process, is_in, slot_of, take_client, write_client};
use crate::pool::domains::DomainIdentity;
use crate::recovery::reap;
use crate::registry::attach_records::count_at;
use crate::shm::record::attach;

/// Tries before a fork is refused because other threads attach and detach all the time.
const TRIES: u32 = 100;
/// How long these attempts may take together: a hostile member can make each of them long.
const LONGEST: Duration = Duration::from_secs(2);
/// An attempt counts as at most this long: the process may have been stopped meanwhile.
const TRY_TAKES: Duration = Duration::from_millis(100);

/// Keeps a client slot, with all attaches of this process, for a child.
pub(crate) fn reserve_child(context: &Context) -> Result<ChildSlot, Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut timeout = StallProofTimeout::new(Instant::now(), LONGEST, TRY_TAKES);
    for _ in 0..TRIES {
        let client = reserve_slot(context, &lock_context)?;
        match copy_attaches(context, &lock_context, client) {
            Ok(Copied::All) => return Ok(ChildSlot(client)),
            Ok(Copied::Changed) => reap::reap_client(context, &lock_context, client)?,
            Ok(Copied::NoRoom) | Err(_) => {
                let _ = reap::reap_client(context, &lock_context, client);
                return Err(Errno::AGAIN.into());
            }
        }
        if timeout.is_over(Instant::now()) {
            break;
        }
    }
    Err(Errno::AGAIN.into())
}

fn reserve_slot(context: &Context, lock_context: &LockContext<'_>) -> Result<ClientId, Failure> {
    let pool = &context.pool;
    let layout = pool.layout();
    let parent = Process { pid: context.identity.pid.load(Ordering::Relaxed), start: 0, uid: 0 };
    decide_with_lock(*lock_context, pool.registry_lock(), "fork-reserve", |txn| {
        let Some(client) = take_client(txn, layout)? else { return Ok(Abandon(Errno::AGAIN)) };
        let slot = slot_of(layout, client)?;
        let (domain, epoch) = (context.domain(), context.epoch());
        write_client(txn, slot, ClientState::Reserved, domain, epoch, parent)?;
        Ok(Commit(client))
    })
}

/// Notes the pid of the child that a slot was kept for, so that its death is noticed even if it
/// dies before it has taken the slot over.
pub(crate) fn record_child_pid(context: &Context, kept: ChildSlot, pid: u32) {
    let name = || -> Result<(), Fault> {
        let slot = slot_of(context.pool.layout(), kept.0)?;
        let Ok(slot_guard) = context.slot_guard() else { return Ok(()) };
        let pid_at = field!(slot, ClientSlot, pid);
        with_lock(
            context.lock_context_of(&slot_guard),
            context.pool.registry_lock(),
            "fork-name",
            |txn| {
                if txn.state(field!(slot, ClientSlot, state))? == Some(ClientState::Reserved)
                    && is_in(txn, slot, kept.0)?
                    && txn.get(pid_at)? == context.identity.pid.load(Ordering::Relaxed)
                {
                    txn.set(pid_at, pid)?;
                }
                Ok(())
            },
        )
    };
    // Without the name the slot is given back when the agent sees the parent gone.
    let _ = name();
}

/// Gives a kept slot back: the fork has failed.
pub(crate) fn cancel_child(context: &Context, kept: ChildSlot) {
    if let Ok(slot_guard) = context.slot_guard() {
        let _ = reap::reap_client(context, &context.lock_context_of(&slot_guard), kept.0);
    }
}

/// To be called in the child: takes the kept slot over. `elsewhere` is its domain if that may be
/// another one than its parent's: it is the first process of a PID namespace, or its parent is
/// outside.
pub(crate) fn become_child(
    context: &Context,
    kept: Option<ChildSlot>,
    process: Process,
    elsewhere: Option<&DomainIdentity>,
) -> Result<(), JoinError> {
    context.slot_cache.forget();
    context.chunk_cache.forget();
    context.identity.pid.store(process.pid, Ordering::Release);
    let placed = find_childs_place(context, kept, process, elsewhere);
    if placed.is_err() {
        let (map, threads) = (context.pool.map(), context.pool.layout().threads);
        context.slot_cache.give_back(map, threads, context.as_joining());
        renounce(context);
    }
    placed
}

/// The steps of becoming a child that may be refused.
fn find_childs_place(
    context: &Context,
    kept: Option<ChildSlot>,
    process: Process,
    elsewhere: Option<&DomainIdentity>,
) -> Result<(), JoinError> {
    if let Some(identity) = elsewhere {
        context.identity.digest.store(identity.digest(), Ordering::Release);
        context.identity.client.store(context.as_joining().word(), Ordering::Release);
        context.slot_cache.unbind();
        join::enter_domain(context, identity)?;
    }
    context.identity.client.store(context.as_joining().word(), Ordering::Release);
    join::bind_to_domain(context)?;
    let entered = join::enter(context, process, kept.map(|ChildSlot(client)| client))?;
    Ok(join::finish_join(context, entered.client)?)
}

/// To be called in a child that cannot become a member. Otherwise its calls would act as its
/// parent.
pub(crate) fn renounce(context: &Context) {
    context.slot_cache.forget();
    context.chunk_cache.forget();
    context.identity.client.store(context.as_joining().word(), Ordering::Release);
    // No cell is ever written so often.
    context.slot_cache.bind_to(context.pool.registry_lock(), Cell { word: 0, tag: u64::MAX });
}

/// Copies the attaches of this process to `to`, which no other thread changes. Other threads may
/// attach and detach meanwhile: when the last step is done, `to` has exactly the attaches that this
/// process has.
fn copy_attaches(
    context: &Context,
    lock_context: &LockContext<'_>,
    to: ClientId,
) -> Result<Copied, Fault> {
    let layout = context.pool().layout();
    let mut copied = BTreeMap::new();
    // A client has one record of a segment, and of a queue, at most. A step copies one at least,
    // unless it is the last.
    for _ in 0..=layout.attaches.count.min(layout.shm.count + layout.msg.count) {
        let lock = context.pool().registry_lock();
        let step = with_lock(*lock_context, lock, "fork-copy", |txn| {
            copy_some(txn, layout, context.client_id(), to, &copied)
        })?;
        for (held, count) in step.added.into_iter().take(step.adds) {
            copied.insert(held, count);
        }
        if let Some(done) = step.done {
            return Ok(done);
        }
    }
    // Others have attached as fast as this thread has copied.
    Ok(Copied::Changed)
}

/// Records that one step copies: as many as the usual intent record has room for.
const RECORDS_AT_ONCE: usize = 8;

/// Words that copying one record writes at most, with the two that all of them write.
const WORDS_OF_RECORD: usize = 7;

/// Stages some attaches that `from` has and `to` does not have; `copied` says what `to` has. Both
/// the lists and the objects are read under the lock: an object that `from` has a record of exists.
fn copy_some(
    txn: &mut Txn<'_>,
    layout: &Layout,
    from: ClientId,
    to: ClientId,
    copied: &BTreeMap<u32, AttachCount>,
) -> Result<CopyBatch, Fault> {
    let mut step = CopyBatch::default();
    let mut same = 0;
    let mut next = txn.get(field!(slot_of(layout, from)?, ClientSlot, attaches))?;
    for _ in 0..=layout.attaches.count {
        let Some(record) = next.checked_sub(1) else {
            // Otherwise `to` has something that `from` has no more.
            let is_all = same == copied.len();
            return Ok(step.ending(if is_all { Copied::All } else { Copied::Changed }));
        };
        let at = layout.attaches.row(record)?;
        let held = txn.get(field!(at, AttachSlot, segment))?;
        if held == 0 || txn.get_word(field!(at, AttachSlot, client))? != from.word() {
            return Err(Fault::corrupt(at, "an attach record in a list that is not its client's"));
        }
        let count = count_at(txn, field!(at, AttachSlot, count))?;
        next = txn.get(field!(at, AttachSlot, next))?;
        if let Some(before) = copied.get(&held) {
            if *before != count {
                return Ok(step.ending(Copied::Changed));
            }
            same += 1;
            continue;
        }
        if step.adds == RECORDS_AT_ONCE || txn.remaining_entries() < WORDS_OF_RECORD {
            return Ok(step);
        }
        let added = if held & ATTACHED_QUEUE != 0 {
            descriptors::count_held(txn, layout, to, held, count.opened)?
        } else {
            attach(txn, layout, to, held - 1, count)?
        };
        if !added {
            return Ok(step.ending(Copied::NoRoom));
        }
        step.added[step.adds] = (held, count);
        step.adds += 1;
    }
    Err(Fault::corrupt(layout.attaches.offset(), "an attach list without an end"))
}

/// A step of copying attaches.
#[derive(Default)]
struct CopyBatch {
    /// What it has copied, by what the records say.
    added: [(u32, AttachCount); RECORDS_AT_ONCE],
    /// How many of them there are.
    adds: usize,
    /// How all has ended, if it has.
    done: Option<Copied>,
}

impl CopyBatch {
    fn ending(self, done: Copied) -> Self {
        Self { done: Some(done), ..self }
    }
}

/// A client slot kept for a child that is about to be forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildSlot(pub(crate) ClientId);

/// How copying a list of attaches went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    /// All of them are there twice now.
    All,
    /// There are not enough records.
    NoRoom,
    /// This process has let go of something that was copied, or has more or less of it.
    Changed,
}
