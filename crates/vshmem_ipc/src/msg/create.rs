//! msgget(2).

use rustix::io::Errno;
use vshmem_mem::seconds_now;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{Layout, MsgSlot, ObjectName, ObjectState, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::msg::count::begin_count;
use crate::msg::queue::{self, Queue, at};
use crate::msg::ring::new_ring;
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::registry::get::{self, Asked, Request};
use crate::registry::permission::{Caller, Permission};
use crate::registry::table;

/// msgget(2).
pub(crate) fn msgget(
    context: &Context,
    key: i32,
    flags: i32,
    caller: &dyn Caller,
) -> Result<i32, Failure> {
    get::get(context, Asked { key, flags, caller }, &QueueRequest)
}

/// What msgget(2) asks for beside: nothing.
struct QueueRequest;

impl Request for QueueRequest {
    const KIND: Kind = Kind::Queue;
    const LOST: &'static str = "a key that is in use and leads to no queue";

    type Found = Queue;

    #[inline(always)]
    fn find(context: &Context, object_slot: ObjectSlot) -> Result<Queue, Failure> {
        queue::find(context, object_slot.id())
    }

    #[inline(always)]
    fn check(
        &self,
        context: &Context,
        asked: Asked<'_>,
        _: ObjectSlot,
        queue: Queue,
    ) -> Result<(), Failure> {
        asked.check_mode(context, queue.slot.header())
    }

    fn make(&self, context: &Context, asked: Asked<'_>) -> Result<Option<ObjectSlot>, Failure> {
        let pool = context.pool();
        let layout = pool.layout();
        let permission = asked.permission();
        let slot_guard = context.slot_guard()?;
        let lock_context = context.lock_context_of(&slot_guard);
        change::decide(context, &lock_context, pool.registry_lock(), "msgget", |txn| {
            if table::is_taken(txn, layout, Kind::Queue, asked.key)? {
                return Ok(Commit(None));
            }
            let Some(object_slot) = table::take_slot(txn, layout, Kind::Queue)? else {
                return Ok(Abandon(pool.full(limit_name!(msgmni), Errno::NOSPC)));
            };
            let slot = layout.msg.row(object_slot.index)?;
            let queue = Queue::at(object_slot, slot);
            let limit = pool.geometry().msgmnb;
            let new = NewQueue { limit, most_messages: 0, most_bytes: 0 };
            describe(txn, layout, &queue, &permission, new)?;
            txn.update_word(at!(queue, name), ObjectName::SystemV.pack())?;
            if asked.key != 0 {
                table::enter_key(txn, layout, Kind::Queue, object_slot.index)?;
            }
            txn.set(field!(slot, MsgSlot, header.state), queue.state_word(ObjectState::Live))?;
            Ok(Commit(Some(object_slot)))
        })
    }
}

/// What a new queue is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewQueue {
    /// Bytes allowed.
    pub limit: u32,
    /// Messages at most; 0 makes a System V queue, which has no such limit.
    pub most_messages: u32,
    /// Bytes of a message at most; means nothing to System V's.
    pub most_bytes: u32,
}

/// Stages everything of a new queue but its key or name, and its state.
pub(crate) fn describe(
    txn: &mut Txn<'_>,
    layout: &Layout,
    queue: &Queue,
    permission: &Permission,
    new: NewQueue,
) -> Result<(), Fault> {
    table::describe(txn, queue.slot.header(), permission, seconds_now())?;
    for (cell, value) in [
        (at!(queue, limit), new.limit),
        (at!(queue, most_messages), new.most_messages),
        (at!(queue, most_bytes), new.most_bytes),
        (at!(queue, bytes), 0),
        (at!(queue, head), 0),
        (at!(queue, tail_or_reserve), 0),
        (at!(queue, sender), 0),
        (at!(queue, receiver), 0),
        (at!(queue, sent), 0),
        (at!(queue, received), 0),
        (at!(queue, opened), 0),
    ] {
        txn.update(cell, value)?;
    }
    new_ring(txn, queue, new.limit, new.most_messages)?;
    begin_count(txn, layout, queue)
}
