//! Making a new pool.

use vshmem_mem::{Map, Ordering};
use vshmem_sync::Fault;
use vshmem_wire::MAGIC;

use crate::memory::extents;
use crate::pool::open::{FormatError, NewPool, Pool};
use crate::pool::tag_floor;

impl Pool {
    /// Lays a pool out in zeroed memory. The magic number is written last, so that no process opens
    /// a pool that is half made.
    ///
    /// # Errors
    /// When a count is out of range, or the map is too short.
    pub fn format(map: &Map, new: &NewPool) -> Result<(), FormatError> {
        let bytes = Self::header(new)?;
        let layout = new.geometry.layout()?;
        extents::format(map, &layout)?;
        tag_floor::format(map, &layout, new.uuid)?;
        map.write(8, &bytes[8..]).map_err(Fault::from)?;
        let magic = u64::from_ne_bytes(MAGIC);
        map.store(0, magic, Ordering::Release).map_err(Fault::from)?;
        Ok(())
    }
}
