//! Data pages: extents in a table of their own, free ones in bins by size. All under the registry
//! lock.
//!
//! The extents of a pool lie end to end and know their neighbours. Two free ones never touch, so
//! the number of segments bounds them, and with them every walk below. The extent in slot 0 begins
//! at page 0: when one is cut, its front keeps the slot; when two are joined, the lower one does.

use std::ops::Range;

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, Txn};
use vshmem_wire::{
    ClientId, ExtentSlot, ExtentState, Layout, PAGE_BINS, Place, RawCell, Registry, field,
};

/// Pages that were handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub slot: u32,
    pub first: u32,
    pub pages: u32,
}

/// An extent as it stands in the table, checked to lie inside the data pages.
#[derive(Debug, Clone, Copy)]
struct Row {
    slot: u32,
    at: Place<ExtentSlot>,
    state: Option<ExtentState>,
    first: u32,
    pages: u32,
    before: u32,
    after: u32,
}

impl Row {
    fn end(&self) -> u32 {
        self.first + self.pages
    }

    fn is(&self, state: ExtentState) -> bool {
        self.state == Some(state)
    }
}

macro_rules! at {
    ($at:expr, $field:ident) => {
        field!($at, ExtentSlot, $field)
    };
}

macro_rules! registry {
    ($layout:expr, $field:ident) => {
        field!($layout.registry, Registry, $field)
    };
}

pub(crate) fn bin_of(pages: u32) -> usize {
    (pages.max(1).ilog2() as usize).min(PAGE_BINS - 1)
}

pub(crate) fn bin_at(layout: &Layout, bin: usize) -> Place<RawCell> {
    registry!(layout, page_bins).element(bin as u64)
}

/// One free extent over all pages.
pub(crate) fn format(map: &Map, layout: &Layout) -> Result<(), Fault> {
    let pages = pages_in(layout);
    let at = layout.extents.row(0)?;
    map.store(at!(at, pages).word(), pages.into(), Ordering::Relaxed)?;
    map.store(at!(at, state).cell().word(), ExtentState::Free as u64, Ordering::Relaxed)?;
    map.store(bin_at(layout, bin_of(pages)).word(), 1, Ordering::Relaxed)?;
    map.store(registry!(layout, extents_high).word(), 1, Ordering::Relaxed)?;
    Ok(())
}

/// Data pages of the pool.
pub(crate) fn pages_in(layout: &Layout) -> u32 {
    layout.data.count as u32
}

fn row(txn: &mut Txn<'_>, layout: &Layout, slot: u32) -> Result<Row, Fault> {
    let at = layout.extents.row(slot)?;
    let row = Row {
        slot,
        at,
        state: txn.state(at!(at, state))?,
        first: txn.get(at!(at, first))?,
        pages: txn.get(at!(at, pages))?,
        before: txn.get(at!(at, before))?,
        after: txn.get(at!(at, after))?,
    };
    let limit = pages_in(layout);
    if row.pages == 0 || row.first >= limit || row.pages > limit - row.first {
        return Err(Fault::corrupt(at, "an extent outside the data pages"));
    }
    Ok(row)
}

fn free_row(txn: &mut Txn<'_>, layout: &Layout, slot: u32) -> Result<Row, Fault> {
    let row = row(txn, layout, slot)?;
    if row.is(ExtentState::Free) {
        Ok(row)
    } else {
        Err(Fault::corrupt(row.at, "a free extent that is not free"))
    }
}

/// An unused slot of the table.
fn take_slot(txn: &mut Txn<'_>, layout: &Layout) -> Result<u32, Fault> {
    let unused_at = registry!(layout, extents_unused);
    let slot = if let Some(slot) = txn.get(unused_at)?.checked_sub(1) {
        let next = txn.get(at!(layout.extents.row(slot)?, next))?;
        txn.set(unused_at, next)?;
        slot
    } else {
        let high_at = registry!(layout, extents_high);
        let high = txn.get(high_at)?;
        if u64::from(high) >= layout.extents.count {
            return Err(Fault::corrupt(high_at, "more extents than segments can need"));
        }
        txn.set(high_at, high + 1)?;
        high
    };
    let at = layout.extents.row(slot)?;
    if txn.state(at!(at, state))? != Some(ExtentState::Unused) {
        return Err(Fault::corrupt(at, "an unused extent slot that is in use"));
    }
    Ok(slot)
}

fn drop_slot(txn: &mut Txn<'_>, layout: &Layout, slot: u32) -> Result<(), Fault> {
    let at = layout.extents.row(slot)?;
    let unused_at = registry!(layout, extents_unused);
    let head = txn.get(unused_at)?;
    txn.update_state(at!(at, state), ExtentState::Unused)?;
    txn.update(at!(at, next), head)?;
    txn.set(unused_at, slot + 1)
}

