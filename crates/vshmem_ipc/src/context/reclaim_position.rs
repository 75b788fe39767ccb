//! How far this process has looked through the tables for what dead clients left.

use vshmem_mem::AtomicU32;

/// Where the next round goes on.
#[derive(Debug, Default)]
pub(crate) struct ReclaimPosition {
    pub threads: AtomicU32,
    pub undos: AtomicU32,
    pub slabs: AtomicU32,
}
