//! shm_open(3).

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn};
use vshmem_wire::{AttachCount, Layout, ObjectState, PERM_BITS, ShmSlot, field};

use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::memory::backing::Backing;
use crate::memory::{change, chunks};
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::registry::name::{self, Name, NewName};
use crate::registry::permission::{Caller, Permission, access_bits};
use crate::registry::table::{self, MOST_TRIES, SlotState};
use crate::shm::create;
use crate::shm::posix::object::PosixOpen;
use crate::shm::posix::{descriptors, size};
use crate::shm::record::attach;
use crate::shm::segment::at;

/// What a new object has before others find it.
#[derive(Clone, Copy)]
pub struct Beginning<'a> {
    /// Bytes, zeroed.
    pub bytes: u64,
    /// Given the offset of its memory in the pool, writes what is not zero. Not called for an
    /// object without a byte.
    pub fill: &'a dyn Fn(u64) -> Result<(), Errno>,
}

impl std::fmt::Debug for Beginning<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beginning").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Opens the object of a name, or makes it, and counts one descriptor.
pub(crate) fn open(
    context: &Context,
    bytes_of_name: &[u8],
    how: PosixOpen,
    beginning: Beginning<'_>,
    caller: &dyn Caller,
    backing: &dyn Backing,
) -> Result<i32, Failure> {
    let name = Name::of(bytes_of_name)?;
    for _ in 0..MOST_TRIES {
        let slot_guard = context.slot_guard()?;
        let lock_context = context.lock_context_of(&slot_guard);
        let found = open_existing(context, &lock_context, name, how, caller)?;
        if let Some(object_slot) = found {
            drop(slot_guard);
            if how.truncate
                && let Err(failure) = size::set_size(context, object_slot.id(), 0, backing)
            {
                let _ = descriptors::close(context, object_slot.id());
                return Err(failure);
            }
            return Ok(object_slot.id());
        }
        if !how.create {
            return Err(Errno::NOENT.into());
        }
        let memory = take_memory(context, &lock_context, beginning, backing)?;
        let made = make_named(context, &lock_context, name, how.mode, memory, caller);
        if let Some(memory) = memory.filter(|_| !matches!(made, Ok(Some(_)))) {
            create::abandon_segment(context, &lock_context, memory.object_slot);
        }
        if let Some(object_slot) = made? {
            return Ok(object_slot.id());
        }
    }
    let keys = context.pool().layout().keys[Kind::Segment as usize];
    Err(Fault::corrupt(keys.first(), "a name that is found and is no object's").into())
}

/// Opens an object that is there. `None`: there is none of that name.
fn open_existing(
    context: &Context,
    lock_context: &LockContext<'_>,
    name: Name<'_>,
    how: PosixOpen,
    caller: &dyn Caller,
) -> Result<Option<ObjectSlot>, Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let wanted = access_bits((how.read, how.write || how.truncate));
    change::decide(context, lock_context, pool.registry_lock(), "shm-open", |txn| {
        let Some(object_slot) = name::find(txn, layout, Kind::Segment, name)? else {
            return Ok(Commit(None));
        };
        if how.create && how.exclusive {
            return Ok(Abandon(Errno::EXIST));
        }
        let slot = layout.shm.row(object_slot.index)?;
        if let Err(errno) = Permission::read(pool.map(), slot.header())?.allow_file(caller, wanted)
        {
            return Ok(Abandon(errno));
        }
        count_descriptor(context, txn, layout, object_slot)
            .map(|counted| counted.map(|()| Some(object_slot)))
    })
}

/// A slot that is `Creating`, with the memory that a new object is to have.
#[derive(Debug, Clone, Copy)]
struct Memory {
    object_slot: ObjectSlot,
    bytes: u64,
}

