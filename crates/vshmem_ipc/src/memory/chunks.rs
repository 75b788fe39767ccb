//! Chunks of the heap for one call: taken, given back.

use rustix::io::Errno;
use vshmem_sync::{Fault, LockContext};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::heap;
use crate::pool::chunk::Chunk;
use crate::pool::limits::limit_name;

/// A chunk of the heap; ENOMEM when it is full.
pub(crate) fn take(
    context: &Context,
    lock_context: &LockContext<'_>,
    bytes: u64,
) -> Result<Chunk, Failure> {
    let allocate = || heap::allocate(context, lock_context, bytes).map_err(Failure::from);
    if let Some(chunk) = allocate()? {
        return Ok(chunk);
    }
    // Chunks that queues keep for their next messages can be freed.
    let freed = context.upper_layers.free_spare_chunks(context, lock_context)?;
    let taken = if freed { allocate()? } else { None };
    taken.ok_or_else(|| context.pool().full(limit_name!(slabs), Errno::NOMEM).into())
}

/// Gives back a chunk that this client has inherited from an object.
pub(crate) fn discard(context: &Context, lock_context: &LockContext<'_>, chunk: Option<Chunk>) {
    if let Some(chunk) = chunk {
        // If this fails, the chunk is given back when this client ends.
        let _ = heap::discard(context.pool(), lock_context, chunk, context.client_id().word());
    }
}

/// Gives back a chunk that this client owns. The last one of each size is kept for the next call.
pub(crate) fn release(
    context: &Context,
    lock_context: &LockContext<'_>,
    chunk: Chunk,
) -> Result<(), Fault> {
    heap::release(context.pool(), lock_context, &context.chunk_cache, context.client_id(), chunk)
}
