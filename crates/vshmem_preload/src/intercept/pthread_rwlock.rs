//! pthread_rwlock_*(3): those in the pool's memory by their address, all others libc's.

use libc::{c_int, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};
use vshmem_ipc::{Errno, SharedRwLock};
use vshmem_mem::{Clock, Deadline};

use crate::intercept::by_address::by_address;
use vshmem_process::attached::bounds::LOCKS;
use vshmem_process::next::next;
use vshmem_process::process_shared::sleeper::Sleeper;
use vshmem_process::process_shared::whose::{Whose, marked_rwlock, new_object_at, rwlock_at};
use vshmem_process::process_shared::{deadline, number, owner};

unsafe extern "C" {
    fn pthread_rwlockattr_getpshared(
        attributes: *const pthread_rwlockattr_t,
        to: *mut c_int,
    ) -> c_int;
    fn pthread_rwlockattr_getkind_np(
        attributes: *const pthread_rwlockattr_t,
        to: *mut c_int,
    ) -> c_int;
}

by_address!(pthread_rwlock_rdlock, new(c"pthread_rwlock_rdlock"), libc::ENOSYS, libc::EINVAL,
    LOCKS, rwlock_there: pthread_rwlock_t, read_now);
by_address!(pthread_rwlock_wrlock, new(c"pthread_rwlock_wrlock"), libc::ENOSYS, libc::EINVAL,
    LOCKS, rwlock_there: pthread_rwlock_t, write_now);
by_address!(pthread_rwlock_unlock, new(c"pthread_rwlock_unlock"), libc::ENOSYS, libc::EINVAL,
    LOCKS, rwlock_there: pthread_rwlock_t, unlock_now);

/// PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP. The others prefer readers.
const PREFER_WRITERS: c_int = 2;

/// pthread_rwlock_init(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(
    lock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    let (mut shared, mut kind) = (libc::PTHREAD_PROCESS_PRIVATE, 0);
    if !attributes.is_null() {
        // SAFETY: attributes that are not null are initialised; the values are written to live
        // places.
        unsafe {
            pthread_rwlockattr_getpshared(attributes, &raw mut shared);
            pthread_rwlockattr_getkind_np(attributes, &raw mut kind);
        }
    }
    let is_shared = shared == libc::PTHREAD_PROCESS_SHARED;
    // SAFETY: by the caller's contract.
    match unsafe { new_object_at::<_, SharedRwLock>(&LOCKS, lock, is_shared) } {
        Whose::Pools(shared) => {
            shared.init(kind == PREFER_WRITERS);
            0
        }
        Whose::Uninitialised => {
            // One that was here before is no more.
            // SAFETY: as above.
            let _ = unsafe { marked_rwlock(lock) }.map(SharedRwLock::destroy);
            libc::EINVAL
        }
        Whose::Libcs => next!(c"pthread_rwlock_init":
            fn(*mut pthread_rwlock_t, *const pthread_rwlockattr_t) -> c_int,
            (lock, attributes), libc::ENOSYS),
    }
}

/// pthread_rwlock_destroy(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { rwlock_at(lock) } {
        Whose::Pools(shared) => {
            shared.destroy();
            0
        }
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_rwlock_destroy":
            fn(*mut pthread_rwlock_t) -> c_int, (lock), libc::ENOSYS),
    }
}

#[inline]
fn read_now(shared: &SharedRwLock) -> c_int {
    number(read(shared, None))
}

#[inline]
fn try_read_now(shared: &SharedRwLock) -> c_int {
    number(shared.try_read(&Sleeper::uninterrupted()))
}

#[inline]
fn write_now(shared: &SharedRwLock) -> c_int {
    number(write(shared, None))
}

#[inline]
fn unlock_now(shared: &SharedRwLock) -> c_int {
    number(shared.unlock(&Sleeper::uninterrupted()))
}

fn read(shared: &SharedRwLock, until: Option<Deadline>) -> Result<(), Errno> {
    shared.read(owner::me_until(until)?, &Sleeper::uninterrupted(), until)
}

fn write(shared: &SharedRwLock, until: Option<Deadline>) -> Result<(), Errno> {
    shared.write(owner::me_until(until)?, &Sleeper::uninterrupted(), until)
}

/// pthread_rwlock_tryrdlock(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { rwlock_at(lock) } {
        Whose::Pools(shared) => try_read_now(shared),
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_rwlock_tryrdlock":
            fn(*mut pthread_rwlock_t) -> c_int, (lock), libc::ENOSYS),
    }
}

/// pthread_rwlock_trywrlock(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { rwlock_at(lock) } {
        Whose::Pools(shared) => number(owner::me().and_then(|me| shared.try_write(me))),
        Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!(c"pthread_rwlock_trywrlock":
            fn(*mut pthread_rwlock_t) -> c_int, (lock), libc::ENOSYS),
    }
}

macro_rules! timed_locks {
    ($($name:ident $symbol:literal $lock:ident),*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            lock: *mut pthread_rwlock_t,
            until: *const timespec,
        ) -> c_int {
            // SAFETY: by the caller's contract.
            match unsafe { rwlock_at(lock) } {
                Whose::Pools(shared) => {
                    // SAFETY: as above.
                    let until = unsafe { deadline::of(Clock::Realtime, until) };
                    number(until.and_then(|until| $lock(shared, Some(until))))
                }
                Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!($symbol: fn(*mut pthread_rwlock_t, *const timespec) -> c_int,
                              (lock, until), libc::ENOSYS),
            }
        }
    )*};
}
timed_locks!(
    pthread_rwlock_timedrdlock c"pthread_rwlock_timedrdlock" read,
    pthread_rwlock_timedwrlock c"pthread_rwlock_timedwrlock" write
);

macro_rules! clock_locks {
    ($($name:ident $symbol:literal $lock:ident),*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            lock: *mut pthread_rwlock_t,
            clock: clockid_t,
            until: *const timespec,
        ) -> c_int {
            // SAFETY: by the caller's contract.
            match unsafe { rwlock_at(lock) } {
                Whose::Pools(shared) => {
                    // SAFETY: as above.
                    let until = unsafe { moment(clock, until) };
                    number(until.and_then(|until| $lock(shared, Some(until))))
                }
                Whose::Uninitialised => libc::EINVAL,
        Whose::Libcs => next!($symbol:
                    fn(*mut pthread_rwlock_t, clockid_t, *const timespec) -> c_int,
                    (lock, clock, until), libc::ENOSYS),
            }
        }
    )*};
}
clock_locks!(
    pthread_rwlock_clockrdlock c"pthread_rwlock_clockrdlock" read,
    pthread_rwlock_clockwrlock c"pthread_rwlock_clockwrlock" write
);

/// # Safety
/// `until` is valid for reading.
unsafe fn moment(clock: clockid_t, until: *const timespec) -> Result<Deadline, Errno> {
    // SAFETY: by contract.
    deadline::clock(clock).and_then(|clock| unsafe { deadline::of(clock, until) })
}
