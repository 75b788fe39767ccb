//! A queue that has been looked up, and what the calls tell of it.

use rustix::io::Errno;
use vshmem_mem::{Instant, Map};
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{MsgSlot, ObjectState, Place, RING_SLOTS, RawCell, WaitKind, field};

use crate::context::Context;
use crate::error::Failure;
use crate::pool::id::ObjectSlot;
use crate::pool::open::Pool;
use crate::registry::name;
use crate::registry::permission::Permission;
use crate::registry::table::{self, SlotState};
use crate::wait::wait_queue::WaitQueue;

/// What a receiver asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// msgtyp.
    pub mtype: i64,
    /// Bytes that the caller has room for.
    pub room: usize,
    /// IPC_NOWAIT.
    pub no_wait: bool,
    /// MSG_NOERROR: a longer message is cut.
    pub cut: bool,
    /// MSG_EXCEPT.
    pub except: bool,
    /// MSG_COPY.
    pub copy: bool,
}

impl Receive {
    /// As the words of msgrcv(2) have it: its msgtyp, msgsz and msgflg.
    #[inline]
    #[must_use]
    pub fn of(mtype: i64, room: usize, flags: i32) -> Self {
        // <sys/msg.h> and <sys/ipc.h> of Linux.
        const IPC_NOWAIT: i32 = 0o4000;
        const MSG_NOERROR: i32 = 0o10000;
        const MSG_EXCEPT: i32 = 0o20000;
        const MSG_COPY: i32 = 0o40000;
        Self {
            mtype,
            room,
            no_wait: flags & IPC_NOWAIT != 0,
            cut: flags & MSG_NOERROR != 0,
            except: flags & MSG_EXCEPT != 0,
            copy: flags & MSG_COPY != 0,
        }
    }
}

impl Receive {
    /// As mq_receive(3) receives: the oldest message, without waiting for it.
    #[inline(always)]
    pub(crate) fn oldest(room: usize) -> Self {
        Self { mtype: 0, room, no_wait: true, cut: true, except: false, copy: false }
    }
}

/// How long a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Never,
    /// Until this moment.
    Until(Instant),
    /// Until it is done.
    Forever,
}

impl Wait {
    /// The moment at which the wait ends, if there is one.
    #[inline]
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::Never | Self::Forever => None,
        }
    }
}

/// A queue as IPC_STAT tells it (`struct msqid_ds`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStat {
    /// Id.
    pub id: i32,
    /// Owner and mode.
    pub permission: Permission,
    /// Bytes queued.
    pub bytes: u32,
    /// Messages queued.
    pub count: u32,
    /// Bytes allowed.
    pub limit: u32,
    /// Last sender's pid here.
    pub sender: u32,
    /// Last receiver's pid here.
    pub receiver: u32,
    /// Seconds since 1970.
    pub sent: u32,
    /// Seconds since 1970.
    pub received: u32,
    /// Seconds since 1970.
    pub changed: u32,
}

/// Totals (`struct msginfo` after MSG_INFO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MsgInfo {
    /// Queues in use.
    pub queues: u32,
    /// Messages in all of them.
    pub messages: u32,
    /// Bytes in all of them.
    pub bytes: u32,
    /// Highest index in use; what the call returns.
    pub highest: u32,
}

macro_rules! at {
    ($queue:expr, $field:ident) => {
        vshmem_wire::field!($queue.slot, vshmem_wire::MsgSlot, $field)
    };
}
pub(crate) use at;

/// A queue that has been looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub index: u32,
    pub sequence: u32,
    pub slot: Place<MsgSlot>,
}

impl Queue {
    /// The queue that an id means; `None`: it has been removed, or never was.
    ///
    /// # Errors
    /// When its slot is corrupt.
    pub fn find(pool: &Pool, object_slot: ObjectSlot) -> Result<Option<Self>, Fault> {
        let Some(slot) = pool.layout().msg.at(object_slot.index) else {
            return Ok(None);
        };
        let slot_state = table::slot_state(pool.map(), slot.header())?;
        let found = slot_state.is(ObjectState::Live) && slot_state.sequence == object_slot.sequence;
        Ok(found.then_some(Self::at(object_slot, slot)))
    }

    /// The queue in that slot, whatever its state.
    pub fn at(object_slot: ObjectSlot, slot: Place<MsgSlot>) -> Self {
        Self { index: object_slot.index, sequence: object_slot.sequence, slot }
    }

    /// Its lock.
    pub fn lock(&self) -> Place<RawCell> {
        field!(self.slot, MsgSlot, header.lock)
    }