/// Hangs a free extent into the bin of its size.
fn link(txn: &mut Txn<'_>, layout: &Layout, slot: u32, pages: u32) -> Result<(), Fault> {
    let at = layout.extents.row(slot)?;
    let bin = bin_at(layout, bin_of(pages));
    let head = txn.get(bin)?;
    txn.update(at!(at, next), head)?;
    txn.update(at!(at, previous), 0)?;
    if let Some(head) = head.checked_sub(1) {
        txn.set(at!(layout.extents.row(head)?, previous), slot + 1)?;
    }
    txn.set(bin, slot + 1)
}

fn unlink(txn: &mut Txn<'_>, layout: &Layout, row: &Row) -> Result<(), Fault> {
    let next = txn.get(at!(row.at, next))?;
    let previous = txn.get(at!(row.at, previous))?;
    if let Some(next) = next.checked_sub(1) {
        txn.set(at!(layout.extents.row(next)?, previous), previous)?;
    }
    match previous.checked_sub(1) {
        Some(previous) => txn.set(at!(layout.extents.row(previous)?, next), next),
        None => txn.set(bin_at(layout, bin_of(row.pages)), next),
    }
}

/// Says what lies behind an extent, to both sides.
fn join(txn: &mut Txn<'_>, layout: &Layout, slot: u32, after: u32) -> Result<(), Fault> {
    txn.update(at!(layout.extents.row(slot)?, after), after)?;
    if let Some(after) = after.checked_sub(1) {
        txn.update(at!(layout.extents.row(after)?, before), slot + 1)?;
    }
    Ok(())
}

/// Cuts `pages` pages from `start` out of a free extent.
fn carve(
    txn: &mut Txn<'_>,
    layout: &Layout,
    free: &Row,
    start: u32,
    pages: u32,
    state: ExtentState,
) -> Result<Extent, Fault> {
    let end = start + pages;
    unlink(txn, layout, free)?;
    let slot = if start > free.first {
        let front = start - free.first;
        let slot = take_slot(txn, layout)?;
        txn.update(at!(free.at, pages), front)?;
        link(txn, layout, free.slot, front)?;
        txn.update(at!(layout.extents.row(slot)?, first), start)?;
        join(txn, layout, free.slot, slot + 1)?;
        slot
    } else {
        free.slot
    };
    let at = layout.extents.row(slot)?;
    txn.update_state(at!(at, state), state)?;
    txn.update(at!(at, pages), pages)?;
    if end < free.end() {
        let rest = take_slot(txn, layout)?;
        let rest_at = layout.extents.row(rest)?;
        txn.update_state(at!(rest_at, state), ExtentState::Free)?;
        txn.update(at!(rest_at, first), end)?;
        txn.update(at!(rest_at, pages), free.end() - end)?;
        join(txn, layout, rest, free.after)?;
        join(txn, layout, slot, rest + 1)?;
        link(txn, layout, rest, free.end() - end)?;
    } else {
        join(txn, layout, slot, free.after)?;
    }
    Ok(Extent { slot, first: start, pages })
}

