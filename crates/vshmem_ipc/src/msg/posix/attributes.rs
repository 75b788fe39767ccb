//! mq_getattr(3), and what a descriptor of a queue says of its file.

use rustix::io::Errno;
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{load_value, load_word};
use vshmem_wire::{MOST_QUEUE_MESSAGE_BYTES, MOST_QUEUE_MESSAGES, MsgSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::change;
use crate::msg::queue::{at, find_posix};
use crate::msg::status::totals;
use crate::registry::permission::{Caller, Permission};
use crate::registry::table;

/// What a POSIX queue is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSize {
    /// Messages (mq_maxmsg).
    pub most_messages: u32,
    /// Bytes of each (mq_msgsize).
    pub most_bytes: u32,
}

impl QueueSize {
    /// What Linux makes when nothing is asked for.
    pub const DEFAULT: Self = Self { most_messages: 10, most_bytes: 8192 };
    /// The largest that a pool can have.
    pub const LARGEST: Self =
        Self { most_messages: MOST_QUEUE_MESSAGES, most_bytes: MOST_QUEUE_MESSAGE_BYTES };

    /// The size that mq_open is asked for with `messages` and `bytes`.
    ///
    /// # Errors
    /// EINVAL when that is none, or larger than `allowed` or than a pool can have.
    pub fn asked(messages: i64, bytes: i64, allowed: Self) -> Result<Self, Errno> {
        let within = |asked: i64, allowed: u32, largest: u32| {
            u32::try_from(asked).ok().filter(|asked| (1..=allowed.min(largest)).contains(asked))
        };
        let largest = Self::LARGEST;
        Ok(Self {
            most_messages: within(messages, allowed.most_messages, largest.most_messages)
                .ok_or(Errno::INVAL)?,
            most_bytes: within(bytes, allowed.most_bytes, largest.most_bytes)
                .ok_or(Errno::INVAL)?,
        })
    }
}

/// A POSIX queue as mq_getattr(3) and fstat(2) tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PosixQueueStat {
    /// What it is made for.
    pub size: QueueSize,
    /// Messages in it.
    pub messages: u32,
    /// Their bytes.
    pub bytes: u32,
    /// Owner and mode.
    pub permission: Permission,
    /// Whether it has its name still.
    pub named: bool,
    /// Descriptors of all clients.
    pub opened: u32,
    /// Seconds since 1970 of the creation, or of the last change of owner or mode.
    pub changed: u32,
}

/// mq_getattr(3).
pub(crate) fn stat(context: &Context, id: i32) -> Result<PosixQueueStat, Failure> {
    let queue = find_posix(context, id)?;
    let map = context.pool().map();
    let (messages, bytes) = totals(map, context.pool().layout(), queue.slot)?;
    let most_messages = load_value(map, at!(queue, most_messages))?;
    Ok(PosixQueueStat {
        size: QueueSize { most_messages, most_bytes: load_value(map, at!(queue, most_bytes))? },
        // List and ring are read one after the other.
        messages: messages.min(most_messages),
        bytes,
        permission: Permission::read(map, queue.slot.header())?,
        named: load_word(map, at!(queue, name))? as u32 != 0,
        opened: load_value(map, at!(queue, opened))?,
        changed: load_value(map, field!(queue.slot, MsgSlot, header.changed))?,
    })
}

/// fchmod(2) and fchown(2) of a descriptor, as for any file.
pub(crate) fn set_owner(
    context: &Context,
    id: i32,
    owner: (Option<u32>, Option<u32>),
    mode: Option<u32>,
    caller: &dyn Caller,
) -> Result<(), Failure> {
    let queue = find_posix(context, id)?;
    let wanted = |now: Permission| {
        let owned = now.with_owner(owner.0, owner.1, caller)?;
        mode.map_or(Ok(owned), |mode| owned.with_mode(mode, caller))
    };
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    change::decide(context, &lock_context, queue.lock(), "mq-set-owner", |txn| {
        if !queue.alive(txn)? {
            return Ok(Abandon(Errno::BADF));
        }
        match wanted(Permission::read(context.pool().map(), queue.slot.header())?) {
            Ok(new) => {
                table::set_owner(txn, queue.slot.header(), new.uid, new.gid, new.mode).map(Commit)
            }
            Err(errno) => Ok(Abandon(errno)),
        }
    })
}
