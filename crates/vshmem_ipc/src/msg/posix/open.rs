//! mq_open(3): finds a queue by its name, or makes one. Either way the caller has one descriptor
//! more of it in the same step: so a queue that nobody can open any more has gone.

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn};
use vshmem_wire::{MsgSlot, ObjectState, field};

use crate::context::Context;
use crate::error::{ChangeResult, Failure};
use crate::memory::{change, chunks};
use crate::msg::create::{self, NewQueue};
use crate::msg::posix::attributes::QueueSize;
use crate::msg::posix::descriptors;
use crate::msg::queue::Queue;
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::registry::name::{self, Name, NewName};
use crate::registry::permission::{Caller, Permission, access_bits};
use crate::registry::table;

/// How mq_open(3) opens: the flags, the mode and the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOpen {
    /// For receiving.
    pub read: bool,
    /// For sending.
    pub write: bool,
    /// O_CREAT.
    pub create: bool,
    /// O_EXCL, which means something with O_CREAT alone.
    pub exclusive: bool,
    /// Mode of a new queue; the umask has been applied.
    pub mode: u32,
    /// Size of a new queue, or why it cannot be made so.
    pub size: Result<QueueSize, Errno>,
}

/// What is allowed in a queue of so many bytes: its limit is the number of messages.
const NO_LIMIT: u32 = u32::MAX;

/// mq_open(3), without the slash in front of the name. Counts one descriptor.
pub(crate) fn open(
    context: &Context,
    name: &[u8],
    how: &QueueOpen,
    caller: &dyn Caller,
) -> Result<i32, Failure> {
    let name = Name::of(name)?;
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    if let Some(object_slot) = open_existing(context, &lock_context, name, how, caller)? {
        return Ok(object_slot.id());
    }
    if !how.create {
        return Err(Errno::NOENT.into());
    }
    how.size?;
    let new = name::lay(context, &lock_context, name)?;
    let opened = make_or_open(context, &lock_context, new, how, caller);
    if !matches!(opened, Ok((_, true))) {
        let _ = chunks::release(context, &lock_context, new.chunk);
    }
    Ok(opened?.0.id())
}

fn open_existing(
    context: &Context,
    lock_context: &LockContext<'_>,
    name: Name<'_>,
    how: &QueueOpen,
    caller: &dyn Caller,
) -> Result<Option<ObjectSlot>, Failure> {
    let lock = context.pool().registry_lock();
    change::decide(context, lock_context, lock, "mq-open", |txn| {
        let Some(object_slot) = name::find(txn, context.pool().layout(), Kind::Queue, name)? else {
            return Ok(Commit(None));
        };
        Ok(count_in(context, txn, object_slot, how, caller)?.map(|()| Some(object_slot)))
    })
}

/// Makes the queue, if no other thread has been faster: it is new (true), or it is opened as it is.
fn make_or_open(
    context: &Context,
    lock_context: &LockContext<'_>,
    new: NewName<'_>,
    how: &QueueOpen,
    caller: &dyn Caller,
) -> Result<(ObjectSlot, bool), Failure> {
    let layout = context.pool().layout();
    let lock = context.pool().registry_lock();
    change::decide(context, lock_context, lock, "mq-make", |txn| {
        if let Some(object_slot) = name::find(txn, layout, Kind::Queue, new.name)? {
            return Ok(
                count_in(context, txn, object_slot, how, caller)?.map(|()| (object_slot, false))
            );
        }
        let Some(object_slot) = table::take_slot(txn, layout, Kind::Queue)? else {
            return Ok(Abandon(context.pool().full(limit_name!(msgmni), Errno::NOSPC)));
        };
        describe(context, txn, object_slot, how, caller)?;
        name::enter(context, txn, Kind::Queue, object_slot.index, new)?;
        if !descriptors::count(txn, layout, context.client_id(), object_slot.index, 1)? {
            return Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NFILE)));
        }
        Ok(Commit((object_slot, true)))
    })
}

/// Stages one descriptor more of a queue that was there.
fn count_in(
    context: &Context,
    txn: &mut Txn<'_>,
    object_slot: ObjectSlot,
    how: &QueueOpen,
    caller: &dyn Caller,
) -> ChangeResult<()> {
    if how.create && how.exclusive {
        return Ok(Abandon(Errno::EXIST));
    }
    let layout = context.pool().layout();
    let slot = layout.msg.row(object_slot.index)?;
    let wanted = access_bits((how.read, how.write));
    let permission = Permission::read(txn.lock_context().map, slot.header())?;
    if let Err(errno) = permission.allow_file(caller, wanted) {
        return Ok(Abandon(errno));
    }
    let counted = descriptors::count(txn, layout, context.client_id(), object_slot.index, 1)?;
    if counted {
        return Ok(Commit(()));
    }
    Ok(Abandon(context.pool().full(limit_name!(attaches), Errno::NFILE)))
}

/// Stages everything of a new queue but its name.
fn describe(
    context: &Context,
    txn: &mut Txn<'_>,
    object_slot: ObjectSlot,
    how: &QueueOpen,
    caller: &dyn Caller,
) -> Result<(), Fault> {
    let size = how.size.unwrap_or(QueueSize::DEFAULT);
    let slot = context.pool().layout().msg.row(object_slot.index)?;
    let queue = Queue::at(object_slot, slot);
    let permission = Permission::of_new(0, how.mode as i32, caller);
    let QueueSize { most_messages, most_bytes } = size;
    let new = NewQueue { limit: NO_LIMIT, most_messages, most_bytes };
    create::describe(txn, context.pool().layout(), &queue, &permission, new)?;
    table::begin_generation(txn, slot.header())?;
    txn.set(field!(slot, MsgSlot, header.state), queue.state_word(ObjectState::Live))
}
