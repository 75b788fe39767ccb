//! shm_open(3) and shm_unlink(3).

use libc::{c_char, c_int, mode_t};
use vshmem_session::Posix;

use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::posix::{name, shared_memory};
use vshmem_process::session::cancel::uncancelled;

/// shm_open(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: by the caller's contract.
    if !unsafe { name::in_pool(Posix::SharedMemory, name) } {
        return next!(c"shm_open": fn(*const c_char, c_int, mode_t) -> c_int,
                     (name, flags, mode), -1);
    }
    // SAFETY: by this function's own contract.
    let name = unsafe { name::read(name) };
    errno::answer_int(name.and_then(|name| uncancelled(|| shared_memory::open(name, flags, mode))))
}

/// shm_unlink(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shm_unlink(name: *const c_char) -> c_int {
    // SAFETY: by the caller's contract.
    if !unsafe { name::in_pool(Posix::SharedMemory, name) } {
        return next!(c"shm_unlink": fn(*const c_char) -> c_int, (name), -1);
    }
    // SAFETY: by this function's own contract.
    let name = unsafe { name::read_to_unlink(name) };
    errno::answer_unit(name.and_then(|name| uncancelled(|| shared_memory::unlink(name))))
}
