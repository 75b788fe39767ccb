//! Running a change, with as long an intent record as it needs.

use crate::heap::{self, Chunk};
use crate::{Errno, Member, Verdict};
use vshmem_sync::{Desk, Fault, Txn};

impl Member {
    /// Runs a change under a lock, with a longer intent record if the usual one is too short.
    pub(crate) fn change<'a, T>(
        &'a self,
        desk: &Desk<'a>,
        lock: u64,
        name: &'static str,
        mut body: impl FnMut(&mut Txn<'a>) -> Verdict<T>,
    ) -> Verdict<T> {
        let short = vshmem_sync::with_lock(*desk, lock, name, &mut body);
        if !matches!(short, Err(Fault::TooLong)) {
            return short;
        }
        /// Entries of a longer record: enough for semop's limit, for a whole set, and for its adjustments as well.
        const LONGER: [usize; 3] = [2000, 34_000, vshmem_wire::MORE_LOG_ENTRIES];
        for entries in LONGER {
            let bytes = (entries * size_of::<vshmem_wire::LogEntry>()) as u64;
            let chunk = match self.take_chunk(desk, bytes) {
                Ok(chunk) => chunk,
                Err(errno) => return Ok(Err(errno)),
            };
            let offset = chunk.offset(self.pool().layout())?;
            let done = vshmem_sync::with_lock_long(*desk, lock, name, offset, entries, &mut body);
            heap::release(self.pool(), desk, &self.larder, self.me(), chunk)?;
            if !matches!(done, Err(Fault::TooLong)) {
                return done;
            }
        }
        Err(Fault::TooLong)
    }

    /// A chunk of the heap; ENOMEM when it is full.
    pub(crate) fn take_chunk(&self, desk: &Desk<'_>, bytes: u64) -> Result<Chunk, Errno> {
        let allocate = || {
            heap::allocate(self.pool(), desk, &self.larder, self.me(), bytes).map_err(|_| Errno::IO)
        };
        if let Some(chunk) = allocate()? {
            return Ok(chunk);
        }
        // What queues keep for their next messages is room, too.
        let freed = self.free_parked_chunks(desk)?;
        if freed { allocate()?.ok_or(Errno::NOMEM) } else { Err(Errno::NOMEM) }
    }

    /// Gives back a chunk that this client has inherited from an object.
    pub(crate) fn discard_chunk(&self, desk: &Desk<'_>, chunk: Option<Chunk>) {
        if let Some(chunk) = chunk {
            // What cannot be given back now is when this client ends.
            let _ = heap::discard(self.pool(), desk, chunk, self.me().word());
        }
    }
}
