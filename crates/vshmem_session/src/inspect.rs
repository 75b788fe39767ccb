//! Opens a pool to inspect it, without joining it.

use std::sync::Arc;

use vshmem_ipc::Pool;
use vshmem_link::{Link, RegionError};
use vshmem_mem::{Map, Mapping, Protection};

use crate::error::{FindError, SessionError};
use crate::find::{identify, is_trusted};

/// Opens a pool without joining it: enough to inspect it.
///
/// # Errors
/// Says what is wrong with it.
pub fn open_pool(link: &dyn Link) -> Result<Pool, SessionError> {
    let (_, layout) = identify(link)?;
    let bytes = layout.data.offset() as usize;
    let path = link.path().to_owned();
    if vshmem_link::loses_changes(link) {
        return Err(SessionError::Atomics { path });
    }
    let mapping = link.map(0, bytes, Protection::READ_WRITE).map_err(|errno| {
        let (path, tried) = (path.clone(), "map its tables");
        match link.no_room() {
            Some(remedy) if errno == rustix::io::Errno::NOMEM => {
                RegionError::NoRoom { path, tried, errno, remedy }
            }
            _ => RegionError::Failed { path, tried, errno },
        }
    })?;
    let pool = Pool::open(Arc::new(Map::of(mapping)), link.bytes())
        .map_err(|error| FindError::Damaged { path, error })?;
    Ok(pool)
}

/// A copy of a pool's tables as they are now, enough to list it. A file is read and not mapped, so
/// another user who shortens it or makes it large meanwhile cannot harm the caller.
///
/// # Errors
/// Says what is wrong with it.
pub fn snapshot(link: &dyn Link) -> Result<Pool, SessionError> {
    /// Bytes of tables that are read of the caller's own files, or root's: those of a pool of 24
    /// GiB or so.
    const MOST: u64 = 1 << 30;
    /// And of other users'.
    const MOST_OF_OTHERS: u64 = 64 << 20;
    const PORTION: usize = 1 << 20;
    let Some(owner) = link.owner() else { return open_pool(link) };
    let (_, layout) = identify(link)?;
    let path = || link.path().to_owned();
    let bytes = layout.data.offset();
    let most = if is_trusted(owner) { MOST } else { MOST_OF_OTHERS };
    if bytes > most {
        return Err(FindError::Large { path: path(), bytes, most }.into());
    }
    let failed = |tried| move |errno| RegionError::Failed { path: path(), tried, errno };
    let copy = Mapping::anonymous(bytes as usize).map_err(failed("find memory for its tables"))?;
    let copy = Map::of(copy);
    let mut portion = vec![0; PORTION];
    for at in (0..bytes).step_by(PORTION) {
        let wanted = PORTION.min((bytes - at) as usize);
        let read = link.read(at, &mut portion[..wanted]).map_err(failed("read its tables"))?;
        // Pages that are never touched cost nothing.
        if portion[..read].iter().any(|&byte| byte != 0) {
            let _ = copy.write(at, &portion[..read]);
        }
    }
    let pool = Pool::open(Arc::new(copy), link.bytes())
        .map_err(|error| FindError::Damaged { path: path(), error })?;
    Ok(pool)
}
