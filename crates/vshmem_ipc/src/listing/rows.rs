//! Rows of listings.

use vshmem_wire::{ClientId, ClientState, DomainState, ProcessRef};

use crate::pool::domains::DomainSet;
use crate::pool::id::Kind;
use crate::registry::permission::Permission;

/// A member domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRow {
    /// Slot.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Alive, dead or evicted.
    pub state: DomainState,
    /// Boot epoch.
    pub epoch: u32,
    /// Seconds since 1970 when its agent last renewed the lease.
    pub renewed: u32,
    /// Raised with each renewal.
    pub lease: u32,
    /// Agent's pid in the domain, 0 for none.
    pub agent: u32,
    /// Clients.
    pub clients: u32,
    /// Boot id of its kernel, as four words.
    pub boot: [u32; 4],
    /// Inode of its PID namespace.
    pub pid_namespace: u32,
    /// Where it can be notified over its link; `None` when it cannot.
    pub address: Option<u32>,
    /// Whether its agent listens for datagrams.
    pub listens: bool,
    /// The domains that its agent has heard by datagram lately.
    pub heard: DomainSet,
    /// How fast it reads the pool and private memory, and makes locked stores to them, in MiB a
    /// second; 0 when not measured.
    pub rates: [u32; vshmem_wire::RATES],
}

/// What tells a domain that has not been declared dead from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainKey {
    /// Slot.
    pub index: u32,
    /// Boot epoch.
    pub epoch: u32,
    /// Boot id of its kernel, as four words.
    pub boot: [u32; 4],
    /// Inode of its PID namespace.
    pub pid_namespace: u32,
    /// When the init of that was started; 0 when unknown.
    pub born: u64,
}

/// A client process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRow {
    /// Slot.
    pub index: u32,
    /// Its client id, by which it can be reaped.
    pub id: ClientId,
    /// Slot of its domain.
    pub domain: u32,
    /// Pid inside the domain; while reserved, the parent's.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// User.
    pub uid: u32,
    /// Its state.
    pub state: ClientState,
    /// Seconds since 1970 when it joined.
    pub joined: u32,
    /// Attaches.
    pub attaches: u32,
    /// Threads that sleep.
    pub sleeping: u32,
}

/// A client as its domain's agent needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalClient {
    /// Slot.
    pub index: u32,
    /// Its client id.
    pub id: ClientId,
    /// Slot of its domain.
    pub domain: u32,
    /// Pid inside the domain; while reserved, the parent's.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Its state.
    pub state: ClientState,
}

/// How programs find an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// A System V object: by its key, if it has one.
    Key,
    /// A POSIX object: by its name, here without the slash in front. Any bytes that its maker
    /// chose.
    Name(Vec<u8>),
    /// A POSIX object that has been unlinked: not at all.
    Nothing,
}

/// An object with all that its tables say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectDetails {
    /// Kind.
    pub kind: Kind,
    /// Slot.
    pub index: u32,
    /// System V id; POSIX objects have such a number, too.
    pub id: i32,
    /// What programs find it by.
    pub found_by: FoundBy,
    /// Owner, creator, mode.
    pub permission: Permission,
    /// Seconds since 1970 of creation or last IPC_SET.
    pub changed: u32,
    /// What only its kind has.
    pub particulars: Particulars,
}

/// What only one kind of object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Particulars {
    /// A segment.
    Segment {
        /// Where it begins in the pool, in bytes.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Attaches of all clients.
        attached: u32,
        /// Descriptors of all clients; a POSIX object has some.
        opened: u32,
        /// Removed, and still attached.
        doomed: bool,
        /// Who made it.
        creator: ProcessRef,
        /// Who attached or detached last.
        last: ProcessRef,
    },
    /// A semaphore set.
    Semaphore {
        /// Semaphores.
        count: u32,
        /// Seconds since 1970 of the last semop.
        operated: u32,
        /// Who operated last on its first semaphore.
        last: ProcessRef,
    },
    /// A message queue.
    Queue {
        /// Bytes queued.
        bytes: u32,
        /// Messages queued.
        count: u32,
        /// Bytes allowed.
        limit: u32,
        /// Of a POSIX queue: messages at most (mq_maxmsg).
        most_messages: u32,
        /// Of a POSIX queue: bytes of a message at most (mq_msgsize).
        most_bytes: u32,
        /// Of a POSIX queue: descriptors of all clients.
        opened: u32,
        /// Last sender.
        sender: ProcessRef,
        /// Last receiver.
        receiver: ProcessRef,
    },
}

