//! ftruncate(2) of an object.
//!
//! Bytes behind the end of an object read as zeros when it grows over them: new memory is zeroed
//! before the object gets it, and what is cut off is zeroed before the object is shorter. Both are
//! done without the lock. Afterwards the thread looks at the tag of the size's cell, which every
//! change of the size raises: if another thread was faster, it begins again.
//!
//! Memory moves only while no client has the object attached. So growing beyond the memory that it
//! has fails with ENOSPC otherwise: the errno of a full file system, which a program that makes a
//! file longer has to expect anyway.

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit, CommitThenFail};
use vshmem_sync::{Fault, LockContext, Txn, crash_point};
use vshmem_wire::{AttachCount, Layout, PAGE_BYTES, Place, ShmSlot, field};

use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::memory::backing::Backing;
use crate::memory::change;
use crate::memory::extents::{self, Extent};
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::registry::attach_records::count_at;
use crate::registry::table::{self, MOST_TRIES};
use crate::shm::create;
use crate::shm::posix::object::{self, Object};
use crate::shm::record::{attach, detach, extent_of};
use crate::shm::segment::at;

/// What a change of the size still takes.
#[derive(Debug, Clone, Copy)]
enum Remaining {
    /// Nothing.
    Done,
    /// Zeros from the new end to the old one; the object is attached once more for it.
    Cut(Seen),
    /// More memory.
    Grow(Seen),
}

/// An object as a change of its size found it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    bytes: u64,
    extent: Option<Extent>,
    /// Tag of the size's cell.
    size_tag: u64,
    /// Tag of the cell that counts attaches.
    attached_tag: u64,
}

/// Sets the bytes of an object.
pub(crate) fn set_size(
    context: &Context,
    id: i32,
    bytes: u64,
    backing: &dyn Backing,
) -> Result<(), Failure> {
    change_size(context, id, bytes, None, backing)
}

/// Makes an object that long at least. If its memory has to move, it gets so much more: who writes
/// piece by piece would have it copied for each.
pub(crate) fn extend(
    context: &Context,
    id: i32,
    bytes: u64,
    spare: u64,
    backing: &dyn Backing,
) -> Result<(), Failure> {
    change_size(context, id, bytes, Some(spare), backing)
}

/// `spare`: what more it is to get where it may only grow.
fn change_size(
    context: &Context,
    id: i32,
    bytes: u64,
    spare: Option<u64>,
    backing: &dyn Backing,
) -> Result<(), Failure> {
    pages_of(context, bytes)?;
    let most = context.pool().geometry().shmmax.max(bytes);
    let pages = pages_of(context, bytes.saturating_add(spare.unwrap_or(0)).min(most))?;
    for _ in 0..MOST_TRIES {
        let object = object::find(context, id)?;
        let slot_guard = context.slot_guard()?;
        let lock_context = context.lock_context_of(&slot_guard);
        let lock = context.pool().registry_lock();
        let begun = change::decide(context, &lock_context, lock, "shm-size", |txn| {
            begin(context, txn, object, bytes, spare.is_none())
        })?;
        let done = match begun {
            Remaining::Done => true,
            Remaining::Cut(seen) => cut(context, &lock_context, object, seen, bytes, backing)?,
            Remaining::Grow(seen) => {
                let new = New { bytes, pages };
                grow(context, &lock_context, object, seen, new, backing)?
            }
        };
        if done {
            return Ok(());
        }
    }
    Err(Errno::AGAIN.into())
}

/// Pages that an object of so many bytes takes.
pub(super) fn pages_of(context: &Context, bytes: u64) -> Result<u32, Errno> {
    if bytes > context.pool().geometry().shmmax {
        return Err(Errno::FBIG);
    }
    u32::try_from(bytes.div_ceil(PAGE_BYTES)).map_err(|_| Errno::NOSPC)
}

/// Sets the size if no memory has to be written for it.
fn begin(
    context: &Context,
    txn: &mut Txn<'_>,
    object: Object,
    bytes: u64,
    may_cut: bool,
) -> ChangeResult<Remaining> {
    let (layout, slot) = (context.pool().layout(), object.slot);
    if !object.is_alive(txn)? {
        return Ok(Abandon(Errno::INVAL));
    }
    let used = count_at(txn, at!(slot, attached))?;
    let seen = Seen {
        bytes: size_in(txn, slot)?,
        extent: extent_of(txn, layout, slot)?,
        size_tag: txn.cell(at!(slot, size_low))?.tag,
        attached_tag: txn.cell(at!(slot, attached))?.tag,
    };
    let room = seen.extent.map_or(0, |extent| u64::from(extent.pages) * PAGE_BYTES);
    if seen.bytes > room {
        return Err(Fault::corrupt(slot, "an object longer than its memory"));
    }
    if bytes <= seen.bytes && !may_cut {
        return Ok(Commit(Remaining::Done));
    }
    if bytes == 0 && used.attached == 0 {
        if let Some(extent) = seen.extent {
            extents::release(txn, layout, extent)?;
            give_extent(txn, slot, Extent { slot: 0, first: 0, pages: 0 })?;
        }
    } else if bytes < seen.bytes {
        let one = AttachCount::mappings(1);
        let counted = attach(txn, layout, context.client_id(), object.object_slot.index, one)?;
        if !counted {
            return Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NOMEM)));
        }
        return Ok(Commit(Remaining::Cut(seen)));
    } else if bytes > room {
        let may_move = used.attached == 0;
        return Ok(if may_move { Commit(Remaining::Grow(seen)) } else { Abandon(Errno::NOSPC) });
    }
    set_bytes(txn, slot, bytes)?;
    Ok(Commit(Remaining::Done))
}

