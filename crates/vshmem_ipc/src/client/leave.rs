//! A client that goes: at exit, or before its process ends.

use rustix::io::Errno;
use vshmem_mem::Ordering;

use crate::client::join;
use crate::context::Context;
use crate::error::Failure;
use crate::recovery::reap;
use crate::recovery::steps::{self, Ended, Occasion};
use crate::sem::recover;

/// Makes a running process no client any more: gives up what it holds, and its slot.
///
/// Nothing happens when the domain has been evicted or reaped meanwhile: what lies in the slot is
/// not this process's any more.
pub(crate) fn leave(context: &Context) -> Result<(), Failure> {
    if !context.is_current() {
        return Ok(());
    }
    release_at_exit(context)?;
    let (map, threads) = (context.pool.map(), context.pool.layout().threads);
    let client = context.client_id();
    // The reaping frees the client's thread slots, so it must not work from one of them.
    context.slot_cache.forget();
    context.identity.client.store(context.as_joining().word(), Ordering::Release);
    context.slot_cache.unbind();
    let slot_guard = join::joining_slot_guard(context).map_err(|_| Errno::NOMEM)?;
    let left = reap::reap_client(context, &context.lock_context_of(&slot_guard), client)
        .map_err(Failure::from);
    drop(slot_guard);
    context.slot_cache.give_back(map, threads, context.as_joining());
    left
}

/// Gives up what this process holds while it still runs, at exit: attaches and adjustments.
pub(crate) fn release_at_exit(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let ended = Ended { client: context.client_id(), process_ref: context.process_ref().pack() };
    steps::run(context, &context.lock_context_of(&slot_guard), ended, Occasion::Exit)
        .map_err(Failure::from)
}

/// Applies this process's adjustments now.
pub(crate) fn apply_adjustments(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let process_ref = context.process_ref().pack();
    recover::apply_undos(
        context,
        &context.lock_context_of(&slot_guard),
        context.client_id(),
        process_ref,
    )
    .map_err(Failure::from)
}
