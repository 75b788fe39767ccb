//! The file that this user's wait words lie in.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use vshmem_mem::Map;
use vshmem_sync::{WakeOtherUsers, WordsOwner};

/// The file with the wait words of this user in this domain.
#[derive(Debug)]
pub struct WaitFile {
    pub(crate) words: Arc<Map>,
    pub(crate) domain_users: Option<DomainUsers>,
}

impl WaitFile {
    /// The words of `own`, and what wakes those of others.
    #[must_use]
    pub fn new(words: Arc<Map>, own: WordsOwner, other_users: Arc<dyn WakeOtherUsers>) -> Self {
        let is_shared = AtomicBool::new(false);
        let domain_users = Some(DomainUsers { own, other_users, is_shared });
        Self { words, domain_users }
    }

    /// The words of a domain with one user. For tests.
    #[must_use]
    pub fn of_one_user(words: Arc<Map>) -> Self {
        Self { words, domain_users: None }
    }
}

/// This user among those of its domain.
#[derive(Debug)]
pub(crate) struct DomainUsers {
    /// Whose the words are that this process sleeps on.
    pub own: WordsOwner,
    pub other_users: Arc<dyn WakeOtherUsers>,
    /// There are clients of other users in this domain, as of the last look.
    pub is_shared: AtomicBool,
}

/// Words of such a file behind those of all thread slots: of the agent's thread, of its bell, and
/// of whom it is asked to notify.
pub const WAIT_WORDS_BEYOND: u32 = 3;
