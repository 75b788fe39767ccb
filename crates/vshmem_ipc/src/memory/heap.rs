//! Small things: messages, semaphore values, adjustments, long intent records.
//!
//! The heap is handed out in slabs of 64 KiB; a slab serves chunks of one size, or is part of a
//! run for one large chunk. Slabs change hands under the registry lock. A chunk is claimed by a
//! single compare-and-swap of its owner cell, so a client that dies leaves behind nothing but
//! cells that name it.

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{
    Fault, LockContext, Txn, claim_word, crash_point, load_cell, load_value, load_word, with_lock,
};
use vshmem_wire::{
    CHUNK_CLASSES, ClientId, Layout, Place, RING_CLASS, RawCell, SLAB_BYTES, SLABS_PER_RING_SLAB,
    SlabMeta, UNIT_BYTES, field,
};

use crate::context::Context;
use crate::context::chunk_cache::ChunkCache;
use crate::pool::chunk::{Chunk, IN_OBJECT, LONGEST_RUN, SLAB_UNITS};
use crate::pool::open::Pool;

/// How often an allocation tries again with slabs that it has reclaimed and others were faster to
/// take.
const MOST_ROUNDS: u32 = 100;

fn class_of(bytes: u64) -> Option<usize> {
    CHUNK_CLASSES[..RING_CLASS].iter().position(|&units| u64::from(units) * UNIT_BYTES >= bytes)
}

