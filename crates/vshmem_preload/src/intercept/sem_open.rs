//! sem_open(3), sem_close(3), sem_unlink(3).

use std::ffi::{CStr, c_char};

use libc::{c_int, c_uint, mode_t, sem_t};
use vshmem_ipc::Errno;
use vshmem_session::Posix;
use vshmem_wire::NAME_BYTES;

use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::posix::{name, umask};
use vshmem_process::process_shared::named_semaphores::{self, How, SemaphoreName};
use vshmem_process::session::cancel::uncancelled;
use vshmem_process::session::route;

/// sem_open(3). The last two arguments are C's variadic ones, which travel like these.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_open(
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
    value: c_uint,
) -> *mut sem_t {
    // SAFETY: by the caller's contract.
    if !unsafe { name::in_pool(Posix::Semaphore, name) } {
        return next!(c"sem_open": fn(*const c_char, c_int, mode_t, c_uint) -> *mut sem_t,
                     (name, flags, mode, value), libc::SEM_FAILED);
    }
    // SAFETY: by the caller's contract.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let create = flags & libc::O_CREAT != 0;
    let open = |name| {
        let exclusive = create && flags & libc::O_EXCL != 0;
        let mode = if create { mode & !umask::current() } else { 0 };
        let how = How { create, exclusive, mode, value };
        errno::untouched(|| named_semaphores::open(&name, how))
    };
    let opened = SemaphoreName::of(text).and_then(|name| uncancelled(|| open(name)));
    match opened {
        Ok(semaphore) => semaphore.as_ptr().cast(),
        Err(error) => {
            errno::set(error);
            libc::SEM_FAILED
        }
    }
}

/// sem_close(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_close(semaphore: *mut sem_t) -> c_int {
    if route::posix_in_pool(Posix::Semaphore)
        && errno::untouched(|| uncancelled(|| named_semaphores::close(semaphore))).is_some()
    {
        return 0;
    }
    next!(c"sem_close": fn(*mut sem_t) -> c_int, (semaphore), -1)
}

/// sem_unlink(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_unlink(name: *const c_char) -> c_int {
    // SAFETY: by the caller's contract.
    if !unsafe { name::in_pool(Posix::Semaphore, name) } {
        return next!(c"sem_unlink": fn(*const c_char) -> c_int, (name), -1);
    }
    // SAFETY: by the caller's contract.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    errno::answer_unit(match SemaphoreName::of(text) {
        // As glibc: nothing has a name that is too long even without its prefix.
        Err(Errno::NAMETOOLONG) if trimmed_start(text).len() > NAME_BYTES => Err(Errno::NOENT),
        Err(Errno::INVAL) => Err(Errno::NOENT),
        Ok(name) => uncancelled(|| named_semaphores::unlink(&name)),
        Err(error) => Err(error),
    })
}

fn trimmed_start(name: &[u8]) -> &[u8] {
    let first = name.iter().position(|&byte| byte != b'/').unwrap_or(name.len());
    &name[first..]
}
