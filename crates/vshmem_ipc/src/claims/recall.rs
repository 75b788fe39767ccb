//! An agent's half: what other places want of the claims of its domain.

use rustix::io::Errno;
use vshmem_mem::{Deadline, Ordering, signals_handled};
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, Txn, WaitEnd, claim_word, load_word};
use vshmem_wire::{
    DomainSlot, LockAnswer, LockClass, LockMode, LockRowHead, LockRowKind, Place, RawCell,
    Registry, field,
};

use crate::claims::ask::{change, wake_agents};
use crate::claims::pieces::LockRange;
use crate::claims::rows::{self, LockPlace, Row, Rows};
use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::futex::{Bucket, wait, wake};
use crate::pool::id::{Kind, ObjectSlot};
use crate::registry::table;

/// What one place of this domain is asked to give up for another place's want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recall {
    want: Row,
    place: LockPlace,
    /// The object's id.
    pub id: i32,
    /// Inode number of the place's file.
    pub inode: u64,
    /// A process of this domain that had it open, and the number of its descriptor.
    pub open_in: (u32, u32),
    /// Which of the two kinds of lock.
    pub class: LockClass,
    /// What is wanted.
    pub mode: LockMode,
    /// Which bytes of the place's claim.
    pub range: LockRange,
    /// Whether the client waits for those who hold a lock there.
    pub blocks: bool,
}

/// What has become of a want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The claim has gone over, or was given up for a want that needs more than this.
    Up,
    /// A client of this domain is about to use it.
    InUse,
    /// Nobody wants it any more.
    Unwanted,
}

fn own_epoch(context: &Context) -> u32 {
    LockRowHead::epoch_of(context.epoch())
}

/// All that is wanted of this domain now.
pub(crate) fn recalls(context: &Context) -> Result<Vec<Recall>, Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let rows = change(context, &lock_context, "lock-look", |txn| {
        let mut found = Vec::new();
        let mut get = |at| txn.get_word(at);
        Rows::new(context, &mut get)?.each(&mut get, &mut |row| found.push(row))?;
        Ok(Commit(found))
    })?;
    let is_here = |row: &&Row| {
        row.is_claim()
            && row.place.domain == context.domain()
            && row.place.epoch == own_epoch(context)
    };
    let wants =
        rows.iter().filter(|row| !row.is_claim() && row.answer == LockAnswer::Asked).copied();
    let mut recalls = Vec::new();
    for want in wants {
        let in_the_way = rows.iter().filter(is_here).filter(|claim| {
            claim.of == want.of
                && claim.place != want.place
                && claim.conflicts(want.range, want.mode)
        });
        for claim in in_the_way {
            recalls.extend(recall_of(context, want, claim)?);
        }
    }
    Ok(recalls)
}

fn recall_of(context: &Context, want: Row, claim: &Row) -> Result<Option<Recall>, Failure> {
    if !rows::is_alive(context, claim.of)? {
        return Ok(None);
    }
    let slot = Kind::Segment.row(context.pool().layout(), claim.of.index)?;
    let sequence = table::slot_state(context.pool().map(), slot)?.sequence;
    Ok(Some(Recall {
        want,
        place: claim.place,
        id: ObjectSlot { index: claim.of.index, sequence }.id(),
        inode: claim.place.inode,
        open_in: ((claim.file >> 32) as u32, claim.file as u32),
        class: claim.of.class,
        mode: want.mode,
        range: claim.range.common(want.range),
        blocks: want.kind == LockRowKind::Want { blocks: true },
    }))
}

/// The want of a recall, if it is as it was.
fn current_want(
    txn: &mut Txn<'_>,
    context: &Context,
    recall: &Recall,
) -> Result<Option<Row>, Fault> {
    let row = rows::read(context, &mut |at| txn.get_word(at), recall.want.index)?;
    Ok(row.filter(|row| *row == recall.want))
}

/// Gives the claim up, while this process holds the lock itself, so that no other process of the
/// domain does. The want is granted if nothing else is in its way.
pub(crate) fn give_up(context: &Context, recall: &Recall) -> Result<Given, Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut rung = None;
    let given = change(context, &lock_context, "lock-give-up", |txn| {
        rung = None;
        give_up_in(txn, context, recall, &mut rung)
    })?;
    drop(slot_guard);
    if given == Given::Up {
        wake::wake_cell(context, rows::answer_cell(context, recall.want.index)?)?;
        wake_agents(context, rung.as_slice())?;
    }
    Ok(given)
}

