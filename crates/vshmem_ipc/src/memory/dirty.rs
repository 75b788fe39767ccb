//! Which data pages may hold old data: a bit each.
//!
//! A page's bit is changed by the client that the page belongs to at the time, outside any lock:
//! set before a segment that has the page is published, cleared after zeros have been written.
//! Pages of other owners share the cell, so each change is a compare-and-swap. A crash at any step
//! leaves at worst a clean page marked dirty.

use vshmem_mem::Map;
use vshmem_sync::{Fault, load_cell, load_value};
use vshmem_wire::{Layout, PAGES_PER_MARK, Place, RawCell};

/// How often a change of a cell is tried: others change other bits of it now and then.
const MOST_TRIES: u32 = 10_000;

fn mark_at(layout: &Layout, page: u32) -> Result<Place<RawCell>, Fault> {
    Ok(layout.dirty.row(page / PAGES_PER_MARK)?)
}

/// Pages from `page` whose bits share its cell, at most `most`, and those bits.
fn bits(page: u32, most: u32) -> (u32, u32) {
    let skip = page % PAGES_PER_MARK;
    let count = (PAGES_PER_MARK - skip).min(most);
    (count, (u32::MAX >> (PAGES_PER_MARK - count)) << skip)
}

/// How many pages from `first`, `pages` at most, are alike; and whether they are dirty.
pub(crate) fn run(
    map: &Map,
    layout: &Layout,
    first: u32,
    pages: u32,
) -> Result<(u32, bool), Fault> {
    let (mut length, mut dirty) = (0, false);
    while length < pages {
        let page = first + length;
        let (count, _) = bits(page, pages - length);
        let marks = load_value(map, mark_at(layout, page)?)? >> (page % PAGES_PER_MARK);
        if length == 0 {
            dirty = marks & 1 == 1;
        }
        let alike = if dirty { marks.trailing_ones() } else { marks.trailing_zeros() };
        length += alike.min(count);
        if alike < count {
            break;
        }
    }
    Ok((length, dirty))
}

/// The first dirty run within pages, cut off at `most`: first page and pages.
pub(crate) fn first_dirty(
    map: &Map,
    layout: &Layout,
    first: u32,
    pages: u32,
    most: u32,
) -> Result<Option<(u32, u32)>, Fault> {
    let (clean, dirty) = run(map, layout, first, pages)?;
    if dirty {
        return Ok(Some((first, clean.min(most))));
    }
    if clean >= pages {
        return Ok(None);
    }
    let start = first + clean;
    let (length, _) = run(map, layout, start, (pages - clean).min(most))?;
    Ok(Some((start, length)))
}

/// Where `pages` clean pages begin at a multiple of `align` between two pages, if that is seen
/// soon.
pub(crate) fn clean_place(
    map: &Map,
    layout: &Layout,
    first: u32,
    end: u32,
    pages: u32,
    align: u32,
) -> Result<Option<u32>, Fault> {
    /// Runs that are looked at, and pages of one: this is done under a lock.
    const RUNS: u32 = 64;
    const LONGEST: u32 = 4096;
    let mut page = first;
    for _ in 0..RUNS {
        if page >= end || end - page < pages {
            break;
        }
        let (length, dirty) = run(map, layout, page, pages.max(LONGEST).min(end - page))?;
        if !dirty && length >= pages {
            return Ok(Some(page));
        }
        match (page + length).checked_next_multiple_of(align) {
            Some(next) => page = next,
            None => break,
        }
    }
    Ok(None)
}

/// Marks pages dirty, or clean. They must be the caller's.
pub(crate) fn mark(
    map: &Map,
    layout: &Layout,
    first: u32,
    pages: u32,
    dirty: bool,
) -> Result<(), Fault> {
    let mut done = 0;
    while done < pages {
        let (count, bits) = bits(first + done, pages - done);
        let at = mark_at(layout, first + done)?;
        change(map, at, bits, dirty)?;
        done += count;
    }
    Ok(())
}

fn change(map: &Map, at: Place<RawCell>, bits: u32, dirty: bool) -> Result<(), Fault> {
    for _ in 0..MOST_TRIES {
        let seen = load_cell(map, at)?;
        let before = seen.value();
        let after = if dirty { before | bits } else { before & !bits };
        if before == after || map.replace_cell(at, seen, after.into())? {
            return Ok(());
        }
    }
    Err(Fault::corrupt(at, "a cell that never stays the same"))
}

/// Dirty pages among `pages` from `first`.
pub(crate) fn count(map: &Map, layout: &Layout, first: u32, pages: u32) -> Result<u64, Fault> {
    let (mut done, mut dirty) = (0, 0);
    while done < pages {
        let (count, bits) = bits(first + done, pages - done);
        let marks = load_value(map, mark_at(layout, first + done)?)?;
        dirty += u64::from((marks & bits).count_ones());
        done += count;
    }
    Ok(dirty)
}
