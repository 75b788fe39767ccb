//! A client's half: having the claim for a lock that its kernel is about to be asked for.

use arrayvec::ArrayVec;
use rustix::io::Errno;
use vshmem_mem::{Deadline, Ordering, fence};
use vshmem_sync::Decision::{self, Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn, WaitEnd, decide_with_lock, read_if_free};
use vshmem_wire::{
    DomainSlot, LockAnswer, LockClass, LockMode, LockRowHead, LockRowKind, Place, RawCell,
    Registry, field,
};

use crate::claims::pieces::{LockRange, MOST_GAPS, MOST_PIECES};
use crate::claims::rows::{self, Found, LockPlace, LockedObject, Row, Rows};
use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::futex::{Bucket, wait, wake};
use crate::registry::table;
use crate::shm::posix::object;

/// A lock that a program asks for, or asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRequest {
    /// The object's id.
    pub id: i32,
    /// Inode number of the file behind the descriptor.
    pub inode: u64,
    /// The descriptor, by which the agent finds the file.
    pub file: u32,
    /// Which of the two kinds of lock.
    pub class: LockClass,
    /// Whether others may have it as well.
    pub mode: LockMode,
    /// The bytes.
    pub range: LockRange,
    /// Whether the call waits for those who hold it.
    pub blocks: bool,
}

/// A row by which this client asks for a claim, or keeps one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWant(u32);

/// What a client has of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// This place alone may grant locks.
    Alone,
    /// The claim stays until the want is given back.
    Kept(LockWant),
    /// Another place may have granted it: its agent is asked.
    Asked(LockWant),
}

/// What has become of a want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The claim stays until the want is given back.
    Kept,
    /// A lock that conflicts is held elsewhere. The want has gone.
    Held(LockMode, LockRange),
    /// Not yet known.
    Asked,
}

pub(crate) fn table_lock(context: &Context) -> Place<RawCell> {
    field!(context.pool().layout().registry, Registry, lock_table)
}

/// Domains whose agents are rung: as many as rows in the way.
type Domains = ArrayVec<u32, MOST_PIECES>;

/// How often a look is repeated that a change has overtaken.
const LOOKS: u32 = 8;

impl LockRequest {
    pub(crate) fn of(&self, context: &Context) -> Result<LockedObject, Failure> {
        let object = object::find(context, self.id)?;
        let generation = table::generation(context.pool().map(), object.slot.header())?;
        Ok(LockedObject { index: object.object_slot.index, generation, class: self.class })
    }

    fn place(&self, context: &Context) -> LockPlace {
        let epoch = LockRowHead::epoch_of(context.epoch());
        LockPlace { domain: context.domain(), epoch, inode: self.inode }
    }

    fn file_word(&self, context: &Context) -> u64 {
        u64::from(context.process_ref().pid) << 32 | u64::from(self.file)
    }
}

fn is_alone(row: &Row, of: LockedObject, place: LockPlace) -> bool {
    row.is_claim()
        && row.of == of
        && row.place == place
        && (row.range, row.mode) == (LockRange::WHOLE, LockMode::Exclusive)
}

/// Whether this place alone may grant locks, as far as can be seen without the lock of the table.
/// `hint` is where the row was seen last.
///
/// Behind the kernel's lock, this is the look that the agent's probe pairs with.
pub(crate) fn is_sole(
    context: &Context,
    request: &LockRequest,
    hint: &mut u32,
) -> Result<bool, Failure> {
    if !context.is_current() {
        return Err(Fault::Evicted.into());
    }
    let (of, place) = (request.of(context)?, request.place(context));
    let map = context.pool().map();
    let mut get = |at: Place<RawCell>| Ok(map.load(at.word(), Ordering::SeqCst)?);
    fence(Ordering::SeqCst);
    for _ in 0..LOOKS {
        let seen = read_if_free(map, table_lock(context), || {
            let is_row = |row: Option<Row>| row.is_some_and(|row| is_alone(&row, of, place));
            if u64::from(*hint) < context.pool().layout().locks.count
                && is_row(rows::read(context, &mut get, *hint)?)
            {
                return Ok(true);
            }
            let mut found = None;
            Rows::new(context, &mut get)?.each(&mut get, &mut |row| {
                if is_alone(&row, of, place) {
                    found = Some(row.index);
                }
            })?;
            *hint = found.unwrap_or(*hint);
            Ok(found.is_some())
        })?;
        if let Some(seen) = seen {
            return Ok(seen);
        }
        vshmem_mem::spin_hint();
    }
    Ok(false)
}

