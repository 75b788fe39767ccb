//! Process-shared locks of POSIX threads and semaphores in the memory of programs: mutex, condition
//! variable, read-write lock, barrier, semaphore.
//!
//! Each lies where glibc has its own, with a mark by which calls tell the two apart. What a thread
//! finds free takes one compare-and-swap, and nothing else of the pool. A thread that has to sleep
//! does so at the address ([`Futex`]); the layer above knows where in the pool that is.
//!
//! # States
//! ```text
//!   mutex:      free (0) --lock--> held (owner) --sleeper--> held, WAITERS --unlock--> free, one
//!   woken
//!               held, owner has ended --lock--> held, INCONSISTENT (EOWNERDEAD)
//!                 --consistent--> held; --unlock--> NOT_RECOVERABLE, for ever
//!   condition:  sequence --wait--> sequence, WAITERS --signal--> the next: pollers continue
//!               sequence, WAITERS --sleep--> and SLEEPERS --signal--> the next sequence, one woken
//!   semaphore:  value --post--> value + 1, one woken if any waits; --wait--> value - 1, or sleeps
//!   rwlock:     readers, or WRITER; the last one that leaves wakes all
//!   barrier:    round and arrivals; the last one that arrives begins the next round, and wakes all
//! ```
//! A word that says WAITERS, a condition variable's SLEEPERS, makes its next change a call of
//! [`Futex::wake`]. That bit is never
//! missing while a thread sleeps, but for the time until a thread that was just woken goes on: it
//! was told whether others still sleep, and sets the bit again. When a client ends, all that sleep
//! by address are woken and look again (`waits`): so nothing depends on a thread that has died
//! between two steps. Those that find that they are still to sleep go on, and their callers do not
//! learn of it.
//!
//! A thread that was woken for a mutex and is stopped before it goes on (SIGSTOP, a paused guest)
//! delays those that sleep behind it until it goes on or its client ends, as with glibc's: the
//! mutex is free meanwhile, and others can lock it. It delays nobody elsewhere but by the one post
//! or signal that has woken it: a semaphore counts who waits, a signal of a condition variable
//! keeps SLEEPERS, and a read-write lock wakes all.
//!
//! # Widths
//! * The owner of a mutex: 20 bits of client slot, 22 of thread number, 20 of how often the slot
//!   has been taken ([`LockOwner`] says what happens when they come back).
//! * The sequence of a condition variable: 62 bits, from an arbitrary start.
//! * The round of a barrier: 32 bits. They come back when a thread misses 2^32 rounds, of each of
//!   which it would have to be a part.
//! * A semaphore: 32 bits of value, readers of a read-write lock: 32 bits. Both are bounded.
//!
//! # Barriers
//! * LOCK: acquire of the swap that takes a lock. Pairs with release of the swap that frees it: as
//!   with any lock.
//! * ADDRESS: the swap that sets WAITERS, and then, queued, a sequentially consistent look at the
//!   word (`waits`). Pairs with the swap that changes the word, and then [`Futex::wake`]'s look at
//!   the queue, after a sequentially consistent fence: at least one of the two sees the other.
//! * A thread that is queued and finds there that its word has changed was woken by that. Another
//!   wake-up that takes it off the queue before it leaves is not for it: it wakes the next in its
//!   place (`Futex::wait`). A signal of a condition variable would otherwise be lost with it.
//! * ENDED: queued, a look at the owner's client (`has_ended`). Pairs with the change of that
//!   client's state before all that sleep are woken.
//!
//! # Model
//! `tests/loom/process_shared.rs`: three actors at each, one of which dies, or destroys it and uses
//! the memory again.

mod barrier;
mod condvar;
mod futex;
mod mutex;
mod owner;
mod rwlock;
mod semaphore;

pub use barrier::SharedBarrier;
pub use condvar::SharedCondvar;
pub use futex::{Futex, WaitEnd, Woke};
pub use mutex::{MutexKind, MutexType, SharedMutex};
pub use owner::LockOwner;
pub use rwlock::SharedRwLock;
pub use semaphore::{SEM_VALUE_MAX, SharedSemaphore};