fn give_up_in(
    txn: &mut Txn<'_>,
    context: &Context,
    recall: &Recall,
    rung: &mut Option<u32>,
) -> ChangeResult<Given> {
    let Some(want) = current_want(txn, context, recall)? else {
        return Ok(Commit(Given::Unwanted));
    };
    let (mut is_kept, mut others) = (false, false);
    let mut get = |at| txn.get_word(at);
    Rows::new(context, &mut get)?.each(&mut get, &mut |row| {
        if row.of == want.of && !row.is_claim() && row.index != want.index {
            let is_granted = row.answer == LockAnswer::Granted;
            is_kept |=
                is_granted && row.place == recall.place && row.conflicts(recall.range, recall.mode);
            others |= !is_granted;
        }
    })?;
    if is_kept {
        return Ok(Commit(Given::InUse));
    }
    let what = (recall.range, recall.mode);
    let found = rows::find(txn, context, want.of, recall.place, what)?;
    let mut pieces = rows::pieces_of(&found.own);
    let left = (recall.mode == LockMode::Shared).then_some(LockMode::Shared);
    if pieces.lower(recall.range, left).is_err() {
        return Ok(Abandon(Errno::NOLCK));
    }
    let file = found.own.first().map_or(0, |row| row.file);
    let place = (want.of, recall.place, file);
    if rows::replace(txn, context, &found.own, place, &pieces)?.is_err() {
        return Ok(Abandon(Errno::NOLCK));
    }
    *rung = grant_if_free(txn, context, &want, others)?;
    Ok(Commit(Given::Up))
}

/// Grants a want, if nothing is in its way any more. Returns the domain that is to be rung, as
/// others want something of it.
fn grant_if_free(
    txn: &mut Txn<'_>,
    context: &Context,
    want: &Row,
    others: bool,
) -> Result<Option<u32>, Fault> {
    let found = rows::find(txn, context, want.of, want.place, (want.range, want.mode))?;
    let mut pieces = rows::pieces_of(&found.own);
    let place = (want.of, want.place, want.file);
    // Where there is no room for it, the client finds it free, and is told so itself.
    let is_granted = found.against.is_empty()
        && pieces.raise(want.range, want.mode).is_ok()
        && rows::replace(txn, context, &found.own, place, &pieces)?.is_ok();
    if !is_granted {
        return Ok(None);
    }
    rows::write(txn, context, &Row { answer: LockAnswer::Granted, ..*want })?;
    if others {
        rows::ring(txn, context, want.place.domain)?;
    }
    Ok(others.then_some(want.place.domain))
}

/// Says that a lock is held which is in the way, to a client that does not wait.
pub(crate) fn refuse(
    context: &Context,
    recall: &Recall,
    mode: LockMode,
    range: LockRange,
) -> Result<(), Failure> {
    if recall.blocks || !range.is_valid() {
        return Ok(());
    }
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change(context, &lock_context, "lock-refuse", |txn| {
        if let Some(want) = current_want(txn, context, recall)? {
            rows::write(txn, context, &Row { range, answer: LockAnswer::Held(mode), ..want })?;
        }
        Ok(Commit(()))
    })?;
    drop(slot_guard);
    wake::wake_cell(context, rows::answer_cell(context, recall.want.index)?)?;
    Ok(())
}

/// Removes the claims of a place that no process of this domain has open any more.
pub(crate) fn forget_place(context: &Context, recall: &Recall) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let mut rung = None;
    change(context, &lock_context, "lock-forget", |txn| {
        let what = (recall.range, recall.mode);
        let found = rows::find(txn, context, recall.want.of, recall.place, what)?;
        for row in &found.own {
            rows::free(txn, context, row)?;
        }
        rung = match current_want(txn, context, recall)? {
            Some(want) => grant_if_free(txn, context, &want, true)?,
            None => None,
        };
        Ok(Commit(()))
    })?;
    drop(slot_guard);
    wake::wake_cell(context, rows::answer_cell(context, recall.want.index)?)?;
    wake_agents(context, rung.as_slice())
}

fn own_cell(
    context: &Context,
    field: impl Fn(Place<DomainSlot>) -> Place<RawCell>,
) -> Result<Place<RawCell>, Failure> {
    Ok(field(context.pool().layout().domains.row(context.domain())?))
}

/// Says that this process is about to hold locks that are nobody's, or does not any more.
pub(crate) fn probe(context: &Context, begins: bool) -> Result<(), Failure> {
    let map = context.pool().map();
    let at = own_cell(context, |slot| field!(slot, DomainSlot, lock_probe))?;
    let before = load_word(map, at)?;
    if (before & 1 == 1) != begins {
        claim_word(map, at, before, u64::from((before as u32).wrapping_add(1)))?;
    }
    Ok(())
}

/// How often this domain's agent was rung.
pub(crate) fn bell(context: &Context) -> Result<u32, Failure> {
    let at = own_cell(context, |slot| field!(slot, DomainSlot, lock_bell))?;
    Ok(load_word(context.pool().map(), at)? as u32)
}

/// How many rows of the lock table were ever used.
pub(crate) fn rows_used(context: &Context) -> Result<u32, Failure> {
    let at = field!(context.pool().layout().registry, Registry, lock_rows);
    Ok(load_word(context.pool().map(), at)? as u32)
}

/// Sleeps until it is rung again.
pub(crate) fn wait_for_bell(
    context: &Context,
    seen: u32,
    deadline: Deadline,
) -> Result<WaitEnd, Failure> {
    let map = context.pool().map();
    let at = own_cell(context, |slot| field!(slot, DomainSlot, lock_bell))?;
    let mut waits = || map.load(at.word(), Ordering::SeqCst).is_ok_and(|bell| bell as u32 == seen);
    let bucket = Bucket::of_cell(context.pool().layout(), at)?;
    let place = (bucket, at.offset());
    wait::wait_in(context, place, &mut waits, Some(deadline), signals_handled())
}
