//! Taking back what still carries the name of a client that has ended.
//!
//! A burial takes back what a client has listed: what others may wait for. What it had claimed and
//! not yet listed, and its chunks of the heap, hold nobody up. A name never comes back, so whoever
//! meets such a thing may take it: who finds no other free one, and the agents, which look at a
//! part of the tables each time.

use vshmem_mem::{AtomicU32, Ordering};
use vshmem_sync::{Desk, Fault, field};
use vshmem_wire::ThreadSlot;

use crate::context::Context;
use crate::error::Failure;
use crate::memory::heap;
use crate::pool::threads::thread_at;

/// Rows of the tables of threads and undo records that are looked at in one round, and units of the
/// heap.
const ROWS: u32 = 256;

const SLABS: u32 = 8;

/// Looks at the next part of the tables for what carries the name of a client that has ended, and
/// takes it back; for the agent.
pub(crate) fn reclaim_some(context: &Context) -> Result<(), Failure> {
    let seat = context.seat()?;
    reclaim_part(context, &context.desk_of(&seat)).map_err(Failure::from)
}

fn reclaim_part(context: &Context, desk: &Desk<'_>) -> Result<(), Fault> {
    let pool = context.pool();
    let layout = pool.layout();
    for thread in part(&context.rounds.threads, layout.threads.count, ROWS) {
        pool.free_if_dead(field!(thread_at(layout, thread)?, ThreadSlot, owner))?;
    }
    for record in part(&context.rounds.undos, layout.undos.count, ROWS) {
        pool.free_dead_undo(record)?;
    }
    for slab in part(&context.rounds.slabs, layout.slab_meta.count, SLABS) {
        heap::reclaim_slab(context, desk, slab, &mut |owner| pool.is_of_dead(owner))?;
    }
    Ok(())
}

/// Takes back everything that carries the name of a client that has ended; for the repair, and
/// tests.
pub(crate) fn reclaim_all(context: &Context) -> Result<(), Failure> {
    let seat = context.seat()?;
    let desk = context.desk_of(&seat);
    let all = || -> Result<(), Fault> {
        context.pool().free_dead_threads()?;
        context.pool().free_dead_undos()?;
        heap::reclaim_dead(context, &desk).map(drop)
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
