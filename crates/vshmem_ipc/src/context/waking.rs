//! What the threads of this process sleep on, and whom a wake-up reaches.

use std::sync::{Arc, OnceLock};

use vshmem_sync::{Doorbell, WaitWords};
use vshmem_wire::{ThreadSlot, field};

use crate::context::wait_file::{DomainUsers, WaitFile};
use crate::context::waker_cpu_cache::WakerCpuCache;
use crate::pool::open::Pool;

/// Which threads a wake-up by this domain's wait words reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeScope {
    /// Every domain of this kernel: the words lie in the pool.
    Kernel,
    /// This domain alone: the words lie in a file of its own.
    Domain,
}

/// The wait words, and the ways beside them.
#[derive(Debug)]
pub(crate) struct Waking {
    pub words: WaitWords,
    /// Other users of this domain, whose words are in files of their own.
    pub domain_users: Option<DomainUsers>,
    pub scope: WakeScope,
    /// Notifies other domains, where the link can.
    pub doorbell: OnceLock<Arc<dyn Doorbell>>,
    /// Where the threads that may wake one of this process run.
    pub cpu_cache: WakerCpuCache,
    /// What a waiting thread calls about once a second.
    pub watchdog: OnceLock<fn()>,
}

impl Waking {
    /// By words in the pool, or in a file of this user's.
    pub fn new(pool: &Pool, file: Option<WaitFile>, scope: WakeScope) -> Self {
        let (words, domain_users) = match file {
            Some(file) => (WaitWords::new(file.words, 0, 4), file.domain_users),
            None => {
                let threads = pool.layout().threads;
                let base = field!(threads.first(), ThreadSlot, doorbell).offset();
                (WaitWords::new(Arc::clone(pool.map()), base, size_of::<ThreadSlot>() as u64), None)
            }
        };
        Self {
            words,
            domain_users,
            scope,
            doorbell: OnceLock::new(),
            cpu_cache: WakerCpuCache::default(),
            watchdog: OnceLock::new(),
        }
    }
}
