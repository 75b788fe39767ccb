//! Locks that nobody can hold hostage, changes that cannot be torn, and sleeping.
//!
//! # Locking
//! A lock is one cell: holder and state. Its holder changes nothing directly. It collects
//! its writes in an intent record, turns the lock from *held* to *committed* with one
//! compare-and-swap, and only then carries the record out, each write a compare-and-swap against
//! the exact cell it read, tag and all. So:
//! * before the commit nothing has happened: anybody may take the lock over and the loser starts
//!   again;
//! * after the commit everything has happened: anybody may carry the record out, as often as they
//!   like, because a write that is already done no longer finds the old cell: each write raises the tag, of 64 bits, by one.
//!
//! A holder that dies, stops, or is interrupted by a signal handler that wants the same lock is
//! therefore all one case: after a short patience the next one takes over. No holder's liveness is
//! ever asked, and a holder that wakes up later finds each of its stores refused.
//!
//! # Memory ordering
//! The intent record is written with relaxed stores and published by the release of the commit;
//! whoever takes over acquires the lock word first. Cells are replaced with acquire-release, so
//! the next holder, which acquires the lock, sees all of them.

#![forbid(unsafe_code)]

mod array;
mod claim;
mod crash;
mod doorbell;
mod fault;
mod holding;
mod intent;
mod lock;
mod message_ring;
mod neighbours;
mod park;
mod pledge;
mod room;
mod seat;
mod spin;
mod yielding;

pub use array::SemaphoreArray;
pub use claim::{claim_cell, claim_word, load_cell, load_value, load_word};
pub use crash::{crash_point, crash_point_names};
pub use doorbell::Doorbell;
pub use fault::Fault;
pub use holding::{Held, HeldBy};
pub use intent::Txn;
pub use lock::{LockHolder, LockWord, holder_of, with_lock, with_lock_long};
pub use message_ring::{Inline, MessageRing, Spot, Tail};
pub use neighbours::{Neighbours, WordsOwner};
pub use park::{Parked, WaitWords, park, ring, ring_word};
pub use pledge::{Operated, Semaphore, UndoRecords};
pub use room::{Room, RoomWait};
pub use seat::{Claimant, Desk, Seat, Seats, held_thread};
pub use spin::{Answerer, Look, SleepMeter, Spin};