/// Writes zeros over what is cut off, and makes the object shorter. False when another thread has
/// set its size meanwhile.
fn cut(
    context: &Context,
    lock_context: &LockContext<'_>,
    object: Object,
    seen: Seen,
    bytes: u64,
    backing: &dyn Backing,
) -> Result<bool, Failure> {
    let (layout, slot) = (context.pool().layout(), object.slot);
    let first = seen.extent.map_or(0, |extent| extent.first);
    let zeroed = backing.zero(address(layout, first) + bytes, seen.bytes - bytes);
    crash_point("shm-size", "zeroed");
    let lock = context.pool().registry_lock();
    change::decide(context, lock_context, lock, "shm-cut", |txn| {
        let one = AttachCount::mappings(1);
        if !detach(txn, layout, context.client_id(), object.object_slot.index, one)? {
            return Ok(Abandon(Errno::INVAL));
        }
        // The last attach of an object that was unlinked meanwhile takes it with it, unless this
        // process has it open, as it should.
        if !object.is_alive(txn)? {
            return Ok(Commit(true));
        }
        let same = txn.cell(at!(slot, size_low))?.tag == seen.size_tag;
        if same && zeroed.is_ok() {
            set_bytes(txn, slot, bytes)?;
        }
        // The attach that was counted for the zeros ends also where they could not be written.
        Ok(zeroed.map_or_else(CommitThenFail, |()| Commit(same)))
    })
}

/// What an object is to be.
#[derive(Debug, Clone, Copy)]
struct New {
    bytes: u64,
    pages: u32,
}

/// Takes memory in a slot of its own, as a segment in the making, and passes it to the object.
/// False when another thread has changed the object meanwhile.
fn grow(
    context: &Context,
    lock_context: &LockContext<'_>,
    object: Object,
    seen: Seen,
    new: New,
    backing: &dyn Backing,
) -> Result<bool, Failure> {
    let layout = context.pool().layout();
    let (object_slot, extent) =
        create::begin_patiently(context, lock_context, new.pages, None, backing)?;
    let grown = create::ready_pages(context, extent, backing).and_then(|()| {
        if let Some(old) = seen.extent.filter(|_| seen.bytes > 0) {
            backing.copy(
                address(layout, old.first),
                address(layout, extent.first),
                seen.bytes.next_multiple_of(PAGE_BYTES),
            )?;
        }
        crash_point("shm-size", "copied");
        pass_memory(context, lock_context, object, seen, new.bytes, (object_slot, extent))
    });
    if !matches!(grown, Ok(true)) {
        create::abandon_segment(context, lock_context, object_slot);
    }
    grown
}

/// Gives an object the memory of a segment in the making, which ends, and the old memory back.
fn pass_memory(
    context: &Context,
    lock_context: &LockContext<'_>,
    object: Object,
    seen: Seen,
    bytes: u64,
    (from, extent): (ObjectSlot, Extent),
) -> Result<bool, Failure> {
    let (layout, slot) = (context.pool().layout(), object.slot);
    let lock = context.pool().registry_lock();
    change::decide(context, lock_context, lock, "shm-grow", |txn| {
        if !object.is_alive(txn)? {
            return Ok(Abandon(Errno::INVAL));
        }
        // What was copied is what the object holds: nobody had it attached in between.
        let copied = seen.bytes == 0 || txn.cell(at!(slot, attached))?.tag == seen.attached_tag;
        let same = txn.cell(at!(slot, size_low))?.tag == seen.size_tag;
        if !copied || !same || count_at(txn, at!(slot, attached))?.attached > 0 {
            return Ok(Commit(false));
        }
        if let Some(old) = seen.extent {
            extents::release(txn, layout, old)?;
        }
        let maker = layout.shm.row(from.index)?;
        txn.set(at!(maker, maker), 0)?;
        table::end_task(txn, Kind::Segment, from.index)?;
        table::free_slot(txn, layout, Kind::Segment, from.index)?;
        give_extent(txn, slot, extent)?;
        set_bytes(txn, slot, bytes)?;
        Ok(Commit(true))
    })
}

/// Where a data page lies in the pool.
pub(super) fn address(layout: &Layout, page: u32) -> u64 {
    layout.data.offset() + u64::from(page) * PAGE_BYTES
}

fn size_in(txn: &mut Txn<'_>, slot: Place<ShmSlot>) -> Result<u64, Fault> {
    let low = txn.get(at!(slot, size_low))?;
    let high = txn.get(at!(slot, size_high))?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

/// Raises the tag of the size's cell, also where the size stays as it is.
fn set_bytes(txn: &mut Txn<'_>, slot: Place<ShmSlot>, bytes: u64) -> Result<(), Fault> {
    txn.set(at!(slot, size_low), bytes as u32)?;
    txn.update(at!(slot, size_high), (bytes >> 32) as u32)?;
    txn.update(field!(slot, ShmSlot, header.changed), seconds_now())
}

fn give_extent(txn: &mut Txn<'_>, slot: Place<ShmSlot>, extent: Extent) -> Result<(), Fault> {
    txn.update(at!(slot, first_page), extent.first)?;
    txn.update(at!(slot, pages), extent.pages)?;
    txn.update(at!(slot, extent), extent.slot)
}
