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
    /// Its name.
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

/// An object with all that its tables say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Kind.
    pub kind: Kind,
    /// Slot.
    pub index: u32,
    /// System V id.
    pub id: i32,
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
        /// Bytes.
        bytes: u64,
        /// Attaches of all clients.
        attached: u32,
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
    /// Kind of the object it waits at.
    pub kind: Kind,
    /// Slot of that object.
    pub object: u32,
}
