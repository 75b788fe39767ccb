//! The three kinds of object, and what belongs to them.

use crate::{MSG_HEADER_BYTES, Place, RING_SLOTS, RawCell};

/// The mode bits that System V keeps of an object's mode.
pub const PERM_BITS: u32 = 0o777;

/// States of an object slot. The cell also carries the sequence: `sequence << 8 | state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ObjectState {
    /// Holds no object.
    Free = 0,
    /// An object.
    Live = 1,
    /// Removed; any thread that sees this continues to take it apart.
    Dying = 2,
    /// A segment that is removed and still attached: no key, reachable by id.
    Doomed = 3,
    /// Being made by a client: has its memory, not yet its key.
    Creating = 4,
}

/// What the three kinds have in common.
///
/// In the order of use: a lookup by key or id reads the second cache line, and the third, which
/// says who may use the object and holds the first two cells of its kind. The first line is for
/// those who change it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ObjectHeader {
    /// The object's own lock (segments use the registry's).
    pub lock: RawCell,
    /// Seconds since 1970 of creation or last IPC_SET.
    pub changed: RawCell,
    /// Owner.
    pub uid: RawCell,
    /// Owner's group.
    pub gid: RawCell,
    /// An [`crate::ObjectKey`]; 0 for IPC_PRIVATE.
    pub key: RawCell,
    /// Next slot in the key index or in the free queue, plus one.
    pub next: RawCell,
    /// Sequence and [`ObjectState`].
    pub state: RawCell,
    /// Of a semaphore set alone: seconds since 1970 of the last semop. It is here because the fast
    /// way of an operation reads this cache line in any case.
    pub operated: RawCell,
    /// Creator, and in the upper half its group.
    pub creator: RawCell,
    /// Mode, [`PERM_BITS`] and the SHM_ flags.
    pub mode: RawCell,
}

const _: () = assert!(
    core::mem::offset_of!(ObjectHeader, key) == 64
        && core::mem::offset_of!(ObjectHeader, creator) == 128,
    "a lookup reads two cache lines"
);

/// Domains that find a file behind an object's descriptors at once.
pub const PLACES: usize = 4;

/// Where a file behind a descriptor was open when it was noted. Whether it still is, and is such a
/// file, has to be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceHint {
    /// Domain.
    pub domain: u32,
    /// Process, by its number in that domain.
    pub pid: u32,
    /// Number of the descriptor.
    pub file: u32,
    /// The object's generation, its low [`PlaceHint::GENERATION_BITS`] bits.
    pub generation: u64,
}

impl PlaceHint {
    /// Bits of the generation that a hint has.
    pub const GENERATION_BITS: u32 = 15;

    /// As a word: 0 is none.
    #[must_use]
    pub const fn pack(self) -> u64 {
        let generation = self.generation & ((1 << Self::GENERATION_BITS) - 1);
        (self.file & 0xf_ffff) as u64
            | ((self.pid & 0x3f_ffff) as u64) << 20
            | ((self.domain & 0x7f) as u64) << 42
            | generation << 49
    }

    /// From a word; `None` when it is none.
    #[must_use]
    pub const fn unpack(word: u64) -> Option<Self> {
        if word == 0 {
            return None;
        }
        Some(Self {
            domain: (word >> 42) as u32 & 0x7f,
            pid: (word >> 20) as u32 & 0x3f_ffff,
            file: word as u32 & 0xf_ffff,
            generation: word >> 49,
        })
    }
}

/// A segment.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ShmSlot {
    /// Common part.
    pub header: ObjectHeader,
    /// Bytes, low half.
    pub size_low: RawCell,
    /// Bytes, high half.
    pub size_high: RawCell,
    /// First data page.
    pub first_page: RawCell,
    /// Data pages.
    pub pages: RawCell,
    /// Attaches of all clients, and open descriptors: an [`crate::AttachCount`].
    pub attached: RawCell,
    /// Seconds since 1970 of the last attach.
    pub attach_time: RawCell,
    /// Seconds since 1970 of the last detach.
    pub detach_time: RawCell,
    /// Creator, as `ProcessRef`.
    pub creator: RawCell,
    /// Last to attach or detach, as `ProcessRef`.
    pub last: RawCell,
    /// While creating: the name of the maker.
    pub maker: RawCell,
    /// Its extent; means nothing without data pages, as a POSIX object begins.
    pub extent: RawCell,
    /// Of a POSIX object, an [`crate::ObjectName`]; else 0.
    pub name: RawCell,
    /// Where the files behind descriptors of a POSIX object may be found open, for some domains:
    /// words that are hints, see [`crate::PlaceHint`].
    pub places: [u64; PLACES],
}

