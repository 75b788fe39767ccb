//! Who this process is in the pool: its domain, its client id, its pid.

use vshmem_mem::{AtomicU32, AtomicU64, Ordering};
use vshmem_sync::{Fault, load_state, load_value};
use vshmem_wire::{ClientId, DomainSlot, DomainState, ProcessRef, field};

use crate::pool::open::Pool;

/// Domain of a process that does not know its own yet.
const UNKNOWN_DOMAIN: u32 = 127;

/// Written when the process joins or leaves, and in a child of fork.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Index of the domain.
    pub domain: AtomicU32,
    /// The domain's boot epoch.
    pub epoch: AtomicU32,
    /// The domain's part of the client id while joining.
    pub digest: AtomicU64,
    /// Word of the client id.
    pub client: AtomicU64,
    pub pid: AtomicU32,
}

impl Identity {
    /// Of a process that is no client yet.
    pub fn joining(digest: u64, pid: u32) -> Self {
        Self {
            domain: AtomicU32::new(UNKNOWN_DOMAIN),
            epoch: AtomicU32::new(0),
            digest: AtomicU64::new(digest),
            client: AtomicU64::new(ClientId::joining(digest, pid).word()),
            pid: AtomicU32::new(pid),
        }
    }

    /// What this process is called while it is no client.
    pub fn as_joining(&self) -> ClientId {
        ClientId::joining(self.digest.load(Ordering::Relaxed), self.pid.load(Ordering::Relaxed))
    }

    /// The client id of this process, which no other process gets.
    #[inline]
    pub fn client_id(&self) -> ClientId {
        // Only this process writes the word, so it is a valid client id.
        let word = self.client.load(Ordering::Relaxed);
        ClientId::of(word).unwrap_or_else(|| self.as_joining())
    }

    /// This process as others see it.
    #[inline]
    pub fn process_ref(&self) -> ProcessRef {
        let domain = self.domain.load(Ordering::Relaxed);
        ProcessRef { domain, pid: self.pid.load(Ordering::Relaxed) }
    }

    /// Whether this domain is still an active member: it may have been evicted while it was
    /// paused.
    pub fn is_in_active_domain(&self, pool: &Pool) -> Result<bool, Fault> {
        let slot = pool.layout().domains.row(self.domain.load(Ordering::Relaxed))?;
        let state = load_state(pool.map(), field!(slot, DomainSlot, state))?;
        let epoch = load_value(pool.map(), field!(slot, DomainSlot, epoch))?;
        let takes_part = state.is_some_and(DomainState::takes_part);
        Ok(takes_part && epoch == self.epoch.load(Ordering::Relaxed))
    }
}