/// Calls `fits` with the free extents of at least `pages` pages' bins, small ones first, until it
/// says where to begin.
fn search(
    txn: &mut Txn<'_>,
    layout: &Layout,
    pages: u32,
    mut fits: impl FnMut(&mut Txn<'_>, &Row) -> Result<Option<u32>, Fault>,
) -> Result<Option<(Row, u32)>, Fault> {
    // Each extent is in one bin: together they hold no more than there are.
    let mut left = layout.extents.count;
    for bin in bin_of(pages)..PAGE_BINS {
        let mut next = txn.get(bin_at(layout, bin))?;
        while let Some(slot) = next.checked_sub(1) {
            left = left
                .checked_sub(1)
                .ok_or(Fault::corrupt(bin_at(layout, bin), "a bin without an end"))?;
            let free = free_row(txn, layout, slot)?;
            if let Some(start) = fits(txn, &free)? {
                return Ok(Some((free, start)));
            }
            next = txn.get(at!(free.at, next))?;
        }
    }
    Ok(None)
}

/// Takes `pages` pages of those in `within`, from a multiple of `align` on. `None` when there is no
/// such extent. `choose` gets where the pages could begin and where the free extent ends, or what
/// of it is wanted, and may begin later.
pub(crate) fn allocate(
    txn: &mut Txn<'_>,
    layout: &Layout,
    pages: u32,
    within: &Range<u32>,
    align: u32,
    mut choose: impl FnMut(u32, u32) -> Result<u32, Fault>,
) -> Result<Option<Extent>, Fault> {
    if pages == 0 || pages > pages_in(layout) {
        return Ok(None);
    }
    let found = search(txn, layout, pages, |_, free| {
        let (first, end) = (free.first.max(within.start), free.end().min(within.end));
        let fits = |start: &u32| start.checked_add(pages).is_some_and(|behind| behind <= end);
        let Some(start) = first.checked_next_multiple_of(align).filter(fits) else {
            return Ok(None);
        };
        let chosen = choose(start, end)?;
        let suits = chosen > start && chosen.is_multiple_of(align) && fits(&chosen);
        Ok(Some(if suits { chosen } else { start }))
    })?;
    let Some((free, start)) = found else { return Ok(None) };
    let extent = carve(txn, layout, &free, start, pages, ExtentState::Used)?;
    let used = registry!(layout, pages_used);
    let before = txn.get(used)?;
    txn.set(used, before.saturating_add(pages))?;
    Ok(Some(extent))
}

/// Gives the pages of a segment back.
pub(crate) fn release(txn: &mut Txn<'_>, layout: &Layout, extent: Extent) -> Result<(), Fault> {
    dissolve(txn, layout, extent, ExtentState::Used)?;
    let used = registry!(layout, pages_used);
    let before = txn.get(used)?;
    txn.set(used, before.saturating_sub(extent.pages))
}

/// Makes an extent free, joined with free neighbours.
fn dissolve(
    txn: &mut Txn<'_>,
    layout: &Layout,
    extent: Extent,
    state: ExtentState,
) -> Result<(), Fault> {
    let row = row(txn, layout, extent.slot)?;
    if !row.is(state) || row.first != extent.first || row.pages != extent.pages {
        return Err(Fault::corrupt(row.at, "an extent that does not match its owner's record"));
    }
    let (mut slot, mut total, mut after) = (row.slot, row.pages, row.after);
    if let Some(neighbour) = neighbour(txn, layout, row.before)? {
        if neighbour.after != row.slot + 1 || neighbour.end() != row.first {
            return Err(Fault::corrupt(neighbour.at, "an extent that overlaps the next"));
        }
        if neighbour.is(ExtentState::Free) {
            unlink(txn, layout, &neighbour)?;
            drop_slot(txn, layout, row.slot)?;
            slot = neighbour.slot;
            total += neighbour.pages;
        }
    }
    if let Some(neighbour) = neighbour(txn, layout, row.after)? {
        if neighbour.before != row.slot + 1 || neighbour.first != row.end() {
            return Err(Fault::corrupt(neighbour.at, "an extent that overlaps the one before"));
        }
        if neighbour.is(ExtentState::Free) {
            unlink(txn, layout, &neighbour)?;
            drop_slot(txn, layout, neighbour.slot)?;
            total += neighbour.pages;
            after = neighbour.after;
        }
    }
    let at = layout.extents.row(slot)?;
    txn.update_state(at!(at, state), ExtentState::Free)?;
    txn.update(at!(at, pages), total)?;
    join(txn, layout, slot, after)?;
    link(txn, layout, slot, total)
}

fn neighbour(txn: &mut Txn<'_>, layout: &Layout, link: u32) -> Result<Option<Row>, Fault> {
    link.checked_sub(1).map(|slot| row(txn, layout, slot)).transpose()
}

/// Takes free pages for `client` to clean: in the order in which segments get them, the first that
/// `dirty` finds in a free extent (first page and pages), as long as fewer than `wanted` that are
/// clean come before them. `None` when there are none, or another thread cleans already.
pub(crate) fn begin_cleaning(
    txn: &mut Txn<'_>,
    layout: &Layout,
    client: ClientId,
    wanted: u64,
    mut dirty: impl FnMut(u32, u32) -> Result<Option<(u32, u32)>, Fault>,
) -> Result<Option<Extent>, Fault> {
    let cleaning_at = registry!(layout, cleaning);
    if txn.get(cleaning_at)? != 0 {
        return Ok(None);
    }
    let mut clean = 0;
    let mut pages = 0;
    let found = search(txn, layout, 1, |txn, free| {
        if clean >= wanted {
            return Ok(None);
        }
        // The marks are read a cell at a time.
        txn.step(free.pages / vshmem_wire::PAGES_PER_MARK)?;
        let Some((start, count)) = dirty(free.first, free.pages)? else {
            clean += u64::from(free.pages);
            return Ok(None);
        };
        clean += u64::from(start - free.first);
        pages = count;
        Ok((clean < wanted).then_some(start))
    })?;
    let Some((free, start)) = found else { return Ok(None) };
    let extent = carve(txn, layout, &free, start, pages, ExtentState::Cleaning)?;
    txn.set(cleaning_at, extent.slot + 1)?;
    txn.set_word(registry!(layout, cleaner), client.word())?;
    Ok(Some(extent))
}

/// Gives back what the client cleans whose client id the word is. False when it cleans nothing.
pub(crate) fn end_cleaning(txn: &mut Txn<'_>, layout: &Layout, client: u64) -> Result<bool, Fault> {
    let (cleaning_at, cleaner_at) = (registry!(layout, cleaning), registry!(layout, cleaner));
    let Some(slot) = txn.get(cleaning_at)?.checked_sub(1) else { return Ok(false) };
    if txn.get_word(cleaner_at)? != client {
        return Ok(false);
    }
    let row = row(txn, layout, slot)?;
    let extent = Extent { slot, first: row.first, pages: row.pages };
    dissolve(txn, layout, extent, ExtentState::Cleaning)?;
    txn.set(cleaning_at, 0)?;
    txn.set(cleaner_at, 0)?;
    Ok(true)
}
