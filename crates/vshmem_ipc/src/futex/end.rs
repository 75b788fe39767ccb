//! What the end of a client's program means to those who sleep by address: all are woken and look
//! again. Those whose word says that they are still to sleep do so; their callers learn nothing.
//!
//! The client may have held the lock that they wait for; or it was about to wake them; or it was
//! woken itself and did not pass that on. All cases are treated alike: in each of them a waiter
//! that looks at the word and its owner again finds that it need not sleep.

use vshmem_mem::{Ordering, fence};
use vshmem_sync::{Fault, LockContext, load_value};
use vshmem_wire::{Registry, field};

use crate::context::Context;
use crate::futex::{Bucket, wake};

/// Wakes every thread that sleeps by address.
pub(crate) fn wake_every_sleeper(
    context: &Context,
    lock_context: &LockContext<'_>,
) -> Result<(), Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    // Barrier ENDED of `vshmem_sync::process_shared`: the client's state was changed before this
    // looks for sleepers. Pairs with the fence in `wait`, behind which a sleeper looks at it.
    fence(Ordering::SeqCst);
    if load_value(map, field!(layout.registry, Registry, futexes_used))? == 0 {
        return Ok(());
    }
    for index in 0..layout.futexes.count as u32 {
        let bucket = Bucket::nth(layout, index)?;
        let is_empty = load_value(map, bucket.length())? == 0
            && load_value(map, bucket.wait_queue().head)? == 0;
        if is_empty {
            continue;
        }
        match wake_bucket(context, lock_context, bucket) {
            // One that a peer has damaged must not keep the dead client's slot, nor the others
            // asleep.
            Ok(()) | Err(Fault::Corrupt { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

fn wake_bucket(
    context: &Context,
    lock_context: &LockContext<'_>,
    bucket: Bucket,
) -> Result<(), Fault> {
    // A thread that enters the queue meanwhile knows of the end already.
    for _ in 0..=context.pool().layout().threads.count {
        let (_, more) = wake::wake_some(context, lock_context, bucket, None, u32::MAX)?;
        if !more {
            break;
        }
    }
    Ok(())
}
