//! Process-shared locks and POSIX semaphores in the pool's memory: what `vshmem_ipc`'s algorithms
//! need of this process.
//!
//! `owner` is the calling thread as a lock's word names it; `sleeper` sleeps and wakes by address;
//! `robust_mutexes` knows which of them a thread holds that ends; `deadline` reads the program's
//! times; `named_semaphores` has those that this process has opened by name, and `semaphore_page`
//! where.

pub mod deadline;
pub mod named_semaphores;
pub mod owner;
pub mod robust_mutexes;
mod semaphore_page;
pub mod sleeper;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vshmem_ipc::{Errno, SharedBarrier, SharedCondvar, SharedMutex, SharedRwLock, SharedSemaphore};
use vshmem_session::Posix;

use crate::session::route;

/// A result as the pthread functions return it.
#[inline(always)]
pub fn number(result: Result<(), Errno>) -> libc::c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error(),
    }
}

/// The mutex of the pool's at an address; `None` for one of libc's.
///
/// # Safety
/// A pthread_mutex_t lies there, whosever it is.
#[inline(always)]
pub unsafe fn mutex_at<'a>(at: *const libc::pthread_mutex_t) -> Option<&'a SharedMutex> {
    // SAFETY: a mutex of 40 bytes lies there, which begins at a multiple of 8; all access is by
    // atomics, of libc's as well.
    unsafe {
        let kind = &*at.byte_add(SharedMutex::KIND_AT).cast::<AtomicU32>();
        SharedMutex::is_marked(kind.load(Ordering::Relaxed)).then(|| {
            std::hint::cold_path();
            &*at.cast::<SharedMutex>()
        })
    }
}

/// Defines a function that finds the pool's objects of a kind by their mark.
macro_rules! object_at {
    ($name:ident, $theirs:ty, $ours:ty) => {
        /// The object of the pool's at an address; `None` for one of libc's.
        ///
        /// # Safety
        /// An object of libc's type lies there, whosever it is.
        #[inline(always)]
        pub unsafe fn $name<'a>(at: *const $theirs) -> Option<&'a $ours> {
            const { assert!(size_of::<$theirs>() >= size_of::<$ours>()) };
            // SAFETY: the object has the size of ours and begins at a multiple of 8; all access is
            // by atomics, of libc's as well.
            unsafe {
                let mark = &*at.byte_add(<$ours>::MARK_AT).cast::<AtomicU64>();
                <$ours>::is_marked(mark.load(Ordering::Relaxed)).then(|| {
                    std::hint::cold_path();
                    &*at.cast::<$ours>()
                })
            }
        }
    };
}

object_at!(condvar_at, libc::pthread_cond_t, SharedCondvar);
object_at!(rwlock_at, libc::pthread_rwlock_t, SharedRwLock);
object_at!(barrier_at, libc::pthread_barrier_t, SharedBarrier);
object_at!(semaphore_at, libc::sem_t, SharedSemaphore);

/// The place for a new object of the pool's, if it is to be one: the program wants it shared
/// between processes, what it is lies in the pool by `--share`, and the memory does.
///
/// # Safety
/// An object of libc's type lies there, or is to.
pub unsafe fn new_object_at<'a, Theirs, Ours>(
    at: *const Theirs,
    is_shared: bool,
    what: Posix,
) -> Option<&'a Ours> {
    const { assert!(size_of::<Theirs>() >= size_of::<Ours>()) };
    if !is_shared || !route::posix_in_pool(what) {
        return None;
    }
    let ours = at.cast::<Ours>();
    let is_placed = ours.is_aligned() && sleeper::offset_of(ours).is_some();
    // SAFETY: the program's memory there is attached and large enough; ours are atomics alone.
    is_placed.then(|| unsafe { &*ours })
}
