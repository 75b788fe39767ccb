//! Tags of cells that are laid into the heap.
//!
//! A cell's tag must never have been at its place before, or the thread that was stopped since then
//! would find what it expects. In the tables cells stay cells for ever. The heap is different:
//! where a semaphore was, there is a message next, and then another semaphore. So no thread gives
//! such memory back before all cells in it are closed, which is the last time that they are
//! written, and the pool's *floor* is above their tags; and the thread that lays cells there starts
//! above the floor.
//!
//! The floor of a new pool is a random number of 62 bits. So what a message holds, in memory that
//! was cells, is not what a thread that is late expects there, but by a chance of one in 2^62.

use vshmem_mem::Map;
use vshmem_sync::{Fault, field, load_cell};
use vshmem_wire::{CELL_BYTES, Cell, Layout, Registry};

/// How often a raise is tried: the thread that comes between has raised it, too.
const MOST_TRIES: u32 = 1 << 16;

fn tag_floor_at(layout: &Layout) -> u64 {
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
    base: u64,
    count: u32,
    word: u64,
) -> Result<u64, Fault> {
    // Read after the memory was claimed: the thread that had it before has raised it before giving
    // it back.
    let tag = load_cell(map, tag_floor_at(layout))?.word.wrapping_add(1);
    for number in 0..u64::from(count) {
        map.lay_cell(base + number * CELL_BYTES, Cell { word, tag })?;
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
