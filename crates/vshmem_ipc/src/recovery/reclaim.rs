//! Releasing entries and chunks that still carry the id of a client that has ended.
//!
//! Reaping releases what a client has listed, as others may wait for it. Entries that it had
//! claimed and not yet listed, and its chunks of the heap, block no other client. A client id never
//! comes back, so any client may release them at any time. A client does so when it finds no free
//! entry; agents scan a part of the tables in each round.

use vshmem_mem::{AtomicU32, Ordering};
use vshmem_sync::{Fault, LockContext};
use vshmem_wire::{ThreadSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::heap;

/// Rows of the tables of threads and undo records that are looked at in one round, and units of the
/// heap.
const ROWS: u32 = 256;

const SLABS: u32 = 8;

/// Looks at the next part of the tables for what carries the id of a client that has ended, and
/// takes it back; for the agent.
pub(crate) fn reclaim_some(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    reclaim_part(context, &context.lock_context_of(&slot_guard)).map_err(Failure::from)
}

fn reclaim_part(context: &Context, lock_context: &LockContext<'_>) -> Result<(), Fault> {
    let pool = context.pool();
    let layout = pool.layout();
    for thread in part(&context.reclaim_position.threads, layout.threads.count, ROWS) {
        pool.free_if_dead(field!(layout.threads.row(thread)?, ThreadSlot, owner))?;
    }
    for record in part(&context.reclaim_position.undos, layout.undos.count, ROWS) {
        pool.free_dead_undo(record)?;
    }
    for slab in part(&context.reclaim_position.slabs, layout.slab_meta.count, SLABS) {
        heap::reclaim_slab(context, lock_context, slab, &mut |owner| pool.is_of_dead(owner))?;
    }
    Ok(())
}

/// Takes back everything that carries the id of a client that has ended; for the repair, and tests.
pub(crate) fn reclaim_all(context: &Context) -> Result<(), Failure> {
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let all = || -> Result<(), Fault> {
        context.pool().free_dead_threads()?;
        context.pool().free_dead_undos()?;
        heap::reclaim_dead(context, &lock_context).map(drop)
    };
    all().map_err(Failure::from)
}

/// The next rows of a table, which a round looks at.
fn part(from: &AtomicU32, count: u64, rows: u32) -> std::ops::Range<u32> {
    let count = count as u32;
    let start = from.load(Ordering::Relaxed);
    let start = if start < count { start } else { 0 };
    let end = start.saturating_add(rows).min(count);
    from.store(end, Ordering::Relaxed);
    start..end
}
