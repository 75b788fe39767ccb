//! Waking threads of this domain that sleep on words of another user's.

use std::fmt::Debug;

/// Whose wait words a process sleeps on, where they lie in files: each user of a domain has a file
/// of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordsOwner {
    /// The user that the file belongs to.
    pub uid: u32,
    /// Tells it from others of that user; 0 as a rule.
    pub nonce: u32,
}

/// Wakes threads whose words lie in another user's file. What is passed in has been read from the
/// pool, so it may be nonsense.
pub trait WakeOtherUsers: Debug + Send + Sync {
    /// Wakes the thread in `slot`, if it sleeps on words of that owner. Called with changes already
    /// made visible; must not use the heap.
    fn wake(&self, owner: WordsOwner, slot: u32);
}
