//! The thread table.

use vshmem_sync::{Fault, Txn};
use vshmem_wire::{ClientId, Place, ThreadSlot, WaitKind, WaitState, field};

use crate::pool::open::Pool;

/// A thread slot and whose it was when it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dead {
    pub thread: u32,
    pub client: ClientId,
    pub at: Place<ThreadSlot>,
}

impl Dead {
    /// Whether its wait of this kind, for the object in slot `index`, has been served, and the
    /// thread has died before it could know. The sequence of the object is not looked at.
    pub(crate) fn has_unseen(
        self,
        txn: &mut Txn<'_>,
        kind: WaitKind,
        index: u32,
    ) -> Result<bool, Fault> {
        let at = self.at;
        Ok(txn.state(field!(at, ThreadSlot, wait))? == Some(WaitState::Done)
            && txn.get(field!(at, ThreadSlot, result))? == 0
            && txn.state(field!(at, ThreadSlot, kind))? == Some(kind)
            && txn.get(field!(at, ThreadSlot, object))? == index
            && txn.get_word(field!(at, ThreadSlot, owner))? == self.client.word())
    }
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
