//! Single cells outside any lock.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::{Cell, Place, RawCell, State, StateCell};

use crate::crash::claim_point;
use crate::fault::Fault;

/// A structure at `$place` of a view, found and checked once: its fields are then read without
/// another check.
#[macro_export]
macro_rules! structure {
    ($map:expr, $place:expr, $type:ty) => {
        $map.words_ref::<{ ::core::mem::size_of::<$type>() / ::core::mem::size_of::<u64>() }>(
            <::vshmem_wire::Place<$type>>::offset($place),
        )
    };
}

/// Reads a cell, word and tag of one moment.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_cell(map: &Map, at: Place<RawCell>) -> Result<Cell, Fault> {
    Ok(map.load_cell(at)?)
}

/// Reads the word of a cell.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_word(map: &Map, at: Place<RawCell>) -> Result<u64, Fault> {
    Ok(map.load(at.word(), Ordering::Acquire)?)
}

/// Reads the number of 32 bits in a cell.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_value(map: &Map, at: Place<RawCell>) -> Result<u32, Fault> {
    Ok(load_word(map, at)? as u32)
}

/// Reads which state a cell says; `None` when that is none: a peer has written it.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_state<S: State>(map: &Map, at: Place<StateCell<S>>) -> Result<Option<S>, Fault> {
    load_value(map, at.cell()).map(S::of)
}

/// Changes a cell from one number of 32 bits to another by a single compare-and-swap; says whether
/// it did.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
#[cfg_attr(feature = "crash-points", track_caller)]
pub fn claim_cell(map: &Map, at: Place<RawCell>, from: u32, to: u32) -> Result<bool, Fault> {
    let seen = load_cell(map, at)?;
    if seen.value() == from { claim(map, at, seen, to.into()) } else { Ok(false) }
}

/// Changes a cell from one word to another by a single compare-and-swap; says whether it did.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
#[cfg_attr(feature = "crash-points", track_caller)]
pub fn claim_word(map: &Map, at: Place<RawCell>, from: u64, to: u64) -> Result<bool, Fault> {
    let seen = load_cell(map, at)?;
    if seen.word == from { claim(map, at, seen, to) } else { Ok(false) }
}

#[inline]
#[cfg_attr(feature = "crash-points", track_caller)]
fn claim(map: &Map, at: Place<RawCell>, seen: Cell, to: u64) -> Result<bool, Fault> {
    claim_point("before");
    let claimed = map.replace_cell(at, seen, to)?;
    claim_point("after");
    Ok(claimed)
}
