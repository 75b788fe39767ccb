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
    /// `None` where that name is the kernel's, or none: what a hostile member has written into the
    /// pool must not lead a program elsewhere.
    pub fn of(name: &[u8]) -> Option<Self> {
        let is_none = matches!(name, b"" | b"." | b"..") || name.contains(&b'/');
        if is_none || name.contains(&0) || !is_the_pools(name) {
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
fn is_the_pools(name: &[u8]) -> bool {
    if OF_POOLS.iter().any(|beginning| name.starts_with(beginning)) {
        return false;
    }
    match name.strip_prefix(SEMAPHORE) {
        Some(name) => route::posix_in_pool(Posix::Semaphore) && route::takes_name(name),
        None => route::takes_name(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pools_and_what_is_no_name_are_not_the_pools() {
        for name in ["x", "vshmem", "a.vshmem.b", "..."] {
            assert_eq!(Name::of(name.as_bytes()).unwrap().bytes(), name.as_bytes());
        }
        let others = ["", ".", "..", "a/b", "../x", "a\0b", "vshmem.x", "vshmem-wait", ".vshmem-x"];
        for name in others.into_iter().chain([&*"x".repeat(256), "sem.x"]) {
            assert!(Name::of(name.as_bytes()).is_none(), "{name}");
        }
    }
}