/// Takes the claim for a lock, or asks for it.
pub(crate) fn ask(context: &Context, request: &LockRequest) -> Result<Claimed, Failure> {
    let (of, place) = (request.of(context)?, request.place(context));
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut rung = Domains::new();
    let claimed = change(context, &lock_context, "lock-ask", |txn| {
        let found = rows::find(txn, context, of, place, (request.range, request.mode))?;
        let is_free = found.against.is_empty();
        if is_free && let Err(errno) = take(txn, context, request, (of, place), &found)? {
            return Ok(Abandon(errno));
        }
        if !found.is_contested {
            return Ok(Commit(Claimed::Alone));
        }
        let answer = if is_free { LockAnswer::Granted } else { LockAnswer::Asked };
        let Some(want) = enter(txn, context, request, (of, place), answer)? else {
            return Ok(Abandon(Errno::NOLCK));
        };
        rung = ring_all(txn, context, &found)?;
        Ok(Commit(if is_free { Claimed::Kept(want) } else { Claimed::Asked(want) }))
    })?;
    drop(slot_guard);
    wake_agents(context, &rung)?;
    Ok(claimed)
}

/// A change of the lock table; one that is too long is refused as one for which there is no row.
pub(super) fn change<'a, T>(
    context: &Context,
    lock_context: &LockContext<'a>,
    name: &'static str,
    body: impl FnMut(&mut Txn<'a>) -> ChangeResult<T>,
) -> Result<T, Failure> {
    match decide_with_lock(*lock_context, table_lock(context), name, body) {
        Err(Failure::Fault(Fault::TooLong)) => Err(Errno::NOLCK.into()),
        done => done,
    }
}

/// Raises what the place may grant, as far as nobody else has anything there.
fn take(
    txn: &mut Txn<'_>,
    context: &Context,
    request: &LockRequest,
    (of, place): (LockedObject, LockPlace),
    found: &Found,
) -> Result<Result<(), Errno>, Fault> {
    let (range, mode) = if found.is_contested {
        (request.range, request.mode)
    } else {
        (LockRange::WHOLE, LockMode::Exclusive)
    };
    let mut pieces = rows::pieces_of(&found.own);
    if pieces.raise(range, mode).is_err() {
        return Ok(Err(Errno::NOLCK));
    }
    let file = request.file_word(context);
    let replaced = rows::replace(txn, context, &found.own, (of, place, file), &pieces)?;
    Ok(replaced.map_err(|rows::Full| Errno::NOLCK))
}

/// Enters a want. `None` when there is no row left.
fn enter(
    txn: &mut Txn<'_>,
    context: &Context,
    request: &LockRequest,
    (of, place): (LockedObject, LockPlace),
    answer: LockAnswer,
) -> Result<Option<LockWant>, Fault> {
    let Some(index) = rows::take(txn, context)? else { return Ok(None) };
    let kind = LockRowKind::Want { blocks: request.blocks };
    let (range, mode) = (request.range, request.mode);
    let (client, file) = (context.client_id().word(), request.file_word(context));
    rows::write(txn, context, &Row { index, kind, of, place, range, mode, client, file, answer })?;
    let wants = field!(context.pool().layout().registry, Registry, lock_wants);
    let before = txn.get(wants)?;
    txn.set(wants, before.saturating_add(1))?;
    Ok(Some(LockWant(index)))
}

/// Rings the agents of those whose claims are in the way.
fn ring_all(txn: &mut Txn<'_>, context: &Context, found: &Found) -> Result<Domains, Fault> {
    let mut domains = Domains::new();
    for row in &found.against {
        if !domains.contains(&row.place.domain) {
            domains.push(row.place.domain);
            rows::ring(txn, context, row.place.domain)?;
        }
    }
    Ok(domains)
}

/// Wakes the agents of domains whose bells were rung.
pub(super) fn wake_agents(context: &Context, domains: &[u32]) -> Result<(), Failure> {
    for domain in domains {
        let slot = context.pool().layout().domains.row(*domain)?;
        wake::wake_cell(context, field!(slot, DomainSlot, lock_bell))?;
    }
    Ok(())
}

