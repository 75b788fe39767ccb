//! Which names below /dev/shm are the pool's.

use vshmem_session::Posix;
use vshmem_wire::NAME_BYTES;

use crate::session::route;

/// What the names of named semaphores begin with.
const SEMAPHORE: &[u8] = b"sem.";
/// What the names of files begin with in which the kernel has pools.
const OF_POOLS: [&[u8]; 3] = [b"vshmem.", b"vshmem-", b".vshmem"];

/// The name of a file directly below /dev/shm that is the pool's, if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Name {
    /// `None` where that name is the kernel's, or none.
    pub fn of(name: &[u8]) -> Option<Self> {
        if matches!(name, b"" | b"." | b"..") || !is_the_pools(name) {
            return None;
        }
        let mut bytes = [0; NAME_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self { bytes, length: name.len() })
    }

    /// The name.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Whether a name is the pool's to have.
pub fn is_the_pools(name: &[u8]) -> bool {
    if OF_POOLS.iter().any(|beginning| name.starts_with(beginning)) {
        return false;
    }
    match name.strip_prefix(SEMAPHORE) {
        Some(name) => route::posix_in_pool(Posix::Semaphore) && route::takes_name(name),
        None => route::takes_name(name),
    }
}
