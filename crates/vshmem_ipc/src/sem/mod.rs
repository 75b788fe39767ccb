//! Semaphore sets: semget(2), semop(2), semctl(2).
//!
//! # User-visible behaviour
//! As in the kernel's `ipc/sem.c`: an array of operations happens at once or not at all, in the
//! order given; waiters are served in the order of their arrival as far as their operations can be
//! done; a waiter's operations are done by the thread that made them possible.
//!
//! # Locking
//! A set has one lock, over its values, adjustments and waiters. A single operation that finds no
//! thread asleep and need not sleep does without: it is one compare-and-swap on the semaphore's
//! word, or with SEM_UNDO two (`vshmem_sync::Semaphore`). So do a few operations on up to four
//! semaphores, if none is with SEM_UNDO (`vshmem_sync::SemaphoreArray`). The word's SLOW bit closes
//! that way: it is set by the thread that works under the lock before it looks at the word, and
//! stays while there are waiters. An adjustment has such a bit as well. Setting one by mistake
//! costs time and nothing else.

pub(crate) mod array;
pub(crate) mod await_word;
pub(crate) mod control;
pub(crate) mod create;
pub(crate) mod fast;
pub(crate) mod operate;
pub(crate) mod operation;
pub(crate) mod recover;
pub(crate) mod remove;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod status;
pub(crate) mod undo;
pub(crate) mod undo_records;
