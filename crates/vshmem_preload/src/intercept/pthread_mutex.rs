//! pthread_mutex_*(3): those in the pool's memory by their address, all others libc's.

use libc::{c_int, clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use vshmem_ipc::{Errno, MutexKind, MutexType, SharedMutex};
use vshmem_mem::{Clock, Deadline};

use crate::intercept::by_address::by_address;
use vshmem_process::attached::bounds::LOCKS;
use vshmem_process::next::next;
use vshmem_process::process_shared::sleeper::Sleeper;
use vshmem_process::process_shared::whose::{Whose, marked_mutex, mutex_at, new_object_at};
use vshmem_process::process_shared::{deadline, number, owner, robust_mutexes};

unsafe extern "C" {
    fn pthread_mutexattr_getpshared(
        attributes: *const pthread_mutexattr_t,
        to: *mut c_int,
    ) -> c_int;
    fn pthread_mutexattr_gettype(attributes: *const pthread_mutexattr_t, to: *mut c_int) -> c_int;
    fn pthread_mutexattr_getrobust(attributes: *const pthread_mutexattr_t, to: *mut c_int)
    -> c_int;
    fn pthread_mutexattr_getprotocol(
        attributes: *const pthread_mutexattr_t,
        to: *mut c_int,
    ) -> c_int;
}

by_address!(pthread_mutex_lock, new(c"pthread_mutex_lock"), libc::ENOSYS, libc::EINVAL,
    LOCKS, mutex_there: pthread_mutex_t, lock);
by_address!(pthread_mutex_trylock, new(c"pthread_mutex_trylock"), libc::ENOSYS, libc::EINVAL,
    LOCKS, mutex_there: pthread_mutex_t, try_lock_now);
by_address!(pthread_mutex_unlock, new(c"pthread_mutex_unlock"), libc::ENOSYS, libc::EINVAL,
    LOCKS, mutex_there: pthread_mutex_t, unlock);

/// What reads one of a mutex's attributes.
type Attribute = unsafe extern "C" fn(*const pthread_mutexattr_t, *mut c_int) -> c_int;

/// An attribute; 0 for all of a mutex without.
///
/// # Safety
/// `attributes` is null or initialised.
unsafe fn attribute(attributes: *const pthread_mutexattr_t, read: Attribute) -> c_int {
    let mut value = 0;
    if !attributes.is_null() {
        // SAFETY: by contract; the value is written to a live place.
        unsafe { read(attributes, &raw mut value) };
    }
    value
}

/// pthread_mutex_init(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    // SAFETY: by the caller's contract.
    let new = unsafe {
        let shared = attribute(attributes, pthread_mutexattr_getpshared);
        let is_shared = shared == libc::PTHREAD_PROCESS_SHARED;
        new_object_at::<_, SharedMutex>(&LOCKS, mutex, is_shared)
    };
    match new {
        // SAFETY: as above.
        Whose::Pools(new) => number(unsafe { init(new, attributes) }),
        Whose::Uninitialised => {
            // One that was here before is no more.
            // SAFETY: as above.
            let _ = unsafe { marked_mutex(mutex) }.map(SharedMutex::forget);
            libc::EINVAL
        }
        Whose::Libcs => next!(c"pthread_mutex_init":
            fn(*mut pthread_mutex_t, *const pthread_mutexattr_t) -> c_int,
            (mutex, attributes), libc::ENOSYS),
    }
}

/// # Safety
/// `attributes` is null or initialised.
unsafe fn init(shared: &SharedMutex, attributes: *const pthread_mutexattr_t) -> Result<(), Errno> {
    // SAFETY: by contract.
    let read = |what| unsafe { attribute(attributes, what) };
    // Priorities of threads mean nothing in another kernel.
    if read(pthread_mutexattr_getprotocol) != libc::PTHREAD_PRIO_NONE {
        return Err(Errno::NOTSUP);
    }
    let mutex_type = match read(pthread_mutexattr_gettype) {
        libc::PTHREAD_MUTEX_RECURSIVE => MutexType::Recursive,
        libc::PTHREAD_MUTEX_ERRORCHECK => MutexType::ErrorCheck,
        libc::PTHREAD_MUTEX_NORMAL => MutexType::Normal,
        _ => MutexType::Adaptive,
    };
    let robust = read(pthread_mutexattr_getrobust) == libc::PTHREAD_MUTEX_ROBUST;
    shared.init(MutexKind { mutex_type, robust });
    Ok(())
}

