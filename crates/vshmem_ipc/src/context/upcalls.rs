//! Steps of upper rooms that lower ones begin: rare, and out of line.

use rustix::io::Errno;
use vshmem_sync::{Desk, Fault};

use crate::context::Context;
use crate::pool::chunk::Chunk;

/// One table per process, given to its context when it joins.
#[derive(Debug)]
pub(crate) struct Upcalls {
    /// Finishes what a thread of this process had begun from a slot, in a call that it has left by longjmp. Whether the
    /// slot can be used again.
    pub recover_thread: fn(&Context, &Desk<'_>, u32) -> bool,
    /// Frees chunks that message queues keep for their next messages; whether there were any.
    pub free_spare_chunks: fn(&Context) -> Result<bool, Errno>,
    /// Settles a chunk that carries the name of a dead client, as its owner word says, and may hold a message of a ring.
    pub reap_chunk: fn(&Context, &Desk<'_>, Chunk, u64) -> Result<(), Fault>,
}
