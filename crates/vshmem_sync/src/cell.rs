//! Single cells outside any lock.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::Cell;

use crate::crash::claim_point;
use crate::fault::Fault;

/// Byte offset of a field of a structure that lies at `$base`.
#[macro_export]
macro_rules! field {
    ($base:expr, $type:ty, $($field:tt)+) => {
        $base + ::core::mem::offset_of!($type, $($field)+) as u64
    };
}

pub(crate) use field;

/// A structure at `$offset` of a view, found and checked once: its fields are then read without
/// another check.
#[macro_export]
macro_rules! structure {
    ($map:expr, $offset:expr, $type:ty) => {
        $map.words_ref::<{ ::core::mem::size_of::<$type>() / ::core::mem::size_of::<u64>() }>(
            $offset,
        )
    };
}

/// Reads a cell, word and tag of one moment.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_cell(map: &Map, offset: u64) -> Result<Cell, Fault> {
    Ok(map.load_cell(offset)?)
}

/// Reads the word of a cell.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_word(map: &Map, offset: u64) -> Result<u64, Fault> {
    Ok(map.load(offset, Ordering::Acquire)?)
}

/// Reads the number of 32 bits in a cell.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_value(map: &Map, offset: u64) -> Result<u32, Fault> {
    Ok(load_word(map, offset)? as u32)
}

/// Changes a cell from one number of 32 bits to another by a single compare-and-swap; says whether
/// it did.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
#[cfg_attr(feature = "crash-points", track_caller)]
pub fn claim_cell(map: &Map, offset: u64, from: u32, to: u32) -> Result<bool, Fault> {
    let seen = load_cell(map, offset)?;
    if seen.value() == from { claim(map, offset, seen, to.into()) } else { Ok(false) }
}

/// Changes a cell from one word to another by a single compare-and-swap; says whether it did.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
#[cfg_attr(feature = "crash-points", track_caller)]
pub fn claim_word(map: &Map, offset: u64, from: u64, to: u64) -> Result<bool, Fault> {
    let seen = load_cell(map, offset)?;
    if seen.word == from { claim(map, offset, seen, to) } else { Ok(false) }
}

#[inline]
#[cfg_attr(feature = "crash-points", track_caller)]
fn claim(map: &Map, offset: u64, seen: Cell, to: u64) -> Result<bool, Fault> {
    claim_point("before");
    let claimed = map.replace_cell(offset, seen, to)?;
    claim_point("after");
    Ok(claimed)
}
