//! The thread table.

use vshmem_sync::Fault;
use vshmem_wire::{ClientId, Place, ThreadSlot, field};

use crate::pool::open::Pool;

/// A thread slot and whose it was when it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dead {
    pub thread: u32,
    pub client: ClientId,
    pub at: Place<ThreadSlot>,
}

impl Pool {
    /// Frees the thread slots that dead clients had claimed and not listed. Says whether there were
    /// any.
    pub(crate) fn free_dead_threads(&self) -> Result<bool, Fault> {
        let mut freed = false;
        for thread in 0..self.layout().threads.count as u32 {
            let at = self.layout().threads.row(thread)?;
            freed |= self.free_if_dead(field!(at, ThreadSlot, owner))?;
        }
        Ok(freed)
    }
}