/// pthread_mutex_destroy(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { mutex_at(mutex) } {
        Whose::Pools(shared) => number(shared.destroy()),
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => {
            next!(c"pthread_mutex_destroy": fn(*mut pthread_mutex_t) -> c_int, (mutex), libc::ENOSYS)
        }
    }
}

#[inline]
fn lock(shared: &SharedMutex) -> c_int {
    let me = match owner::me_until(None) {
        Ok(me) => me,
        Err(error) => return error.raw_os_error(),
    };
    let result = shared.lock(me, &Sleeper::uninterrupted(), None);
    if shared.is_robust() {
        robust_mutexes::note_lock(shared, result);
    }
    number(result)
}

#[inline]
fn try_lock_now(shared: &SharedMutex) -> c_int {
    number(try_lock(shared))
}

fn try_lock(shared: &SharedMutex) -> Result<(), Errno> {
    let me = match owner::me() {
        // As if another thread held it: no standard knows an error for that.
        Err(Errno::NOSPC) => return Err(Errno::BUSY),
        me => me?,
    };
    let result = shared.try_lock(me, &Sleeper::uninterrupted());
    if shared.is_robust() {
        robust_mutexes::note_lock(shared, result);
    }
    result
}

/// pthread_mutex_timedlock(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { mutex_at(mutex) } {
        Whose::Pools(shared) => {
            // SAFETY: as above.
            let until = || unsafe { deadline::of(Clock::Realtime, until) };
            number(lock_until(shared, until))
        }
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_mutex_timedlock":
            fn(*mut pthread_mutex_t, *const timespec) -> c_int, (mutex, until), libc::ENOSYS),
    }
}

/// pthread_mutex_clocklock(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { mutex_at(mutex) } {
        Whose::Pools(shared) => number(deadline::clock(clock).and_then(|clock| {
            // SAFETY: as above.
            lock_until(shared, || unsafe { deadline::of(clock, until) })
        })),
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_mutex_clocklock":
            fn(*mut pthread_mutex_t, clockid_t, *const timespec) -> c_int,
            (mutex, clock, until), libc::ENOSYS),
    }
}

/// The time is looked at if it comes to waiting, as libc does.
fn lock_until(
    shared: &SharedMutex,
    until: impl FnOnce() -> Result<Deadline, Errno>,
) -> Result<(), Errno> {
    match try_lock(shared) {
        Err(Errno::BUSY | Errno::DEADLK) => {}
        result => return result,
    }
    let until = Some(until()?);
    let result = shared.lock(owner::me_until(until)?, &Sleeper::uninterrupted(), until);
    if shared.is_robust() {
        robust_mutexes::note_lock(shared, result);
    }
    result
}

#[inline]
fn unlock(shared: &SharedMutex) -> c_int {
    let me = match owner::me_until(None) {
        Ok(me) => me,
        Err(error) => return error.raw_os_error(),
    };
    // Before it is another thread's, who may destroy it.
    let is_robust = shared.is_robust();
    let result = shared.unlock(me, &Sleeper::uninterrupted());
    if is_robust && result.is_ok() {
        robust_mutexes::note_unlock(shared);
    }
    number(result)
}

/// pthread_mutex_consistent(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_consistent(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { mutex_at(mutex) } {
        Whose::Pools(shared) => {
            number(owner::me_until(None).and_then(|me| shared.make_consistent(me)))
        }
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_mutex_consistent":
            fn(*mut pthread_mutex_t) -> c_int, (mutex), libc::ENOSYS),
    }
}
