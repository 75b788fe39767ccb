//! pthread_cond_*(3): those in the pool's memory by their address, all others libc's.

use libc::{c_int, clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec};
use vshmem_ipc::{Errno, SharedCondvar, SharedMutex};
use vshmem_mem::{Clock, Deadline, Interruptions, cancellable};

use crate::intercept::by_address::by_address;
use vshmem_process::attached::bounds::LOCKS;
use vshmem_process::next::next;
use vshmem_process::process_shared::sleeper::Sleeper;
use vshmem_process::process_shared::whose::{
    Whose, condvar_at, marked_condvar, mutex_at, new_object_at,
};
use vshmem_process::process_shared::{deadline, number, owner};
use vshmem_process::session::cancel;

unsafe extern "C" {
    fn pthread_condattr_getpshared(attributes: *const pthread_condattr_t, to: *mut c_int) -> c_int;
    fn pthread_condattr_getclock(
        attributes: *const pthread_condattr_t,
        to: *mut clockid_t,
    ) -> c_int;
}

by_address!(pthread_cond_signal, condvar(c"pthread_cond_signal"), libc::ENOSYS, libc::EINVAL,
    LOCKS, condvar_there: pthread_cond_t, signal);
by_address!(pthread_cond_broadcast, condvar(c"pthread_cond_broadcast"), libc::ENOSYS, libc::EINVAL,
    LOCKS, condvar_there: pthread_cond_t, broadcast);

/// pthread_cond_init(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    condvar: *mut pthread_cond_t,
    attributes: *const pthread_condattr_t,
) -> c_int {
    let (mut shared, mut clock) = (libc::PTHREAD_PROCESS_PRIVATE, libc::CLOCK_REALTIME);
    if !attributes.is_null() {
        // SAFETY: attributes that are not null are initialised; the values are written to live
        // places.
        unsafe {
            pthread_condattr_getpshared(attributes, &raw mut shared);
            pthread_condattr_getclock(attributes, &raw mut clock);
        }
    }
    let is_shared = shared == libc::PTHREAD_PROCESS_SHARED;
    // SAFETY: by the caller's contract.
    match unsafe { new_object_at::<_, SharedCondvar>(&LOCKS, condvar, is_shared) } {
        Whose::Pools(shared) => number(deadline::clock(clock).map(|clock| shared.init(clock))),
        Whose::Uninitialised => {
            // One that was here before is no more.
            // SAFETY: as above.
            let _ = unsafe { marked_condvar(condvar) }.map(SharedCondvar::destroy);
            libc::EINVAL
        }
        Whose::Libcs => next!(condvar(c"pthread_cond_init"):
            fn(*mut pthread_cond_t, *const pthread_condattr_t) -> c_int,
            (condvar, attributes), libc::ENOSYS),
    }
}

/// pthread_cond_destroy(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(condvar: *mut pthread_cond_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { condvar_at(condvar) } {
        Whose::Pools(shared) => {
            shared.destroy();
            0
        }
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(condvar(c"pthread_cond_destroy"):
            fn(*mut pthread_cond_t) -> c_int, (condvar), libc::ENOSYS),
    }
}

/// pthread_cond_wait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(
    condvar: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { both_at(condvar, mutex) } {
        Ok(Some((condvar, mutex))) => number(wait(condvar, mutex, None)),
        Ok(None) => next!(condvar(c"pthread_cond_wait"):
            fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int,
            (condvar, mutex), libc::ENOSYS),
        Err(error) => error.raw_os_error(),
    }
}

/// pthread_cond_timedwait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condvar: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { both_at(condvar, mutex) } {
        Ok(Some((condvar, mutex))) => {
            // SAFETY: as above.
            let until = unsafe { deadline::by_shared_clock(condvar.clock(), until) };
            number(until.and_then(|until| wait(condvar, mutex, Some(until))))
        }
        Ok(None) => next!(condvar(c"pthread_cond_timedwait"):
            fn(*mut pthread_cond_t, *mut pthread_mutex_t, *const timespec) -> c_int,
            (condvar, mutex, until), libc::ENOSYS),
        Err(error) => error.raw_os_error(),
    }
}

/// pthread_cond_clockwait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_clockwait(
    condvar: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { both_at(condvar, mutex) } {
        Ok(Some((condvar, mutex))) => {
            // SAFETY: as above.
            let until = deadline::clock(clock)
                .and_then(|clock: Clock| unsafe { deadline::of(clock, until) });
            number(until.and_then(|until| wait(condvar, mutex, Some(until))))
        }
        Ok(None) => next!(c"pthread_cond_clockwait":
            fn(*mut pthread_cond_t, *mut pthread_mutex_t, clockid_t, *const timespec) -> c_int,
            (condvar, mutex, clock, until), libc::ENOSYS),
        Err(error) => error.raw_os_error(),
    }
}

#[inline]
fn signal(condvar: &SharedCondvar) -> c_int {
    condvar.signal(&Sleeper::uninterrupted());
    0
}

#[inline]
fn broadcast(condvar: &SharedCondvar) -> c_int {
    condvar.broadcast(&Sleeper::uninterrupted());
    0
}

/// A condition variable and its mutex, both the pool's; `None` when both are libc's.
///
/// # Safety
/// Objects of libc's types lie there, whosever they are.
unsafe fn both_at<'a>(
    condvar: *const pthread_cond_t,
    mutex: *const pthread_mutex_t,
) -> Result<Option<(&'a SharedCondvar, &'a SharedMutex)>, Errno> {
    // SAFETY: by contract.
    match unsafe { (condvar_at(condvar), mutex_at(mutex)) } {
        (Whose::Pools(condvar), Whose::Pools(mutex)) => Ok(Some((condvar, mutex))),
        (Whose::Libcs, Whose::Libcs) => Ok(None),
        // One is none; or else neither could unlock the other's.
        _ => Err(Errno::INVAL),
    }
}

/// A cancellation point: it acts while the thread holds the mutex.
fn wait(
    condvar: &SharedCondvar,
    mutex: &SharedMutex,
    until: Option<Deadline>,
) -> Result<(), Errno> {
    let me = owner::me_until(until)?;
    let before = Interruptions::now();
    let sleeper = Sleeper::interrupted_once_after(before.count());
    cancel::exit_if_cancelled();
    let result = cancellable(before, || condvar.wait(mutex, me, &sleeper, until));
    if before.have_cancellations() {
        // What woke it may have been a signal, which then is another thread's.
        condvar.signal(&Sleeper::uninterrupted());
        cancel::exit_if_cancelled();
    }
    result
}