    /// The ring in its slot.
    #[inline]
    pub(crate) fn ring(&self) -> Place<[RawCell; RING_SLOTS]> {
        at!(self, ring)
    }

    pub(crate) fn receivers(&self) -> WaitQueue {
        WaitQueue {
            head: at!(self, receive_head),
            tail: at!(self, receive_tail),
            lock: self.lock(),
            length: None,
        }
    }

    pub(crate) fn senders(&self) -> WaitQueue {
        WaitQueue {
            head: at!(self, send_head),
            tail: at!(self, send_tail),
            lock: self.lock(),
            length: None,
        }
    }

    /// The thread that mq_notify has registered.
    pub(crate) fn notified(&self) -> WaitQueue {
        WaitQueue {
            head: at!(self, notify_head),
            tail: at!(self, notify_tail),
            lock: self.lock(),
            length: None,
        }
    }

    /// Whether this is a queue of POSIX; else it is one of System V.
    #[inline]
    pub(crate) fn is_posix(&self, map: &Map) -> Result<bool, Fault> {
        name::is_posix(map, at!(self, name))
    }

    /// Whether this is known to be a queue of System V, as it is after [`find`].
    #[inline]
    pub(crate) fn is_known_as_system_v(&self, context: &Context) -> bool {
        let object_slot = ObjectSlot { index: self.index, sequence: self.sequence };
        context.ring_hints.is_system_v(self.index, object_slot.id())
    }

    pub(crate) fn state_word(&self, state: ObjectState) -> u32 {
        SlotState { state: state as u32, sequence: self.sequence }.pack()
    }

    pub(crate) fn alive(&self, txn: &mut Txn<'_>) -> Result<bool, Fault> {
        let value = txn.get(field!(self.slot, MsgSlot, header.state))?;
        Ok(value == self.state_word(ObjectState::Live))
    }
}

/// The System V queue of an id.
#[inline(always)]
pub(crate) fn find(context: &Context, id: i32) -> Result<Queue, Failure> {
    let object_slot = ObjectSlot::of(id).ok_or(Errno::INVAL)?;
    let queue = Queue::find(context.pool(), object_slot)?.ok_or(Errno::INVAL)?;
    // That is on a cache line of its own, which no other call of System V reads.
    if queue.is_known_as_system_v(context) || is_system_v(context, &queue, id)? {
        Ok(queue)
    } else {
        Err(Errno::INVAL.into())
    }
}

#[cold]
fn is_system_v(context: &Context, queue: &Queue, id: i32) -> Result<bool, Fault> {
    let found = !queue.is_posix(context.pool().map())?;
    if found {
        context.ring_hints.note_system_v(queue.index, id);
    }
    Ok(found)
}

/// The queue of an id, whether System V's or POSIX's.
#[inline]
pub(crate) fn find_any(context: &Context, id: i32) -> Result<Queue, Failure> {
    let object_slot = ObjectSlot::of(id).ok_or(Errno::INVAL)?;
    Ok(Queue::find(context.pool(), object_slot)?.ok_or(Errno::INVAL)?)
}

/// A POSIX queue that a descriptor of this process keeps.
#[inline]
pub(crate) fn find_posix(context: &Context, id: i32) -> Result<Queue, Failure> {
    let queue = find_any(context, id).map_err(gone)?;
    if !queue.is_posix(context.pool().map())? {
        return Err(Errno::BADF.into());
    }
    if queue.is_known_as_system_v(context) {
        // The id has come back.
        context.ring_hints.forget_system_v(queue.index);
    }
    Ok(queue)
}

/// A queue that somebody has removed in spite of its descriptors is as a descriptor that is closed.
pub(crate) fn gone(failure: Failure) -> Failure {
    match failure {
        Failure::Errno(Errno::INVAL | Errno::IDRM) => Errno::BADF.into(),
        other => other,
    }
}

pub(crate) fn permission(context: &Context, queue: &Queue) -> Result<Permission, Failure> {
    Permission::read(context.pool().map(), queue.slot.header()).map_err(Failure::from)
}

/// A wait queue of the queue in a slot, by the word that says what its waiters wait for.
pub(crate) fn wait_queue_of(slot: Place<MsgSlot>, kind: WaitKind) -> WaitQueue {
    let queue = Queue { index: 0, sequence: 0, slot };
    match kind {
        WaitKind::Send => queue.senders(),
        WaitKind::Notify => queue.notified(),
        _ => queue.receivers(),
    }
}
