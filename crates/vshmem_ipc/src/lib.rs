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

mod access;
mod answerers;
mod bury;
mod bury_threads;
mod census;
mod change;
mod check;
mod dirty;
mod domain;
mod doorbell;
mod extent;
mod floor;
mod heap;
mod home;
mod id;
mod leave;
mod member;
mod message;
mod neighbourhood;
mod notify;
mod pool;
mod queue;
mod reclaim;
mod registry;
mod repair;
mod segment;
mod semaphore;
mod tend;
mod told;
mod undo;
mod wait;

pub use access::{Caller, Permission, Superuser};
pub use census::{
    ClientRow, DomainKey, DomainRow, Entry, LockRow, ObjectRow, Particulars, Resident, Usage,
    WaiterRow,
};
pub use check::{Finding, Room, Severity};
pub use domain::DomainIdentity;
pub use doorbell::Domains;
pub use home::Home;
pub use id::{Kind, is_pool_id};
pub use member::{Backing, ChildSlot, JoinError, Member, Process, Reach};
pub use neighbourhood::{WAIT_WORDS_BEYOND, WaitFile};
pub use notify::{Asked, Listener};
pub use pool::{NewPool, OpenError, Pool};
pub use queue::{Deliver, MsgInfo, QueueStat, Receive};
pub use rustix::io::Errno;
pub use segment::{Attachment, SegmentStat, ShmInfo, Suspended};
pub use semaphore::{Operation, SemInfo, SetStat};

use vshmem_sync::Fault;

/// Result of a change that may be refused: the outer layer is the machinery's, the inner one the
/// caller's.
type Verdict<T> = Result<Result<T, Errno>, Fault>;

/// Turns machinery failures into the errno that a System V call reports for them.
fn settle<T>(verdict: Verdict<T>) -> Result<T, Errno> {
    match verdict {
        Ok(result) => result,
        Err(Fault::TooLong) => Err(Errno::NOMEM),
        Err(Fault::Refused(errno)) => Err(Errno::from_raw_os_error(errno)),
        Err(Fault::Corrupt { .. } | Fault::Evicted | Fault::Misuse(_)) => Err(Errno::IO),
    }
}
