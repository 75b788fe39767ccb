//! Locks of threads that may panic.

use std::sync::{LockResult, PoisonError};

/// What a lock guards, whatever has become of a thread that held it. Guests live as long as the
/// keeper, so it goes on, with what that thread has left: what is changed under these locks is
/// a word or two, whose changes cannot panic in between.
pub(crate) fn held<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}
