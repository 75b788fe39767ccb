//! Protocols over shared words: locks whose holder may die, changes that happen at once or not at
//! all, and sleeping.
//!
//! One folder for each protocol. Its `mod.rs` has the state machine, the widths of its counters,
//! its memory barriers with their partners, and the name of its model (`tests/loom/`).
//!
//! * `thread_slot`: thread slots of the pool, claimed for the length of a call, and the lists by
//!   which they are found when a client dies.
//! * `wait`: spinning, yielding and sleeping until a word changes; waking.
//! * `lock`: a lock that any thread may take over, and changes under it.
//! * `semaphore`: semaphores without the lock: single operations, SEM_UNDO, arrays.
//! * `message_ring`: the ring of a message queue.
//! * `process_shared`: locks of POSIX threads and semaphores in the memory of programs.
//!
//! Files import in this order, and no file imports one that imports it: `fault`, `crash`, `cell`;
//! `thread_slot`, `wait`; `lock`; `semaphore`, `message_ring`, `process_shared`.

#![forbid(unsafe_code)]

mod cell;
mod crash;
mod fault;
mod lock;
mod message_ring;
mod process_shared;
mod semaphore;
mod thread_slot;
mod wait;

pub use cell::{claim_cell, claim_word, load_cell, load_state, load_value, load_word};
pub use crash::crash_point;
pub use fault::Fault;
pub use lock::{
    Decision, LockContext, LockHolder, Txn, decide_with_lock, decide_with_lock_long, holder_of,
    read_entry, read_if_free, with_lock,
};
pub use message_ring::{
    Inline, MessageRing, RingSlot, RingSpace, RingWords, SendBackoff, Tail, leave_lines,
};
pub use process_shared::{
    Futex, LockOwner, MutexKind, MutexType, SEM_VALUE_MAX, SharedBarrier, SharedCondvar,
    SharedMutex, SharedRwLock, SharedSemaphore, WaitEnd, Woke,
};
pub use semaphore::{Operated, Semaphore, SemaphoreArray, UndoRecords};
pub use thread_slot::{ClientList, ListEntry, SlotCache, SlotGuard, SlotOwner, thread_list_entry};
pub use wait::{
    Doorbell, ParkResult, Polled, SleepMeter, Spin, SpinWait, WaitWords, WakeOtherUsers, WakerCpu,
    WordsOwner, park, wake, wake_word,
};
