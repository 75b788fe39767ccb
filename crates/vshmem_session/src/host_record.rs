//! Which file a pool is in, as noted in the pool itself: by this a copy is recognised.

use vshmem_ipc::BackingFileId;
use vshmem_link::{Anonymous, kernel_boot_id};

/// The note about the pool's file.
pub(crate) fn host_record_of(device: u64, inode: u64) -> Result<BackingFileId, Anonymous> {
    Ok(BackingFileId { boot_id: kernel_boot_id()?, device, inode })
}