/// A semaphore set.
///
/// A semaphore is a cell whose word has a format of its own, see `docs/internals/wire-format.md`:
/// value, flags and last operator together.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SemSlot {
    /// Common part.
    pub header: ObjectHeader,
    /// Semaphores in the set.
    pub count: RawCell,
    /// Unit of the heap where their words begin.
    pub words: RawCell,
    /// First waiter, thread slot plus one.
    pub wait_head: RawCell,
    /// Last waiter.
    pub wait_tail: RawCell,
    /// Waiters.
    pub waiting: RawCell,
    /// First undo record, plus one.
    pub undos: RawCell,
    /// 1 if there may be a waiter who waits for something else than a semaphore high enough to
    /// take from: for a zero, or for more than one semaphore.
    pub mixed: RawCell,
    /// The last array of operations that was done without the lock, an [`crate::ArrayWord`].
    pub array: RawCell,
    /// A word that is added to outside of changes: how much more the tags of the semaphores have
    /// risen than operations were done.
    pub other_writes: RawCell,
    /// What to take from the sum of the tags, beside [`SemSlot::other_writes`], for the operations
    /// since the set was made, 64 bits.
    pub tags_before: RawCell,
    /// Room for later.
    pub spare: [RawCell; 4],
}

/// A message queue.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MsgSlot {
    /// Common part.
    pub header: ObjectHeader,
    /// Bytes allowed.
    pub limit: RawCell,
    /// Where the messages are, a [`QueueMode`], and which types sleeping receivers wait for.
    pub mode: RawCell,
    /// Bytes queued.
    pub bytes: RawCell,
    /// How many messages: a [`crate::QueueCount`].
    pub count: RawCell,
    /// First message: unit of the heap plus one.
    pub head: RawCell,
    /// In the list's mode the last message, unit of the heap plus one; means nothing when there is
    /// none. In the ring's mode the chunks in reserve, a [`crate::RingReserve`].
    pub tail_or_reserve: RawCell,
    /// Last sender, as `ProcessRef`. On one cache line with the three below: what a round trip
    /// changes comes at once.
    pub sender: RawCell,
    /// Last receiver, as `ProcessRef`.
    pub receiver: RawCell,
    /// Seconds since 1970 of the last msgsnd.
    pub sent: RawCell,
    /// Seconds since 1970 of the last msgrcv.
    pub received: RawCell,
    /// First sleeping receiver, thread slot plus one.
    pub receive_head: RawCell,
    /// Last sleeping receiver.
    pub receive_tail: RawCell,
    /// First sleeping sender.
    pub send_head: RawCell,
    /// Last sleeping sender.
    pub send_tail: RawCell,
    /// The ring: cells whose words have a format of their own, see
    /// `docs/internals/wire-format.md`.
    pub ring: [RawCell; RING_SLOTS],
    /// Of a POSIX object, an [`crate::ObjectName`]; else 0.
    pub name: RawCell,
    /// Of a POSIX queue: messages at most (mq_maxmsg). 0: this is a System V queue.
    pub most_messages: RawCell,
    /// Of a POSIX queue: bytes of a message at most (mq_msgsize).
    pub most_bytes: RawCell,
    /// Of a POSIX queue: open descriptors of all clients, as their attach records count them.
    pub opened: RawCell,
    /// The thread that mq_notify has registered, thread slot plus one: a wait queue of one.
    pub notify_head: RawCell,
    /// Its other end.
    pub notify_tail: RawCell,
    /// Where the long ring begins, unit of the heap plus one; 0 as long as the ring of a queue in
    /// this slot has never been too short. That memory stays a ring, also when the queue is
    /// removed: so a compare-and-swap that comes late finds a cell of a ring, and fails.
    pub long_ring: RawCell,
    /// How rarely the long ring is opened and not the short one: at one of 2 to the power of this
    /// openings. It is 0 from then on.
    pub long_ring_rarity: RawCell,
}