/// Takes a chunk of at least `bytes` for `client`. `None` when the heap is full.
pub(crate) fn allocate(
    context: &Context,
    lock_context: &LockContext<'_>,
    bytes: u64,
) -> Result<Option<Chunk>, Fault> {
    let (pool, chunk_cache, client) = (context.pool(), &context.chunk_cache, context.client_id());
    let Some(class) = class_of(bytes) else {
        return allocate_run(context, lock_context, bytes);
    };
    let kept = chunk_cache.kept[class].swap(0, Ordering::Acquire);
    if kept != 0 {
        return Ok(Some(Chunk(kept - 1)));
    }
    let layout = pool.layout();
    let hint = chunk_cache.hint[class].load(Ordering::Relaxed);
    let slabs = layout.slab_meta.count as u32;
    let wanted = class as u32 + 1;
    let start = (hint / SLAB_UNITS).min(slabs - 1);
    for step in 0..slabs {
        let slab = (start + step) % slabs;
        let class_at = field!(layout.slab_meta.row(slab)?, SlabMeta, class);
        if load_value(pool.map(), class_at)? != wanted {
            continue;
        }
        let from = if step == 0 { hint % SLAB_UNITS } else { 0 };
        if let Some(chunk) = claim_in(pool, client, slab, class, from)? {
            chunk_cache.hint[class].store(chunk.0, Ordering::Relaxed);
            return Ok(Some(chunk));
        }
    }
    for _ in 0..MOST_ROUNDS {
        let taken = take_slab(context, lock_context, class)?;
        if let Some(chunk) = taken {
            chunk_cache.hint[class].store(chunk.0, Ordering::Relaxed);
            return Ok(Some(chunk));
        }
        if !reclaim(context, lock_context)? {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Gives a free slab to a class and takes its first chunk. `None`: there is no such slab.
fn take_slab(
    context: &Context,
    lock_context: &LockContext<'_>,
    class: usize,
) -> Result<Option<Chunk>, Fault> {
    let (pool, client) = (context.pool(), context.client_id());
    let layout = pool.layout();
    // The slab is set up with its first chunk taken, so that it cannot be lost to another client
    // before this one has had anything from it.
    with_lock(*lock_context, pool.registry_lock(), "heap-slab", |txn| {
        for slab in 0..layout.slab_meta.count as u32 {
            let class_at = field!(layout.slab_meta.row(slab)?, SlabMeta, class);
            let chunk = Chunk(slab * SLAB_UNITS);
            let owner = chunk.owner(layout)?;
            if txn.get(class_at)? == 0 && txn.get_word(owner)? == 0 {
                // The owner first: chunks are claimed outside the lock as soon as the class can be
                // seen, which may be long before the whole change is carried out. Another client
                // would claim the first chunk.
                txn.set_word(owner, client.word())?;
                txn.set(class_at, class as u32 + 1)?;
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    })
}

/// Takes memory for a long ring. `None` when there is none at once: no slab is reclaimed for it,
/// and the slabs of long rings are few.
pub(crate) fn allocate_ring(
    context: &Context,
    lock_context: &LockContext<'_>,
) -> Result<Option<Chunk>, Fault> {
    let pool = context.pool();
    let layout = pool.layout();
    let slabs = layout.slab_meta.count as u32;
    let mut of_rings = 0;
    for slab in 0..slabs {
        let class_at = field!(layout.slab_meta.row(slab)?, SlabMeta, class);
        if load_value(pool.map(), class_at)? == RING_CLASS as u32 + 1 {
            of_rings += 1;
            let claimed = claim_in(pool, context.client_id(), slab, RING_CLASS, 0)?;
            if claimed.is_some() {
                return Ok(claimed);
            }
        }
    }
    // Several at once may each add one.
    match of_rings < slabs / SLABS_PER_RING_SLAB {
        true => take_slab(context, lock_context, RING_CLASS),
        false => Ok(None),
    }
}

/// Claims a free chunk of a slab, looking from unit `from` on and around.
fn claim_in(
    pool: &Pool,
    client: ClientId,
    slab: u32,
    class: usize,
    from: u32,
) -> Result<Option<Chunk>, Fault> {
    let layout = pool.layout();
    let units = CHUNK_CLASSES[class];
    let chunks = SLAB_UNITS / units;
    let class_at = field!(layout.slab_meta.row(slab)?, SlabMeta, class);
    for step in 0..chunks {
        let nth = (from / units + step) % chunks;
        let chunk = Chunk(slab * SLAB_UNITS + nth * units);
        let owner = chunk.owner(layout)?;
        match claim_chunk(pool.map(), owner, class_at, class as u32 + 1, client)? {
            Claim::Taken => return Ok(Some(chunk)),
            Claim::Busy => {}
            Claim::OtherClass => return Ok(None),
        }
    }
    Ok(None)
}

/// How an attempt to take a chunk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Taken,
    Busy,
    /// The slab serves another class by now.
    OtherClass,
}

/// Takes a free chunk of a slab that serves `class`.
///
/// The owner cell is read before the slab's class and replaced only if it has not been written
/// since. A thread that gives the slab another class writes the owner cell of every chunk first. So
/// a chunk of such a slab is never claimed, not even for a moment: a change under the registry lock
/// relies on the cells that it has read.
fn claim_chunk(
    map: &Map,
    owner: Place<RawCell>,
    class_at: Place<RawCell>,
    class: u32,
    client: ClientId,
) -> Result<Claim, Fault> {
    let seen = load_cell(map, owner)?;
    if seen.word != 0 {
        return Ok(Claim::Busy);
    }
    if load_value(map, class_at)? != class {
        return Ok(Claim::OtherClass);
    }
    crash_point("heap-claim", "found");
    let taken = map.replace_cell(owner, seen, client.word())?;
    crash_point("heap-claim", "taken");
    Ok(if taken { Claim::Taken } else { Claim::Busy })
}

/// Large chunks: whole slabs in a row.
fn allocate_run(
    context: &Context,
    lock_context: &LockContext<'_>,
    bytes: u64,
) -> Result<Option<Chunk>, Fault> {
    let (pool, client) = (context.pool(), context.client_id());
    let layout = pool.layout();
    let slabs = layout.slab_meta.count as u32;
    let Ok(length) = u32::try_from(bytes.div_ceil(SLAB_BYTES)) else {
        return Ok(None);
    };
    if length > LONGEST_RUN {
        return Ok(None);
    }
    for _ in 0..MOST_ROUNDS {
        let found = with_lock(*lock_context, pool.registry_lock(), "heap-run", |txn| {
            let mut free = 0;
            for slab in 0..slabs {
                let class_at = field!(layout.slab_meta.row(slab)?, SlabMeta, class);
                let owner = Chunk(slab * SLAB_UNITS).owner(layout)?;
                let usable = txn.get(class_at)? == 0 && (free > 0 || txn.get_word(owner)? == 0);
                free = if usable { free + 1 } else { 0 };
                if free < length {
                    continue;
                }
                let first = slab + 1 - length;
                for inner in first..=slab {
                    let class = if inner == first { SlabMeta::RUN } else { SlabMeta::TAIL };
                    txn.set(field!(layout.slab_meta.row(inner)?, SlabMeta, class), class)?;
                }
                txn.update(field!(layout.slab_meta.row(first)?, SlabMeta, run), length)?;
                let chunk = Chunk(first * SLAB_UNITS);
                txn.set_word(chunk.owner(layout)?, client.word())?;
                return Ok(Some(chunk));
            }
            Ok(None)
        })?;
        if found.is_some() || !reclaim(context, lock_context)? {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Gives back a chunk that this client owns. The last one of each size is kept for the next call.
pub(crate) fn release(
    pool: &Pool,
    lock_context: &LockContext<'_>,
    chunk_cache: &ChunkCache,
    client: ClientId,
    chunk: Chunk,
) -> Result<(), Fault> {
    let layout = pool.layout();
    let slab = layout.slab_meta.row(chunk.0 / SLAB_UNITS)?;
    let class = load_value(pool.map(), field!(slab, SlabMeta, class))?;
    if class == SlabMeta::RUN {
        return release_run(pool, lock_context, chunk, client.word());
    }
    let Some(kept) = class.checked_sub(1).and_then(|class| chunk_cache.kept.get(class as usize))
    else {
        return Err(Fault::corrupt(slab, "a chunk in a slab that holds none"));
    };
    let surplus = kept.swap(chunk.0 + 1, Ordering::Release);
    if surplus != 0 {
        claim_word(pool.map(), Chunk(surplus - 1).owner(layout)?, client.word(), 0)?;
    }
    Ok(())
}

/// Gives back a chunk whose owner cell says `owner`, without keeping it.
pub(crate) fn discard(
    pool: &Pool,
    lock_context: &LockContext<'_>,
    chunk: Chunk,
    owner: u64,
) -> Result<(), Fault> {
    let slab = pool.layout().slab_meta.row(chunk.0 / SLAB_UNITS)?;
    if load_value(pool.map(), field!(slab, SlabMeta, class))? == SlabMeta::RUN {
        return release_run(pool, lock_context, chunk, owner);
    }
    claim_word(pool.map(), chunk.owner(pool.layout())?, owner, 0)?;
    Ok(())
}

fn release_run(
    pool: &Pool,
    lock_context: &LockContext<'_>,
    chunk: Chunk,
    owner: u64,
) -> Result<(), Fault> {
    let layout = pool.layout();
    let first = chunk.0 / SLAB_UNITS;
    with_lock(*lock_context, pool.registry_lock(), "heap-run-free", |txn| {
        let owner_at = chunk.owner(layout)?;
        if txn.get_word(owner_at)? != owner {
            return Ok(());
        }
        let length = txn.get(field!(layout.slab_meta.row(first)?, SlabMeta, run))?;
        if length > LONGEST_RUN {
            return Err(Fault::corrupt(owner_at, "a run of slabs that cannot be"));
        }
        txn.set(owner_at, 0)?;
        for slab in first..first + length {
            txn.set(field!(layout.slab_meta.row(slab)?, SlabMeta, class), 0)?;
        }
        Ok(())
    })
}

/// Takes empty slabs away from their size class. Says whether any became free.
fn reclaim(context: &Context, lock_context: &LockContext<'_>) -> Result<bool, Fault> {
    let (pool, client) = (context.pool(), context.client_id());
    let layout = pool.layout();
    let map = pool.map();
    let mut freed = reclaim_dead(context, lock_context)?;
    for slab in 0..layout.slab_meta.count as u32 {
        let class_at = field!(layout.slab_meta.row(slab)?, SlabMeta, class);
        let class = load_value(map, class_at)?;
        let Some(&units) = class.checked_sub(1).and_then(|c| CHUNK_CLASSES.get(c as usize)) else {
            continue;
        };
        let chunks = SLAB_UNITS / units;
        let first = slab * SLAB_UNITS;
        let empty = (0..chunks).try_fold(true, |empty, nth| {
            let owner = Chunk(first + nth * units).owner(layout)?;
            Ok::<_, Fault>(empty && load_word(map, owner)? == 0)
        })?;
        if !empty {
            continue;
        }
        // Own every chunk, so that no thread takes one while the slab changes hands.
        let mut claimed = 0;
        while claimed < chunks
            && claim_chunk(
                map,
                Chunk(first + claimed * units).owner(layout)?,
                class_at,
                class,
                client,
            )? == Claim::Taken
        {
            claimed += 1;
        }
        if claimed == chunks {
            freed |= with_lock(*lock_context, pool.registry_lock(), "heap-reclaim", |txn| {
                let same = txn.get(class_at)? == class;
                if same {
                    txn.set(class_at, 0)?;
                }
                Ok(same)
            })?;
        }
        // Backwards: as long as any is left, the first one is, which is where `reclaim_slab` looks.
        for nth in (0..claimed).rev() {
            claim_word(map, Chunk(first + nth * units).owner(layout)?, client.word(), 0)?;
        }
    }
    Ok(freed)
}

/// Frees every chunk of a client that died while it joined.
pub(crate) fn reap(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: ClientId,
) -> Result<(), Fault> {
    for slab in 0..context.pool().layout().slab_meta.count as u32 {
        reclaim_slab(context, lock_context, slab, &mut |owner| Ok(owner == client.word()))?;
    }
    Ok(())
}

/// Frees every chunk whose owner has ended. Returns whether there was any.
pub(crate) fn reclaim_dead(
    context: &Context,
    lock_context: &LockContext<'_>,
) -> Result<bool, Fault> {
    let pool = context.pool();
    let mut freed = false;
    for slab in 0..pool.layout().slab_meta.count as u32 {
        freed |= reclaim_slab(context, lock_context, slab, &mut |owner| pool.is_of_dead(owner))?;
    }
    Ok(freed)
}

/// Frees the chunks of a slab whose owner is dead, as `is_dead` says. A chunk with a message that
/// a dead client has sent is kept: it becomes the queue's. Returns whether any owner was dead.
pub(crate) fn reclaim_slab(
    context: &Context,
    lock_context: &LockContext<'_>,
    slab: u32,
    is_dead: &mut dyn FnMut(u64) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let pool = context.pool();
    let layout = pool.layout();
    let map = pool.map();
    let class = load_value(map, field!(layout.slab_meta.row(slab)?, SlabMeta, class))?;
    let first = slab * SLAB_UNITS;
    let first_owner = load_word(map, Chunk(first).owner(layout)?)?;
    let mut freed = false;
    match class {
        SlabMeta::TAIL => return Ok(false),
        SlabMeta::RUN => {
            if is_dead(first_owner)? {
                release_run(pool, lock_context, Chunk(first), first_owner)?;
                freed = true;
            }
            return Ok(freed);
        }
        // A free slab has owned chunks only if a reclaim died halfway, the first one included.
        0 if !is_dead(first_owner)? => return Ok(false),
        _ => {}
    }
    let units = class.checked_sub(1).and_then(|class| CHUNK_CLASSES.get(class as usize));
    // Backwards, for the same reason.
    for unit in (0..SLAB_UNITS).rev() {
        let owner_at = Chunk(first + unit).owner(layout)?;
        let owner = load_word(map, owner_at)?;
        if owner <= IN_OBJECT || !is_dead(owner)? {
            continue;
        }
        // It may carry a message through a ring.
        if units.is_some_and(|units| unit.is_multiple_of(*units)) {
            context.upper_layers.reap_chunk(context, lock_context, Chunk(first + unit), owner)?;
        } else {
            claim_word(map, owner_at, owner, 0)?;
        }
        freed = true;
    }
    Ok(freed)
}

/// Stages a chunk's passage into an object, or out of one to `to`.
pub(crate) fn pass(
    txn: &mut Txn<'_>,
    layout: &Layout,
    chunk: Chunk,
    from: u64,
    to: u64,
) -> Result<(), Fault> {
    let owner = chunk.owner(layout)?;
    if txn.get_word(owner)? != from {
        return Err(Fault::corrupt(owner, "a chunk that belongs to another client"));
    }
    txn.set_word(owner, to)
}

/// Stages the end of a chunk that is part of an object, under the registry lock.
pub(crate) fn free_from_object(
    txn: &mut Txn<'_>,
    layout: &Layout,
    chunk: Chunk,
) -> Result<(), Fault> {
    pass(txn, layout, chunk, IN_OBJECT, 0)?;
    let first = chunk.0 / SLAB_UNITS;
    let class_at = field!(layout.slab_meta.row(first)?, SlabMeta, class);
    if txn.get(class_at)? != SlabMeta::RUN {
        return Ok(());
    }
    let length = txn.get(field!(layout.slab_meta.row(first)?, SlabMeta, run))?;
    if length > LONGEST_RUN {
        return Err(Fault::corrupt(class_at, "a run of slabs that cannot be"));
    }
    for slab in first..first + length {
        txn.set(field!(layout.slab_meta.row(slab)?, SlabMeta, class), 0)?;
    }
    Ok(())
}
