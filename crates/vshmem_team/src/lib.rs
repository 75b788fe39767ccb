//! Barrier, broadcast, reduction, and the exchange of blocks, for a fixed number of members in
//! shared memory of any kind.
//!
//! The caller gives memory that all members see: a System V segment of a kernel or of a pool, or a
//! pool's memory. A [`Team`] is one member's view of it. All members make the same calls in the
//! same order.
//!
//! # Who writes what
//! Every word and every slot has one writer and, for a barrier's flags, one reader; nothing is
//! compared and swapped but the words by which members join, leave and fail. Words that are waited
//! for are counters that only grow, each in cache lines of its own, so nothing is ever reset and a
//! late member finds what was written before it came.
//!
//! A member's texts lie in four slots that it uses in turn. It writes a slot again when all who
//! were to read it have said so.
//!
//! # Memory ordering
//! A slot's stamp and a barrier's flag are stored with release after what they announce and loaded
//! with acquire before it is read; so is the word by which a reader gives a slot back. A barrier
//! orders everything that members did before it before everything that they do after it, because
//! each of its rounds does so for pairs.
//!
//! # Trust
//! What others write is copied once, checked, and the copy is used. A value that cannot be is an
//! error. A member that writes nonsense spoils results and ends the team; it reaches nothing else.

#![forbid(unsafe_code)]

mod backoff;
mod barrier;
mod blocks;
mod exchange;
mod failure;
mod joining;
mod layout;
mod number;
mod started;
mod team;

pub use backoff::arrivals;
pub use failure::TeamError;
pub use joining::JoinError;
pub use layout::{MOST_MEMBERS, MOST_PAYLOAD, Shape};
pub use number::{Number, Operation};
pub use started::Started;
pub use team::{Person, Team};
