//! Tags of cells that are laid into the heap.
//!
//! A new cell must have a tag that no cell at its place has had before: otherwise a thread that was
//! stopped since then would find what it expects. In the tables cells stay cells for ever. The heap
//! is different: where a semaphore was, there is a message next, and then another semaphore. So a
//! thread frees such memory only when all cells in it are closed, which is their last write, and
//! the pool's *floor* is above their tags. A thread that makes new cells there starts above the
//! floor.
//!
//! The floor of a new pool is a random number of 62 bits. So a message in memory that held cells is
//! what a late thread expects there only by a chance of one in 2^62.

use vshmem_mem::Map;
use vshmem_sync::{Fault, load_cell};
use vshmem_wire::{Cell, Layout, Place, RawCell, Registry, field};

/// How often raising the floor is tried. An attempt fails only when another thread has raised it.
const MOST_TRIES: u32 = 1 << 16;

fn tag_floor_at(layout: &Layout) -> Place<RawCell> {
    field!(layout.registry, Registry, tag_floor)
}

/// The floor of a new pool.
pub(crate) fn format(map: &Map, layout: &Layout, uuid: [u8; 16]) -> Result<(), Fault> {
    let start = (u128::from_ne_bytes(uuid) >> 64) as u64 ^ u128::from_ne_bytes(uuid) as u64;
    Ok(map.lay_cell(tag_floor_at(layout), Cell { word: start >> 2, tag: 0 })?)
}

/// Lays `count` cells of one word into memory that has just become the caller's; returns the tag
/// that each of them has.
pub(crate) fn lay_cells(
    map: &Map,
    layout: &Layout,
    base: Place<RawCell>,
    count: u32,
    word: u64,
) -> Result<u64, Fault> {
    // Read after the memory was claimed: its last owner raised the floor before freeing it.
    let tag = load_cell(map, tag_floor_at(layout))?.word.wrapping_add(1);
    for number in 0..u64::from(count) {
        map.lay_cell(base.nth(number), Cell { word, tag })?;
    }
    Ok(tag)
}

/// Raises the floor above `tag`, that of a cell which is closed and may be written once more, by a
/// change that is staged.
pub(crate) fn raise(map: &Map, layout: &Layout, tag: u64) -> Result<(), Fault> {
    let (at, above) = (tag_floor_at(layout), tag.wrapping_add(1));
    for _ in 0..MOST_TRIES {
        let seen = load_cell(map, at)?;
        if seen.word >= above || map.replace_cell(at, seen, above)? {
            return Ok(());
        }
    }
    Err(Fault::corrupt(at, "a cell that never stays the same"))
}
