//! Pages prepared ahead: old data overwritten with zeros before any thread asks for the pages.

use vshmem_sync::{Fault, LockContext, crash_point, load_value, load_word};
use vshmem_wire::{PAGE_BYTES, Registry, field};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::backing::Backing;
use crate::memory::extents::{self, Extent};
use crate::memory::{change, dirty};

/// Pages that are cleaned at once: while they are, no thread can have them.
const PORTION: u32 = 256;

/// Writes zeros into free pages that hold old data, in the order in which segments will get them,
/// as long as fewer than `wanted` bytes of clean ones come before them. At most a mebibyte per
/// call; returns how many bytes were cleaned, 0 when there is nothing to do or another thread does
/// it.
pub(crate) fn clean_pages(
    context: &Context,
    wanted: u64,
    backing: &dyn Backing,
) -> Result<u64, Failure> {
    let pool = context.pool();
    let (layout, map) = (pool.layout(), pool.map());
    let slot_guard = context.slot_guard()?;
    let lock_context = context.lock_context_of(&slot_guard);
    let begun = change::run(context, &lock_context, pool.registry_lock(), "clean-begin", |txn| {
        let pages = wanted.div_ceil(PAGE_BYTES);
        extents::begin_cleaning(txn, layout, context.client_id(), pages, |first, pages| {
            dirty::first_dirty(map, layout, first, pages, PORTION)
        })
    })?;
    let Some(extent) = begun else { return Ok(0) };
    let bytes = u64::from(extent.pages) * PAGE_BYTES;
    let cleaned = clean(context, extent, bytes, backing);
    release_cleaning(context, &lock_context, context.client_id().word())?;
    cleaned.map(|()| bytes)
}

fn clean(
    context: &Context,
    extent: Extent,
    bytes: u64,
    backing: &dyn Backing,
) -> Result<(), Failure> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let base = layout.data.offset() + u64::from(extent.first) * PAGE_BYTES;
    backing.prepare(base, bytes, true)?;
    crash_point("clean", "zeroed");
    // Declared dead meanwhile: the pages may belong to another client now.
    let cleaner = field!(layout.registry, Registry, cleaner);
    if load_word(map, cleaner)? != context.client_id().word() {
        return Err(Fault::Evicted.into());
    }
    // The zeros come before the marks: each of these is a compare-and-swap that releases.
    dirty::mark(map, layout, extent.first, extent.pages, false)?;
    crash_point("clean", "marked");
    Ok(())
}

/// Gives back what a client was cleaning, if anything; by the word of its client id.
pub(crate) fn release_cleaning(
    context: &Context,
    lock_context: &LockContext<'_>,
    client: u64,
) -> Result<(), Fault> {
    let pool = context.pool();
    let layout = pool.layout();
    let cleaner = field!(layout.registry, Registry, cleaner);
    if load_word(pool.map(), cleaner)? != client {
        return Ok(());
    }
    vshmem_sync::with_lock(*lock_context, pool.registry_lock(), "clean-end", |txn| {
        extents::end_cleaning(txn, layout, client).map(drop)
    })
}

/// Whether pages are being cleaned just now, and so missing.
pub(super) fn somebody_cleans(context: &Context) -> Result<bool, Failure> {
    let cleaning = field!(context.pool().layout().registry, Registry, cleaning);
    Ok(load_value(context.pool().map(), cleaning)? != 0)
}
