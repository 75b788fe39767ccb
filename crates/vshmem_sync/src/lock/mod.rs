//! Locks, and changes that happen at once.

mod acquire;
mod change;
mod context;
mod intent;
mod record;
mod word;

pub use change::{with_lock, with_lock_long};
pub use context::Desk;
pub use intent::Txn;
pub use word::{LockHolder, LockWord, holder_of};
