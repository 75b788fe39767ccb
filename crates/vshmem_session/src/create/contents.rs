//! What lies in the file of a new pool: a label, the tables, and memory that is there before it is
//! asked for.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use vshmem_ipc::{NewPool, Pool};
use vshmem_link::{DAX_FRONT, dax_label};
use vshmem_mem::{Map, Mapping, Protection, map_file};
use vshmem_wire::PAGE_BYTES;

use super::plan::Plan;
use super::request::CreateRequest;
use crate::host_record::host_record_of;

/// Writes the tables of a pool into a file of zeros; a process that opens it meanwhile finds no
/// pool.
pub fn write_pool(
    file: &File,
    plan: &Plan,
    request: &CreateRequest,
    (owner_uid, mode): (u32, u32),
) -> std::io::Result<()> {
    let Plan { geometry, layout, front, total, node_ranges, .. } = *plan;
    let page = request.huge_page.unwrap_or(PAGE_BYTES);
    let new = NewPool {
        name: request.name.clone(),
        uuid: request.uuid.unwrap_or_else(|| *uuid::Uuid::new_v4().as_bytes()),
        geometry,
        owner_uid,
        mode,
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        evict_after: request.evict_after,
        prepare: request.prepare,
        backed: request.backed,
        node_ranges,
        signing_key: uuid::Uuid::new_v4().as_u128(),
    };
    if request.dax {
        write_label(file, total, &new.uuid, page)?;
    }
    lay_out(file, front, layout.data.offset(), &new, page)?;
    write_host_record(file, front, page)
}

/// Maps a part of a file, with what lies around it in pages of `page` bytes: hugetlbfs maps whole
/// ones.
fn map_part(file: &File, offset: u64, bytes: u64, page: u64) -> std::io::Result<Mapping> {
    let start = offset / page * page;
    let length = (offset + bytes).next_multiple_of(page) - start;
    let mapping = map_file(file.as_fd(), start, length as usize, Protection::READ_WRITE)?;
    Ok(mapping.narrowed((offset - start) as usize, bytes as usize))
}

/// Through a mapping: hugetlbfs has no write.
fn write_label(file: &File, total: u64, uuid: &[u8; 16], page: u64) -> std::io::Result<()> {
    let mapping = map_part(file, 0, DAX_FRONT, page)?;
    let outside = |_| std::io::Error::from(Errno::INVAL);
    Map::of(mapping).write(0, &dax_label(total, uuid)).map_err(outside)
}

fn lay_out(file: &File, front: u64, bytes: u64, new: &NewPool, page: u64) -> std::io::Result<()> {
    let mapping = map_part(file, front, bytes, page)?;
    Pool::format(&Map::of(mapping), new).map_err(std::io::Error::other)
}

/// Writes down which file the pool is, so that a copy can be recognised.
fn write_host_record(file: &File, front: u64, page: u64) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let facts = file.metadata()?;
    let mapping = map_part(file, front, PAGE_BYTES, page)?;
    host_record_of(facts.dev(), facts.ino())
        .map_err(std::io::Error::other)?
        .write(&Map::of(mapping))
        .map_err(|_| std::io::ErrorKind::InvalidInput.into())
}

/// Writes zeros into the pages that the first segments will get: they are backed already, and the
/// kernel would clear each at its first touch.
pub fn touch(file: &File, offset: u64, bytes: u64) -> std::io::Result<()> {
    const PORTION: u64 = 4 << 20;
    for at in (0..bytes).step_by(PORTION as usize) {
        let length = PORTION.min(bytes - at) as usize;
        let mapping = map_file(file.as_fd(), offset + at, length, Protection::READ_WRITE)?;
        Map::of(mapping).zero(0, length).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    }
    Ok(())
}

/// Whether nothing was ever written to a file.
pub fn is_all_zeros(file: &File) -> std::io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut portion = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match file.read_at(&mut portion, at)? {
            0 => return Ok(true),
            read if portion[..read].iter().any(|&byte| byte != 0) => return Ok(false),
            read => at += read as u64,
        }
    }
}
