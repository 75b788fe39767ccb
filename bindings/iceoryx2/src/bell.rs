//! What a notifier and a listener share: a word that is counted up, at which the listener sleeps.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use iceoryx2_bb_elementary_traits::zero_copy_send::ZeroCopySend;

use crate::pool::{self, Errno};

/// What lies in the pool.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bell {
    /// How often it was rung; wraps.
    rung: AtomicU32,
    /// Not 0: the listener has gone.
    closed: AtomicU32,
}

// SAFETY: two words, which mean the same in each process.
unsafe impl ZeroCopySend for Bell {}

impl Bell {
    pub(crate) fn close(&self) {
        self.closed.store(1, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn rung(&self) -> &AtomicU32 {
        &self.rung
    }

    pub(crate) fn ring(&self) -> Result<(), Errno> {
        self.rung.fetch_add(1, Ordering::SeqCst);
        pool::wake(&self.rung)
    }
}

/// A bell in a storage that this process has open as long as this lives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BellRef(NonNull<Bell>);

// SAFETY: a bell is shared by threads as by processes.
unsafe impl Send for BellRef {}
// SAFETY: as above.
unsafe impl Sync for BellRef {}

impl BellRef {
    /// The storage that the bell lies in stays open as long as this is used.
    pub(crate) fn new(bell: NonNull<Bell>) -> Self {
        Self(bell)
    }

    pub(crate) fn get(&self) -> &Bell {
        // SAFETY: `EventImpl` keeps the storage beside the handle or waiter, and drops it later.
        unsafe { self.0.as_ref() }
    }
}
