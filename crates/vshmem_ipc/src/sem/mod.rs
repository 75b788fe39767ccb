//! Semaphore sets: semget(2), semop(2), semctl(2).
//!
//! # User-visible behaviour
//! As in the kernel's `ipc/sem.c`: an array of operations happens at once or not at all, in the
//! order given; waiters are served in the order of their arrival as far as their operations can be
//! done; a waiter's operations are done by the thread that made them possible.
//!
//! # Locking
//! A set has one lock, over its values, adjustments and waiters. A single operation takes no lock
//! if it need not sleep and no thread sleeps: it is one compare-and-swap on the semaphore's word,
//! or two with SEM_UNDO (`vshmem_sync::Semaphore`). A few operations on up to four semaphores take
//! none either, if none of them has SEM_UNDO (`vshmem_sync::SemaphoreArray`). The word's SLOW bit
//! closes this fast path. A thread that works under the lock sets it before it reads the value, and
//! it stays set while there are waiters. An adjustment has such a bit as well. A bit that is set
//! without need costs time and does no other harm.

pub(crate) mod control;
pub(crate) mod create;
pub(crate) mod fast;
pub(crate) mod operate;
pub(crate) mod recover;
pub(crate) mod remove;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod status;
pub(crate) mod under_lock;
pub(crate) mod undo;
