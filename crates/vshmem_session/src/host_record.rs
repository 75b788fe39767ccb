//! Which file a pool is, as it is written down in it: a copy can be recognised.

use vshmem_ipc::BackingFileId;
use vshmem_link::{Anonymous, domain_facts};

/// The pool's file as it is written down in the pool.
pub(crate) fn host_record_of(device: u64, inode: u64) -> Result<BackingFileId, Anonymous> {
    Ok(BackingFileId { boot_id: domain_facts()?.boot_id, device, inode })
}
