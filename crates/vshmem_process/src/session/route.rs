//! Which objects lie in the pool, and which stay with the kernel: `VSHMEM_SHARE`.

use std::ffi::CStr;
use std::sync::OnceLock;

use libc::c_int;
use vshmem_ipc::{Errno, Kind, is_pool_id};
use vshmem_session::{Owner, Posix, Share};
use vshmem_wire::{ID_STRIDE, INDEX_BASE};

use crate::attached::bounds::{LOCKS, SEMAPHORES};
use crate::{errno, log, symbols};

static SHARE: OnceLock<Share> = OnceLock::new();

/// Reads `VSHMEM_SHARE`. At load, before the program can change its environment, and before
/// anything is attached.
pub fn remember() {
    for (what, bounds) in [(Posix::Lock, &LOCKS), (Posix::Semaphore, &SEMAPHORES)] {
        if share().has(what) {
            bounds.follow();
        }
    }
}

fn share() -> &'static Share {
    SHARE.get_or_init(|| {
        // SAFETY: the name is a C string, and so is what libc finds; at load nobody changes it.
        let text = unsafe {
            let text = libc::getenv(c"VSHMEM_SHARE".as_ptr());
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        let Some(text) = text else { return Share::default() };
        let share = Share::parse(&text.to_string_lossy()).unwrap_or_else(|error| {
            // Not the kernel: a program would silently be alone there.
            log::line(&format!("vshmem: VSHMEM_SHARE: {error}; System V's objects are shared\n"));
            Share::default()
        });
        if share.has_posix() && !answers_posix() {
            log::line(
                "vshmem: VSHMEM_SHARE: libvshmem_preload_sysv.so shares System V's objects alone; \
                 libvshmem_preload.so shares POSIX's as well\n",
            );
            return share.without_posix();
        }
        share
    })
}

/// Whether this is the library that has POSIX's calls: of the other, the linker has taken them
/// (`packaging/libvshmem_preload_sysv.map`).
fn answers_posix() -> bool {
    cfg!(test) || !symbols::own(c"shm_open").is_null()
}

/// Whether what POSIX calls so is the pool's.
#[inline]
pub fn posix_in_pool(what: Posix) -> bool {
    share().has(what)
}

/// Whether a POSIX object of this name, without its slash, is the pool's to have, if its kind is.
pub fn takes_name(name: &[u8]) -> bool {
    share().takes_name(name)
}

/// Whose the objects of a kind are.
pub fn owner(kind: Kind) -> Owner {
    share().owner(kind)
}

/// Whether an object of this kind and key lies in the pool.
pub fn key_in_pool(kind: Kind, key: i32) -> bool {
    share().takes(kind, key)
}

/// Whether an id is the pool's to answer for.
#[inline]
pub fn id_in_pool(kind: Kind, id: i32) -> bool {
    match share().owner(kind) {
        Owner::Pool => true,
        Owner::Kernel => false,
        Owner::ByKey => is_pool_id(id),
    }
}

/// Index of an object in the pool, as *_STAT takes it: from 0, or as it is in an id. Like the
/// kernel, this takes whole ids, too.
pub fn index_in_pool(index: c_int) -> u32 {
    let index = index as u32 % ID_STRIDE;
    index.checked_sub(INDEX_BASE).unwrap_or(index)
}

/// An id that the kernel has given out, where keys of the kind lie here and there. One that looks
/// like the pool's could not be distinguished from it afterwards, so the program must not have it;
/// the kernel comes to those with more than 10,900 objects of a kind.
pub fn told_apart(kind: Kind, key: i32, flags: c_int, id: c_int, remove: impl FnOnce()) -> c_int {
    if id == -1 || !is_pool_id(id) || owner(kind) != Owner::ByKey {
        return id;
    }
    let made = flags & libc::IPC_CREAT != 0 && flags & libc::IPC_EXCL != 0;
    if key == libc::IPC_PRIVATE || made {
        remove();
    }
    errno::set(Errno::NOSPC);
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_taken_from_ids_and_as_they_are() {
        for (given, index) in [(0, 0), (7, 7), (16384, 0), (16391, 7), (3 * 32768 + 16391, 7)] {
            assert_eq!(index_in_pool(given), index, "{given}");
        }
    }
}
