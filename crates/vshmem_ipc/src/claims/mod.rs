//! File locks on POSIX objects, flock(2) and fcntl(2), between domains.
//!
//! Within a domain the kernel has them, on the one file that all descriptors of an object have
//! behind them: a *place*. The pool has a table of what each place may grant: its claims. A place
//! grants nothing that it has no claim for. Another place asks by a row of the same table, a want;
//! the agent of the domain that has the claim finds out by the kernel whether the lock is held, and
//! gives the claim up if it is not.
//!
//! # Locking
//! All rows change under the lock of the table. A want that is granted keeps the claim where it is:
//! between it and its removal the client asks its kernel.
//!
//! # Memory ordering
//! A client looks at its place's claim behind its kernel's lock; an agent takes the claim away
//! while
//! it holds that lock itself. So either the client finds the lock held, or it finds the claim gone.

pub(crate) mod ask;
pub(crate) mod end;
pub(crate) mod pieces;
pub(crate) mod recall;
mod rows;