macro_rules! objects {
    ($($slot:ty),*) => {
        $(impl Place<$slot> {
            /// What the object has in common with those of other kinds.
            #[inline]
            #[must_use]
            pub const fn header(self) -> Place<ObjectHeader> {
                crate::field!(self, $slot, header)
            }
        })*
    };
}

objects!(ShmSlot, SemSlot, MsgSlot);

/// In [`AttachSlot::segment`]: the record counts descriptors of a queue.
pub const ATTACHED_QUEUE: u32 = 1 << 31;
/// Most messages that a POSIX queue can be made for (`HARD_MSGMAX` of the kernel).
pub const MOST_QUEUE_MESSAGES: u32 = 65_536;
/// Longest message that a POSIX queue can be made for: what the largest chunk of a slab takes.
pub const MOST_QUEUE_MESSAGE_BYTES: u32 = 16_384 - MSG_HEADER_BYTES as u32;
/// Priorities of a POSIX queue's messages are below this (`MQ_PRIO_MAX`).
pub const QUEUE_PRIORITIES: u32 = 32_768;

/// Where the messages of a queue are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueMode {
    /// In the ring. The list is empty, and no sender sleeps. The long ring is empty and closed.
    Ring = 0,
    /// In the list. Both rings are empty and closed.
    List = 1,
    /// As [`QueueMode::Ring`], in the long ring.
    LongRing = 2,
}

/// How often one client has attached one segment, or has it open; or has a POSIX queue open.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct AttachSlot {
    /// Segment slot plus one, or with [`ATTACHED_QUEUE`] queue slot plus one; 0 is free.
    pub segment: RawCell,
    /// Attaches and descriptors, an [`crate::AttachCount`].
    pub count: RawCell,
    /// Next record of the client, or next free one, plus one.
    pub next: RawCell,
    /// Id of the client.
    pub client: RawCell,
}

/// Adjustments (semadj) that one client has on one semaphore set.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UndoSlot {
    /// Id of the client; 0 is free. Claimed by compare-and-swap, and kept until the client ends.
    pub client: RawCell,
    /// Semaphore set slot plus one once it is on the set's list; [`UndoSlot::TAKEN`] shortly
    /// before; 0 while it serves no set.
    pub set: RawCell,
    /// Next record of the set, plus one.
    pub next: RawCell,
    /// Unit of the heap where the adjustments begin, plus one: a cell per semaphore.
    pub adjustments: RawCell,
    /// The record that the client has claimed before this one, a [`crate::ClientListHead`].
    pub sibling: RawCell,
    /// Room for later.
    pub spare: [RawCell; 3],
}

impl UndoSlot {
    /// A thread of the client has taken the record for a set.
    pub const TAKEN: u32 = u32::MAX;
}

const _: () = assert!(size_of::<ShmSlot>() == 384, "a segment slot is six cache lines");
const _: () = assert!(size_of::<SemSlot>() == 384, "a semaphore set slot is six cache lines");
const _: () = assert!(size_of::<MsgSlot>() == 640, "a queue slot is ten cache lines");
const _: () = assert!(
    core::mem::offset_of!(MsgSlot, ring) == 384 && RING_SLOTS == 8,
    "the ring has two cache lines of its own"
);
const _: () = assert!(
    core::mem::offset_of!(MsgSlot, sender) / 64 == core::mem::offset_of!(MsgSlot, received) / 64,
    "who and when is on one cache line"
);
const _: () = assert!(size_of::<AttachSlot>() == 64, "an attach record is a cache line");
const _: () = assert!(size_of::<UndoSlot>() == 128, "an undo record is two cache lines");
