//! Data pages: extents with boundary tags, in bins by size. All under the registry lock.
//!
//! An extent is described in the bookkeeping of its first and its last page, so that a neighbour
//! can be found and merged. Each change is a handful of cells and fits one intent record.

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, Txn, field};
use vshmem_wire::{CELL_BYTES, Layout, PAGE_BINS, PageMeta, Registry};

use crate::pool::fresh;

/// Free extents that are looked at in one bin before the next larger one is taken.
const LOOK: u32 = 64;

/// Pages given to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub first: u32,
    pub pages: u32,
    /// Whether old data may lie in them.
    pub dirty: bool,
}

pub(crate) fn bin_of(pages: u32) -> usize {
    (pages.max(1).ilog2() as usize).min(PAGE_BINS - 1)
}

pub(crate) fn bin_at(layout: &Layout, bin: usize) -> u64 {
    field!(layout.registry, Registry, page_bins) + bin as u64 * CELL_BYTES
}

pub(crate) fn meta(layout: &Layout, page: u32) -> Result<u64, Fault> {
    layout.page_meta.at(page).ok_or(Fault::corrupt(layout.page_meta.offset, "no such data page"))
}

/// One free extent over all pages.
pub(crate) fn format(map: &Map, layout: &Layout) -> Result<(), Fault> {
    let pages = layout.page_meta.count as u32;
    for page in [0, pages - 1] {
        let at = meta(layout, page)?;
        map.store(field!(at, PageMeta, length), fresh(pages), Ordering::Relaxed)?;
        map.store(field!(at, PageMeta, state), fresh(PageMeta::FREE), Ordering::Relaxed)?;
    }
    map.store(bin_at(layout, bin_of(pages)), fresh(1), Ordering::Relaxed)?;
    Ok(())
}

/// Reads a boundary: length and state of the extent that begins or ends at `page`.
fn boundary(txn: &mut Txn<'_>, layout: &Layout, page: u32) -> Result<(u32, u32), Fault> {
    let at = meta(layout, page)?;
    let length = txn.get(field!(at, PageMeta, length))?;
    let state = txn.get(field!(at, PageMeta, state))?;
    Ok((length, state))
}

fn mark(
    txn: &mut Txn<'_>,
    layout: &Layout,
    first: u32,
    pages: u32,
    state: u32,
) -> Result<(), Fault> {
    for page in [first, first + pages - 1] {
        let at = meta(layout, page)?;
        txn.update(field!(at, PageMeta, length), pages)?;
        txn.update(field!(at, PageMeta, state), state)?;
    }
    Ok(())
}

fn link(
    txn: &mut Txn<'_>,
    layout: &Layout,
    first: u32,
    pages: u32,
    state: u32,
) -> Result<(), Fault> {
    mark(txn, layout, first, pages, state)?;
    let bin = bin_at(layout, bin_of(pages));
    let head = txn.get(bin)?;
    let at = meta(layout, first)?;
    txn.update(field!(at, PageMeta, next), head)?;
    txn.update(field!(at, PageMeta, previous), 0)?;
    if head != 0 {
        let after = meta(layout, head - 1)?;
        txn.set(field!(after, PageMeta, previous), first + 1)?;
    }
    txn.set(bin, first + 1)
}

fn unlink(txn: &mut Txn<'_>, layout: &Layout, first: u32, pages: u32) -> Result<(), Fault> {
    let at = meta(layout, first)?;
    let next = txn.get(field!(at, PageMeta, next))?;
    let previous = txn.get(field!(at, PageMeta, previous))?;
    if next != 0 {
        let after = meta(layout, next - 1)?;
        txn.set(field!(after, PageMeta, previous), previous)?;
    }
    if previous != 0 {
        let before = meta(layout, previous - 1)?;
        txn.set(field!(before, PageMeta, next), next)
    } else {
        txn.set(bin_at(layout, bin_of(pages)), next)
    }
}

/// Takes `pages` pages that begin at a multiple of `align`. `None` when there is no such extent.
pub(crate) fn allocate(
    txn: &mut Txn<'_>,
    layout: &Layout,
    pages: u32,
    align: u32,
) -> Result<Option<Extent>, Fault> {
    let limit = layout.page_meta.count as u32;
    if pages == 0 || pages > limit {
        return Ok(None);
    }
    for bin in bin_of(pages)..PAGE_BINS {
        let mut next = txn.get(bin_at(layout, bin))?;
        for _ in 0..LOOK {
            let Some(first) = next.checked_sub(1) else {
                break;
            };
            let (length, state) = boundary(txn, layout, first)?;
            let free = state & 0xff == PageMeta::FREE;
            if !free || length == 0 || length > limit - first.min(limit) {
                return Err(Fault::corrupt(meta(layout, first)?, "a free extent that cannot be"));
            }
            let start = first
                .checked_next_multiple_of(align)
                .filter(|start| start.checked_add(pages).is_some_and(|end| end <= first + length));
            let Some(start) = start else {
                next = txn.get(field!(meta(layout, first)?, PageMeta, next))?;
                continue;
            };
            unlink(txn, layout, first, length)?;
            if start > first {
                link(txn, layout, first, start - first, state)?;
            }
            let end = start + pages;
            if end < first + length {
                link(txn, layout, end, first + length - end, state)?;
            }
            mark(txn, layout, start, pages, PageMeta::USED)?;
            let used = field!(layout.registry, Registry, pages_used);
            let before = txn.get(used)?;
            txn.set(used, before.saturating_add(pages))?;
            return Ok(Some(Extent { first: start, pages, dirty: state & PageMeta::DIRTY != 0 }));
        }
    }
    Ok(None)
}

/// Gives pages back, merged with free neighbours. `dirty` unless nobody can have written to them.
pub(crate) fn release(
    txn: &mut Txn<'_>,
    layout: &Layout,
    first: u32,
    pages: u32,
    dirty: bool,
) -> Result<(), Fault> {
    let limit = layout.page_meta.count as u32;
    let (length, state) = boundary(txn, layout, first)?;
    let fits = pages > 0 && pages <= limit - first.min(limit);
    if state != PageMeta::USED || length != pages || !fits {
        return Err(Fault::corrupt(meta(layout, first)?, "a used extent that cannot be"));
    }
    let mut start = first;
    let mut total = pages;
    let mut merged = if dirty { PageMeta::FREE | PageMeta::DIRTY } else { PageMeta::FREE };
    if first > 0 {
        let (before, state) = boundary(txn, layout, first - 1)?;
        if state & 0xff == PageMeta::FREE && before <= first && before > 0 {
            let (forward, agrees) = boundary(txn, layout, first - before)?;
            if forward == before && agrees == state {
                unlink(txn, layout, first - before, before)?;
                start = first - before;
                total += before;
                merged |= state & PageMeta::DIRTY;
            }
        }
    }
    let end = first + pages;
    if end < limit {
        let (after, state) = boundary(txn, layout, end)?;
        if state & 0xff == PageMeta::FREE && after > 0 && after <= limit - end {
            unlink(txn, layout, end, after)?;
            total += after;
            merged |= state & PageMeta::DIRTY;
        }
    }
    link(txn, layout, start, total, merged)?;
    let used = field!(layout.registry, Registry, pages_used);
    let before = txn.get(used)?;
    txn.set(used, before.saturating_sub(pages))
}
