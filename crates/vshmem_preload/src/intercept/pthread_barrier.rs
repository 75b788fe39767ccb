//! pthread_barrier_*(3): those of the pool by their mark, all others libc's. A pthread_spinlock_t
//! is a word that nobody sleeps on: libc's serves in the pool's memory as it is.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_uint, pthread_barrier_t, pthread_barrierattr_t};
use vshmem_ipc::SharedBarrier;
use vshmem_session::Posix;

use crate::next::next;
use crate::process_shared::sleeper::Sleeper;
use crate::process_shared::{barrier_at, new_object_at, number};

unsafe extern "C" {
    fn pthread_barrierattr_getpshared(
        attributes: *const pthread_barrierattr_t,
        to: *mut c_int,
    ) -> c_int;
}

/// pthread_barrier_init(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
    if !attributes.is_null() {
        // SAFETY: attributes that are not null are initialised; the value is written to a live
        // place.
        unsafe { pthread_barrierattr_getpshared(attributes, &raw mut shared) };
    }
    let is_shared = shared == libc::PTHREAD_PROCESS_SHARED;
    // SAFETY: by the caller's contract.
    unsafe {
        if let Some(shared) = new_object_at::<_, SharedBarrier>(barrier, is_shared, Posix::Lock) {
            return number(shared.init(count));
        }
        // libc's leaves the mark of one that was here before as it is.
        if barrier_at(barrier).is_some() {
            let mark = barrier.byte_add(SharedBarrier::MARK_AT).cast::<AtomicU64>();
            (*mark).store(0, Ordering::Relaxed);
        }
    }
    next!(c"pthread_barrier_init":
        fn(*mut pthread_barrier_t, *const pthread_barrierattr_t, c_uint) -> c_int,
        (barrier, attributes, count), libc::ENOSYS)
}

/// pthread_barrier_destroy(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { barrier_at(barrier) } {
        Some(shared) => number(shared.destroy(&Sleeper::uninterrupted())),
        None => next!(c"pthread_barrier_destroy":
            fn(*mut pthread_barrier_t) -> c_int, (barrier), libc::ENOSYS),
    }
}

/// pthread_barrier_wait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { barrier_at(barrier) } {
        Some(shared) => match shared.wait(&Sleeper::uninterrupted()) {
            Ok(true) => libc::PTHREAD_BARRIER_SERIAL_THREAD,
            result => number(result.map(|_| ())),
        },
        None => next!(c"pthread_barrier_wait":
            fn(*mut pthread_barrier_t) -> c_int, (barrier), libc::ENOSYS),
    }
}
