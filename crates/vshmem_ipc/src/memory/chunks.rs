//! Chunks of the heap for one call: taken, given back.

use rustix::io::Errno;
use vshmem_sync::{Desk, Fault};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::heap;
use crate::pool::chunk::Chunk;

/// A chunk of the heap; ENOMEM when it is full.
pub(crate) fn take(context: &Context, desk: &Desk<'_>, bytes: u64) -> Result<Chunk, Failure> {
    let allocate = || heap::allocate(context, desk, bytes).map_err(Failure::from);
    if let Some(chunk) = allocate()? {
        return Ok(chunk);
    }
    // What queues keep for their next messages is room, too.
    let freed = (context.upcalls.free_spare_chunks)(context, desk)?;
    if freed { allocate()?.ok_or(Errno::NOMEM.into()) } else { Err(Errno::NOMEM.into()) }
}

/// Gives back a chunk that this client has inherited from an object.
pub(crate) fn discard(context: &Context, desk: &Desk<'_>, chunk: Option<Chunk>) {
    if let Some(chunk) = chunk {
        // What cannot be given back now is when this client ends.
        let _ = heap::discard(context.pool(), desk, chunk, context.me().word());
    }
}

/// Gives back a chunk that this client owns. The last one of each size is kept for the next call.
pub(crate) fn release(context: &Context, desk: &Desk<'_>, chunk: Chunk) -> Result<(), Fault> {
    heap::release(context.pool(), desk, &context.larder, context.me(), chunk)
}
