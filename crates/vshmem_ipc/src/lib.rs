//! The upper half: System V shared memory, semaphores and message queues on a pool.
//!
//! Nothing here names a hypervisor, maps memory or makes a pointer. A [`Pool`] is opened over a
//! [`vshmem_mem::Map`] that a link has made; a [`Client`] is this process's place in it. Everything
//! between is functions over a context, in layers.
//!
//! # Rooms
//! Each imports only those before it, and no two files import each other:
//!
//! 1. `error`: normal, hostile, evicted and misuse are distinguished;
//! 2. `pool`: superblock, ids, and the tables of domains, clients and threads;
//! 3. `context`: what one process needs to work in a pool, and what it remembers;
//! 4. `memory`: chunks of the heap, extents of data pages, marks of old data;
//! 5. `registry`: slots, keys and permissions of objects;
//! 6. `wait`: wait queues, sleeping, waking, doorbells;
//! 7. `shm`, `sem`, `msg`: the three kinds; `futex`: waiting by address. They do not know each
//!    other; `claims`: file locks on objects of `shm`, whose waiters use `futex`;
//! 8. `listing`: rows for `vshmem ls` and `vshmem top`;
//! 9. `recovery`: what a client or a domain that has ended left behind;
//! 10. `client`: joining, forking, leaving;
//! 11. `check`: whether everything in a pool agrees, and the repair; `format`: a new pool;
//! 12. `api`: the public types, one line for each call, and the only place that makes an errno.
//!
//! Three arrows point upwards, by a trait of the context (`context::UpperLayers`): a lower layer
//! begins a step of a higher one when it finds a call that was left by longjmp, the heap full, or a
//! chunk whose owner is dead.
//!
//! # Locking
//! The registry lock protects which slots are in use, the key index, segments, attaches, data pages
//! and slabs. Each semaphore set and each queue has a lock of its own for what is inside; the table
//! of claims has one. No two
//! locks are ever held together; what needs both is done in two steps, each of which leaves a pool
//! in which the next client can finish (`Creating`, `Dying`).

#![forbid(unsafe_code)]

mod api;
mod check;
mod claims;
mod client;
mod context;
mod error;
mod format;
mod futex;
mod listing;
mod memory;
mod msg;
mod pool;
mod recovery;
mod registry;
mod sem;
mod shm;
mod wait;

pub use api::client::Client;
pub use check::checker::{Finding, Severity};
pub use check::space::PoolSpace;
pub use claims::ask::{Claimed, LockRequest, LockWant, Settled};
pub use claims::pieces::{LAST_BYTE, LockRange};
pub use claims::recall::{Given, Recall};
pub use client::fork::ChildSlot;
pub use client::join::JoinError;
pub use client::lease::Lease;
pub use context::entry::Entry;
pub use context::wait_file::{WAIT_WORDS_BEYOND, WaitFile};
pub use context::wait_policy::WaitPolicy;
pub use context::waking::WakeScope;
pub use listing::rows::{
    Awaited, ClientRow, DomainKey, DomainRow, FoundBy, LocalClient, LockRow, ObjectActivity,
    ObjectDetails, ObjectRow, Particulars, ThreadActivity, ThreadWait, Usage, WaiterRow,
};
pub use memory::backing::Backing;
pub use msg::fast_send::SHORT_BYTES;
pub use msg::posix::attributes::{PosixQueueStat, QueueSize};
pub use msg::posix::mq_notify::RegistrationEnd;
pub use msg::posix::open::QueueOpen;
pub use msg::queue::{MsgInfo, QueueStat, Receive, Wait};
pub use msg::waiters::Deliver;
pub use pool::clients::Process;
pub use pool::domains::{DomainIdentity, DomainSet};
pub use pool::host_record::BackingFileId;
pub use pool::id::{Kind, is_pool_id};
pub use pool::open::{NewPool, OpenError, Pool};
pub use pool::wide_pid::WidePid;
pub use registry::permission::{Caller, Permission, Superuser};
pub use rustix::io::Errno;
pub use sem::status::{SemInfo, SetStat};
pub use shm::posix::object::{PosixOpen, PosixShmStat};
pub use shm::posix::open::Beginning;
pub use shm::posix::places::SeenPlace;
pub use shm::segment::{Attachment, SegmentStat, ShmInfo};
pub use shm::suspend::Suspended;
pub use vshmem_sync::{
    Futex, LockOwner, MutexKind, MutexType, SEM_VALUE_MAX, SharedBarrier, SharedCondvar,
    SharedMutex, SharedRwLock, SharedSemaphore, WaitEnd, Woke,
};
pub use vshmem_wire::{LockClass, LockMode, Operation};
pub use wait::datagrams::{Listener, NotifySet};