/// What is used of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of segments.
    pub bytes: u64,
    /// Live objects: segments, semaphore sets, queues.
    pub objects: [u32; 3],
}

/// A lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRow {
    /// The object whose lock it is; `None`: the registry's.
    pub object: Option<ObjectRow>,
    /// Client slot of the holder; `None` when its thread slot has been given up.
    pub client: Option<u32>,
    /// Whether the change has happened and is being carried out.
    pub committed: bool,
}

/// Which object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRow {
    /// Kind.
    pub kind: Kind,
    /// Slot, as the *_STAT calls take it.
    pub index: u32,
}

/// A sleeping thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterRow {
    /// Its client's slot.
    pub client: u32,
    /// Kind of the object it waits at; of a thread that waits by address, a segment.
    pub kind: Kind,
    /// Slot of that object; the largest number when the segment has gone.
    pub object: u32,
}

/// What has been done with an object since it was made, for rates: the difference of two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectActivity {
    /// Kind.
    pub kind: Kind,
    /// System V id.
    pub id: i32,
    /// Of a semaphore set its operations, one for each semaphore that an array of them has; of a
    /// queue the messages that were sent; of a segment the attaches and detaches since its slot was
    /// first used.
    pub count: u64,
    /// What the count is taken modulo of; 0: of 2^64.
    pub modulus: u64,
    /// Of a queue: messages whose sizes can be seen at this moment.
    pub messages_seen: u32,
    /// Their bytes.
    pub bytes_seen: u64,
}

impl ObjectActivity {
    /// How much more has been done than at an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> u64 {
        let more = self.count.wrapping_sub(earlier.count);
        let more = if self.modulus == 0 { more } else { more % self.modulus };
        // A reading may have been a few too high: no count falls by so much.
        let most = if self.modulus == 0 { u64::MAX } else { self.modulus } / 2;
        if more > most { 0 } else { more }
    }

    /// This reading, not below an earlier one of the same object: that one was a few too high then.
    #[must_use]
    pub fn not_below(self, earlier: &Self) -> Self {
        let count = if self.since(earlier) == 0 { earlier.count } else { self.count };
        Self { count, ..self }
    }
}

/// What the threads that had a slot have waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadActivity {
    /// Thread slot.
    pub slot: u32,
    /// Whose it is now.
    pub client: Option<ClientId>,
    /// Times that a thread has joined a wait queue, ever since the pool was made; wraps.
    pub waits: u32,
    /// Times that another thread has ended such a wait; wraps.
    pub wakeups: u32,
    /// What the thread waits for at this moment.
    pub wait: Option<ThreadWait>,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadWait {
    /// Kind of the object.
    pub kind: Kind,
    /// Its System V id.
    pub id: i32,
    /// What has to come.
    pub awaited: Awaited,
    /// The process that last operated there, sent, or received: it can be expected to end the wait.
    pub last: Option<ProcessRef>,
}

/// What a thread waits for at an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// A semaphore's value.
    Semaphore {
        /// Its number in the set.
        number: u32,
        /// The value 0; otherwise one that is high enough.
        zero: bool,
    },
    /// A message.
    Message,
    /// Room for a message.
    Room,
    /// A change at an address: of a process-shared lock or semaphore of POSIX.
    Address {
        /// Where in the segment.
        offset: u64,
    },
}
