//! The upper half: System V shared memory, semaphores and message queues on a pool.
//!
//! Nothing here names a hypervisor, maps memory or makes a pointer. A [`Pool`] is opened over a
//! [`vshmem_mem::Map`] that a link has made; a [`Member`] is this process's place in it.
//!
//! # Locking
//! The registry lock protects which slots are in use, the key index, segments, attaches, data
//! pages and slabs. Each semaphore set and each queue has a lock of its own for what is inside.
//! No two locks are ever held together; what needs both is done in two steps, each of which leaves
//! a pool in which whoever comes next can finish (`Creating`, `Dying`).

#![forbid(unsafe_code)]

mod api;
mod check;
mod client;
mod context;
mod error;
mod format;
mod listing;
mod memory;
mod msg;
mod pool;
mod recovery;
mod registry;
mod sem;
mod shm;
mod wait;

pub use api::client::Member;
pub use check::look::{Finding, Severity};
pub use check::room::Room;
pub use client::fork::ChildSlot;
pub use client::join::JoinError;
pub use context::Reach;
pub use context::wait_file::{WAIT_WORDS_BEYOND, WaitFile};
pub use listing::rows::{
    ClientRow, DomainKey, DomainRow, Entry, LockRow, ObjectRow, Particulars, Resident, Usage,
    WaiterRow,
};
pub use memory::backing::Backing;
pub use msg::queue::{MsgInfo, QueueStat, Receive};
pub use msg::waiters::Deliver;
pub use pool::clients::Process;
pub use pool::domains::{DomainIdentity, Domains};
pub use pool::host_record::Home;
pub use pool::id::{Kind, is_pool_id};
pub use pool::open::{NewPool, OpenError, Pool};
pub use registry::permission::{Caller, Permission, Superuser};
pub use rustix::io::Errno;
pub use sem::operation::{Operation, SemInfo, SetStat};
pub use shm::segment::{Attachment, SegmentStat, ShmInfo};
pub use shm::suspend::Suspended;
pub use wait::notify::{Asked, Listener};
