//! Calls of the C library's on locks that the pool has none of: C11's mutexes and condition
//! variables, ceilings of priorities, and what are second names of pthread functions. In the pool's
//! memory the C library's code sees none of them.

use libc::{
    c_int, c_void, pthread_mutex_t, pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t,
    timespec,
};

use crate::intercept::{pthread_mutex, pthread_rwlock};
use vshmem_process::attached::bounds::LOCKS;
use vshmem_process::next::next;
use vshmem_process::process_shared::whose::is_in_pool;

/// thrd_error of threads.h.
const THRD_ERROR: c_int = 2;
/// A mutex of C11's is one of pthread's inside, a condition variable too.
const MUTEX: usize = size_of::<pthread_mutex_t>();
const CONDVAR: usize = size_of::<libc::pthread_cond_t>();

fn holds<T>(at: *const T, bytes: usize) -> bool {
    LOCKS.hold(at.addr()) && is_in_pool(at.addr(), bytes)
}

/// Defines C functions whose first argument is an object of so many bytes: `$refused` in the pool's
/// memory, libc's elsewhere; `$missing` where libc has none.
macro_rules! libcs_alone {
    ($($name:ident $symbol:literal: $bytes:ident, fn($($argument:ident: $type:ty),*) -> $result:ty,
       $refused:expr, $missing:expr;)*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[allow(clippy::unused_unit, reason = "one row says it for all")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(object: *mut c_void $(, $argument: $type)*) -> $result {
            if holds(object, $bytes) {
                return $refused;
            }
            next!($symbol: fn(*mut c_void $(, $type)*) -> $result, (object $(, $argument)*),
                  $missing)
        }
    )*};
}

libcs_alone! {
    mtx_init c"mtx_init": MUTEX, fn(kind: c_int) -> c_int, THRD_ERROR, THRD_ERROR;
    mtx_lock c"mtx_lock": MUTEX, fn() -> c_int, THRD_ERROR, THRD_ERROR;
    mtx_trylock c"mtx_trylock": MUTEX, fn() -> c_int, THRD_ERROR, THRD_ERROR;
    mtx_timedlock c"mtx_timedlock": MUTEX, fn(until: *const timespec) -> c_int, THRD_ERROR,
        THRD_ERROR;
    mtx_unlock c"mtx_unlock": MUTEX, fn() -> c_int, THRD_ERROR, THRD_ERROR;
    mtx_destroy c"mtx_destroy": MUTEX, fn() -> (), (), ();
    cnd_init c"cnd_init": CONDVAR, fn() -> c_int, THRD_ERROR, THRD_ERROR;
    cnd_signal c"cnd_signal": CONDVAR, fn() -> c_int, THRD_ERROR, THRD_ERROR;
    cnd_broadcast c"cnd_broadcast": CONDVAR, fn() -> c_int, THRD_ERROR, THRD_ERROR;
    cnd_destroy c"cnd_destroy": CONDVAR, fn() -> (), (), ();
    pthread_mutex_getprioceiling c"pthread_mutex_getprioceiling": MUTEX,
        fn(to: *mut c_int) -> c_int, libc::EINVAL, libc::ENOSYS;
    pthread_mutex_setprioceiling c"pthread_mutex_setprioceiling": MUTEX,
        fn(ceiling: c_int, before: *mut c_int) -> c_int, libc::EINVAL, libc::ENOSYS;
}

/// cnd_wait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_wait(condvar: *mut c_void, mutex: *mut c_void) -> c_int {
    if holds(condvar, CONDVAR) || holds(mutex, MUTEX) {
        return THRD_ERROR;
    }
    next!(c"cnd_wait": fn(*mut c_void, *mut c_void) -> c_int, (condvar, mutex), THRD_ERROR)
}

/// cnd_timedwait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_timedwait(
    condvar: *mut c_void,
    mutex: *mut c_void,
    until: *const timespec,
) -> c_int {
    if holds(condvar, CONDVAR) || holds(mutex, MUTEX) {
        return THRD_ERROR;
    }
    next!(c"cnd_timedwait": fn(*mut c_void, *mut c_void, *const timespec) -> c_int,
          (condvar, mutex, until), THRD_ERROR)
}

/// Defines second names that glibc has for its functions.
macro_rules! second_names {
    ($($name:ident of $module:ident::$first:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("As [`", stringify!($module), "::", stringify!($first), "`].")]
        ///
        /// # Safety
        /// As libc's.
        #[allow(clippy::unused_unit, reason = "one row says it for all")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the same contract.
            unsafe { $module::$first($($argument),*) }
        }
    )*};
}

second_names! {
    __pthread_mutex_init of pthread_mutex::pthread_mutex_init(
        mutex: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t);
    __pthread_mutex_destroy of pthread_mutex::pthread_mutex_destroy(mutex: *mut pthread_mutex_t);
    __pthread_mutex_lock of pthread_mutex::pthread_mutex_lock(mutex: *mut pthread_mutex_t);
    __pthread_mutex_trylock of pthread_mutex::pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
    __pthread_mutex_unlock of pthread_mutex::pthread_mutex_unlock(mutex: *mut pthread_mutex_t);
    pthread_mutex_consistent_np of pthread_mutex::pthread_mutex_consistent(
        mutex: *mut pthread_mutex_t);
    __pthread_rwlock_init of pthread_rwlock::pthread_rwlock_init(
        lock: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t);
    __pthread_rwlock_destroy of pthread_rwlock::pthread_rwlock_destroy(
        lock: *mut pthread_rwlock_t);
    __pthread_rwlock_rdlock of pthread_rwlock::pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t);
    __pthread_rwlock_tryrdlock of pthread_rwlock::pthread_rwlock_tryrdlock(
        lock: *mut pthread_rwlock_t);
    __pthread_rwlock_wrlock of pthread_rwlock::pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t);
    __pthread_rwlock_trywrlock of pthread_rwlock::pthread_rwlock_trywrlock(
        lock: *mut pthread_rwlock_t);
    __pthread_rwlock_unlock of pthread_rwlock::pthread_rwlock_unlock(lock: *mut pthread_rwlock_t);
}
