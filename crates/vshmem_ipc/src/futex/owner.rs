//! Whether the owner of a lock lives.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, LockOwner};
use vshmem_wire::{ClientSlot, ClientState, State, field};

use crate::context::Context;

/// Whether the client of a lock's owner has ended, or was evicted with its domain. If the owner
/// names a slot that does not exist, a hostile member has written it: it counts as ended.
pub(crate) fn has_ended(context: &Context, owner: LockOwner) -> bool {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let lives = || -> Result<bool, Fault> {
        let slot = layout.clients.row(owner.slot())?;
        // Barrier ENDED of `vshmem_sync::process_shared`: pairs with the change of the state when
        // the client is reaped, before those who sleep are woken.
        let state_at = field!(slot, ClientSlot, state).cell();
        let state = ClientState::of(map.load(state_at.word(), Ordering::SeqCst)? as u32);
        let taken = map.load(field!(slot, ClientSlot, taken).word(), Ordering::SeqCst)?;
        let is_there = state == Some(ClientState::Active) || state == Some(ClientState::Reserved);
        Ok(is_there && owner.is_of(taken))
    };
    !lives().unwrap_or(false)
}