/// The want of this client in a row, if it is still there.
fn own_want(txn: &mut Txn<'_>, context: &Context, want: LockWant) -> Result<Option<Row>, Fault> {
    let row = rows::read(context, &mut |at| txn.get_word(at), want.0)?;
    Ok(row.filter(|row| !row.is_claim() && row.client == context.client_id().word()))
}

/// What has become of a want. One that is not answered is granted here if nothing is in the way any
/// more.
pub(crate) fn settle(
    context: &Context,
    request: &LockRequest,
    want: LockWant,
) -> Result<Settled, Failure> {
    let (of, place) = (request.of(context)?, request.place(context));
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut rung = Domains::new();
    let settled = change(context, &lock_context, "lock-settle", |txn| {
        let Some(row) = own_want(txn, context, want)? else { return Ok(Abandon(Errno::NOLCK)) };
        match row.answer {
            LockAnswer::Granted => return Ok(Commit(Settled::Kept)),
            LockAnswer::Held(mode) => {
                rows::free(txn, context, &row)?;
                return Ok(Commit(Settled::Held(mode, row.range)));
            }
            LockAnswer::Asked => {}
        }
        let found = rows::find(txn, context, of, place, (request.range, request.mode))?;
        if !found.against.is_empty() {
            rung = ring_all(txn, context, &found)?;
            return Ok(Commit(Settled::Asked));
        }
        if let Err(errno) = take(txn, context, request, (of, place), &found)? {
            return Ok(Decision::Abandon(errno));
        }
        rows::write(txn, context, &Row { answer: LockAnswer::Granted, ..row })?;
        Ok(Commit(Settled::Kept))
    })?;
    drop(slot_guard);
    wake_agents(context, &rung)?;
    Ok(settled)
}

/// Gives a want back. The clients that wait for the claim are told.
pub(crate) fn give_back(context: &Context, want: LockWant) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let others = change(context, &lock_context, "lock-give-back", |txn| {
        let Some(row) = own_want(txn, context, want)? else { return Ok(Commit(false)) };
        rows::free(txn, context, &row)?;
        let wants = field!(context.pool().layout().registry, Registry, lock_wants);
        let others = txn.get(wants)? > 0;
        if others {
            rows::ring(txn, context, context.domain())?;
        }
        Ok(Commit(others))
    })?;
    drop(slot_guard);
    if others { wake_agents(context, &[context.domain()]) } else { Ok(()) }
}

/// Sleeps until a want is answered.
pub(crate) fn wait_for_answer(
    context: &Context,
    want: LockWant,
    deadline: Deadline,
    signals_seen: u32,
) -> Result<WaitEnd, Failure> {
    let map = context.pool().map();
    let at = rows::answer_cell(context, want.0)?;
    let asked = LockAnswer::Asked.pack();
    let mut waits = || map.load(at.word(), Ordering::SeqCst).is_ok_and(|word| word == asked);
    let bucket = Bucket::of_cell(context.pool().layout(), at)?;
    wait::wait_in(context, (bucket, at.offset()), &mut waits, Some(deadline), signals_seen)
}

/// The parts of a lock for which the place has no claim.
pub(crate) fn uncovered(
    context: &Context,
    request: &LockRequest,
) -> Result<ArrayVec<LockRange, MOST_GAPS>, Failure> {
    let (of, place) = (request.of(context)?, request.place(context));
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change(context, &lock_context, "lock-uncovered", |txn| {
        let found = rows::find(txn, context, of, place, (request.range, request.mode))?;
        Ok(Commit(rows::pieces_of(&found.own).gaps(request.range, request.mode)))
    })
}

/// After a lock was given up: agents for which somebody waits look again.
pub(crate) fn ring_own_agent(context: &Context) -> Result<(), Failure> {
    if rows::are_wanted(context)? { ring_own(context) } else { Ok(()) }
}

/// Gives this domain's agent a reason to look.
pub(crate) fn ring_own(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change(context, &lock_context, "lock-ring", |txn| {
        rows::ring(txn, context, context.domain())?;
        Ok(Commit(()))
    })?;
    drop(slot_guard);
    wake_agents(context, &[context.domain()])
}

/// How often this domain's agent has begun and ended to hold a lock itself: odd while it does.
pub(crate) fn probes(context: &Context) -> Result<u32, Failure> {
    let slot = context.pool().layout().domains.row(context.domain())?;
    let at = field!(slot, DomainSlot, lock_probe);
    Ok(context.pool().map().load(at.word(), Ordering::SeqCst).map_err(Fault::from)? as u32)
}
