//! Message queues: msgget(2), msgsnd(2), msgrcv(2), msgctl(2).
//!
//! # User-visible behaviour
//! As in the kernel's `ipc/msg.c`: a message goes to the first sleeping receiver that accepts it,
//! or to the end of the queue; a receiver takes the first message that it accepts; room that
//! becomes free sends sleeping senders to try again, in order. Their messages are not sent for them: one of them may be
//! dead and not buried yet, and the message of a dead process must not come after those of its successor.
//!
//! # Locking
//! A queue has one lock over its list and its sleepers. The text of a message is copied outside
//! it, into and out of a chunk that belongs to the sender before and to the receiver after.
//!
//! # Without the lock
//! As long as messages are short and few they go through a ring of eight slots, a compare-and-swap each: receivers take the first
//! that they accept, whatever is before it (`fast.rs`, `vshmem_sync::MessageRing`). Whatever else there is to do closes the
//! ring, and its messages move to the end of the empty list (`ring.rs`). In mode *ring* the list is empty, no sender
//! sleeps, and receivers may sleep that accept none of the messages in it (`beside.rs`); in mode *list* the ring is empty and closed. A
//! receiver that takes the last message of the list opens it again.

mod aftermath;
mod awaited;
mod beside;
mod create;
mod fast;
mod list;
mod receive;
mod remove;
mod reserve;
mod ring;
mod send;
mod serve;
mod status;

pub(crate) use awaited::{Awaited, says_list};
pub use receive::Deliver;
pub(crate) use ring::{bury_chunk, header_of, place_in, place_of};
pub(crate) use status::totals;

use crate::access::Permission;
use crate::id::Place;
use crate::registry::{self, Standing};
use crate::wait::Line;
use crate::{Errno, Member, Pool, settle};
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{MsgSlot, ObjectHeader, ObjectState};

/// What a receiver asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// msgtyp.
    pub kind: i64,
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
        field!($queue.slot, MsgSlot, $field)
    };
}
use at;

/// A queue that has been looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub index: u32,
    pub sequence: u32,
    pub slot: u64,
}

impl Queue {
    pub fn find(pool: &Pool, place: Place) -> Result<Option<Self>, Fault> {
        let Some(slot) = pool.layout().msg.at(place.index) else {
            return Ok(None);
        };
        let standing = registry::standing(pool.map(), slot)?;
        let found = standing.is(ObjectState::Live) && standing.sequence == place.sequence;
        Ok(found.then_some(Self::at(place, slot)))
    }

    /// The queue in that slot, whatever its state.
    pub fn at(place: Place, slot: u64) -> Self {
        Self { index: place.index, sequence: place.sequence, slot }
    }

    pub fn lock(&self) -> u64 {
        field!(self.slot, ObjectHeader, lock)
    }

    /// Offset of the words of the ring.
    #[inline]
    pub(super) fn ring(&self) -> u64 {
        at!(self, ring)
    }

    pub(super) fn receivers(&self) -> Line {
        Line {
            head: at!(self, receive_head),
            tail: at!(self, receive_tail),
            lock: self.lock(),
            length: None,
        }
    }

    pub(super) fn senders(&self) -> Line {
        Line {
            head: at!(self, send_head),
            tail: at!(self, send_tail),
            lock: self.lock(),
            length: None,
        }
    }

    pub(super) fn stands(&self, state: ObjectState) -> u32 {
        Standing { state: state as u32, sequence: self.sequence }.pack()
    }

    pub(super) fn alive(&self, txn: &mut Txn<'_>) -> Result<bool, Fault> {
        let value = txn.get(field!(self.slot, ObjectHeader, state))?;
        Ok(value == self.stands(ObjectState::Live))
    }
}

impl Member {
    #[inline]
    pub(super) fn queue(&self, id: i32) -> Result<Queue, Errno> {
        let place = Place::of(id).ok_or(Errno::INVAL)?;
        settle(Queue::find(self.pool(), place).map(|found| found.ok_or(Errno::INVAL)))
    }

    pub(super) fn queue_permission(&self, queue: &Queue) -> Result<Permission, Errno> {
        settle(Permission::read(self.pool().map(), queue.slot).map(Ok))
    }
}

/// A line of sleepers of the queue in a slot.
pub(crate) fn line_of(slot: u64, senders: bool) -> Line {
    let queue = Queue { index: 0, sequence: 0, slot };
    if senders { queue.senders() } else { queue.receivers() }
}
