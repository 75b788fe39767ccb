//! Single cells outside any lock.

use vshmem_mem::{Map, Ordering};
use vshmem_wire::Cell;

use crate::Fault;
use crate::crash::claim_point;

/// Byte offset of a field of a structure that lies at `$base`.
#[macro_export]
macro_rules! field {
    ($base:expr, $type:ty, $($field:tt)+) => {
        $base + ::core::mem::offset_of!($type, $($field)+) as u64
    };
}

/// Reads the word of a cell.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_cell(map: &Map, offset: u64) -> Result<u64, Fault> {
    Ok(map.load(offset, Ordering::Acquire)?)
}

/// Reads the value of a cell.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
pub fn load_value(map: &Map, offset: u64) -> Result<u32, Fault> {
    Ok(Cell::unpack(load_cell(map, offset)?).value)
}

/// Takes a word apart.
#[inline]
#[must_use]
pub fn cell(word: u64) -> Cell {
    Cell::unpack(word)
}

/// Changes a cell from one value to another by a single compare-and-swap; says whether it did.
///
/// # Errors
/// When the cell is outside the pool.
#[inline]
#[cfg_attr(feature = "crash-points", track_caller)]
pub fn claim_cell(map: &Map, offset: u64, from: u32, to: u32) -> Result<bool, Fault> {
    let word = load_cell(map, offset)?;
    if Cell::unpack(word).value != from {
        return Ok(false);
    }
    claim_point("before");
    let claimed = map.replace(offset, word, Cell::successor(word, to))?;
    claim_point("after");
    Ok(claimed)
}