/// Takes a slot and memory for a new object, and fills it. `None` for an object without a byte.
fn take_memory(
    context: &Context,
    lock_context: &LockContext<'_>,
    beginning: Beginning<'_>,
    backing: &dyn Backing,
) -> Result<Option<Memory>, Failure> {
    let bytes = beginning.bytes;
    if bytes == 0 {
        return Ok(None);
    }
    let pages = size::pages_of(context, bytes)?;
    let (object_slot, extent) =
        create::begin_patiently(context, lock_context, pages, None, backing)?;
    let offset = size::address(context.pool().layout(), extent.first);
    let filled = create::ready_pages(context, extent, backing)
        .and_then(|()| (beginning.fill)(offset).map_err(Failure::from));
    if filled.is_err() {
        create::abandon_segment(context, lock_context, object_slot);
    }
    filled.map(|()| Some(Memory { object_slot, bytes }))
}

/// Makes an object, open in this process. `None` when another thread has made one meanwhile.
fn make_named(
    context: &Context,
    lock_context: &LockContext<'_>,
    name: Name<'_>,
    mode: u32,
    memory: Option<Memory>,
    caller: &dyn Caller,
) -> Result<Option<ObjectSlot>, Failure> {
    let new = name::lay(context, lock_context, name)?;
    let made = make_object(context, lock_context, new, mode, memory, caller);
    if !matches!(made, Ok(Some(_))) {
        let _ = chunks::release(context, lock_context, new.chunk);
    }
    made
}

fn make_object(
    context: &Context,
    lock_context: &LockContext<'_>,
    new: NewName<'_>,
    mode: u32,
    memory: Option<Memory>,
    caller: &dyn Caller,
) -> Result<Option<ObjectSlot>, Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let permission = Permission::of_new(0, 0, caller);
    let permission = Permission { mode: mode & PERM_BITS, ..permission };
    change::decide(context, lock_context, pool.registry_lock(), "shm-make", |txn| {
        if name::find(txn, layout, Kind::Segment, new.name)?.is_some() {
            return Ok(Commit(None));
        }
        let object_slot = match memory {
            Some(memory) => {
                table::end_task(txn, Kind::Segment, memory.object_slot.index)?;
                Some(memory.object_slot)
            }
            None => take_bare_slot(txn, layout)?,
        };
        let Some(object_slot) = object_slot else {
            return Ok(Abandon(pool.full(limit_name!(shmmni), Errno::NOSPC)));
        };
        let slot = layout.shm.row(object_slot.index)?;
        table::describe(txn, slot.header(), &permission, seconds_now())?;
        table::begin_generation(txn, slot.header())?;
        let bytes = memory.map_or(0, |memory| memory.bytes);
        txn.update(at!(slot, size_low), bytes as u32)?;
        txn.update(at!(slot, size_high), (bytes >> 32) as u32)?;
        for cell in [at!(slot, attach_time), at!(slot, detach_time), at!(slot, last)] {
            txn.update(cell, 0)?;
        }
        for cell in [at!(slot, maker), at!(slot, attached)] {
            txn.update_word(cell, 0)?;
        }
        txn.update(at!(slot, creator), context.process_ref().pack())?;
        name::enter(context, txn, Kind::Segment, object_slot.index, new)?;
        let live = SlotState { state: ObjectState::Live as u32, sequence: object_slot.sequence };
        txn.set(field!(slot, ShmSlot, header.state), live.pack())?;
        count_descriptor(context, txn, layout, object_slot)
            .map(|counted| counted.map(|()| Some(object_slot)))
    })
}

/// A slot for an object without data pages. `None` when all are in use.
fn take_bare_slot(txn: &mut Txn<'_>, layout: &Layout) -> Result<Option<ObjectSlot>, Fault> {
    let Some(object_slot) = table::take_slot(txn, layout, Kind::Segment)? else { return Ok(None) };
    let slot = layout.shm.row(object_slot.index)?;
    for cell in [at!(slot, first_page), at!(slot, pages), at!(slot, extent)] {
        txn.update(cell, 0)?;
    }
    Ok(Some(object_slot))
}

/// One more descriptor of this process; ENFILE when there is no record left.
fn count_descriptor(
    context: &Context,
    txn: &mut Txn<'_>,
    layout: &Layout,
    object_slot: ObjectSlot,
) -> ChangeResult<()> {
    let one = AttachCount::descriptors(1);
    let counted = attach(txn, layout, context.client_id(), object_slot.index, one)?;
    if counted {
        return Ok(Commit(()));
    }
    Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NFILE)))
}
