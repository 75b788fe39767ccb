//! pthread_barrier_*(3): those in the pool's memory by their address, all others libc's. A
//! pthread_spinlock_t is a word that nobody sleeps on: libc's serves in the pool's memory as it is.

use libc::{c_int, c_uint, pthread_barrier_t, pthread_barrierattr_t};
use vshmem_ipc::SharedBarrier;

use vshmem_process::attached::bounds::LOCKS;
use vshmem_process::next::next;
use vshmem_process::process_shared::number;
use vshmem_process::process_shared::sleeper::Sleeper;
use vshmem_process::process_shared::whose::{Whose, barrier_at, marked_barrier, new_object_at};

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
    let new = unsafe { new_object_at::<_, SharedBarrier>(&LOCKS, barrier, is_shared) };
    if let Whose::Pools(shared) = new {
        return number(shared.init(count));
    }
    // One that was here before is no more; libc's leaves its mark as it is.
    // SAFETY: as above.
    let _ = unsafe { marked_barrier(barrier) }.map(SharedBarrier::forget);
    if let Whose::Uninitialised = new {
        return libc::EINVAL;
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
        Whose::Pools(shared) => number(shared.destroy(&Sleeper::uninterrupted())),
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_barrier_destroy":
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
        Whose::Pools(shared) => match shared.wait(&Sleeper::uninterrupted()) {
            Ok(true) => libc::PTHREAD_BARRIER_SERIAL_THREAD,
            result => number(result.map(|_| ())),
        },
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_barrier_wait":
            fn(*mut pthread_barrier_t) -> c_int, (barrier), libc::ENOSYS),
    }
}
