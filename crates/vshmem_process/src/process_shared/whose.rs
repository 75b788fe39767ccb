//! Whose an object is: a question about its address.
//!
//! Where a kind is shared, the C library's code never sees memory of a pool: any member can write
//! there what that code then follows. So an object in the pool's memory is the pool's, or it is
//! none: the mark that tells whether it was ever initialised chooses between the pool's algorithm,
//! which bears any bytes, and EINVAL. Where a kind is not shared, all of its objects are the C
//! library's.
//!
//! An object with the mark where the pool's memory may be is taken for the pool's without a look at
//! the attach table: if it is not there after all, a copy, the algorithm ends at its first sleep
//! (EINVAL) and reaches nothing but the object.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vshmem_ipc::{SharedBarrier, SharedCondvar, SharedMutex, SharedRwLock, SharedSemaphore};

use crate::attached::bounds::{Bounds, LOCKS, SEMAPHORES};
use crate::attached::pieces;
use crate::process_shared::sleeper;
use crate::session::thread_words;

/// Bytes of what the attach table is made of.
const PAGE: usize = 4096;

/// Whose an object of a shared kind is.
#[derive(Debug)]
pub enum Whose<'a, T> {
    /// The pool's.
    Pools(&'a T),
    /// It lies in the pool's memory, and was never initialised there for several processes; or not
    /// whole.
    Uninitialised,
    /// The C library's.
    Libcs,
}

/// Whether an object has bytes in the pool's memory. Of one page this thread knows that it has
/// none: that of the lock that it has asked about last.
#[cold]
#[inline(never)]
pub fn is_in_pool(start: usize, bytes: usize) -> bool {
    let page = start / PAGE;
    let is_in_page = (start + bytes - 1) / PAGE == page;
    // Before the look: what comes afterwards is another number.
    let arrivals = pieces::arrivals();
    thread_words::with(|words| {
        if is_in_page && words.outside.is(page, arrivals) {
            return false;
        }
        let is_in_pool = pieces::touches(start, bytes);
        if is_in_page && !is_in_pool {
            words.outside.set(page, arrivals);
        }
        is_in_pool
    })
}

/// What an object without a mark is.
#[cold]
#[inline(never)]
fn unmarked<'a, T>(at: usize) -> Whose<'a, T> {
    if is_in_pool(at, size_of::<T>()) { Whose::Uninitialised } else { Whose::Libcs }
}

/// Defines a function that says whose an object of a kind is, and one that looks at the mark alone,
/// for an object that is known to lie in the pool's memory.
macro_rules! object_at {
    ($whose:ident, $there:ident, $marked:ident, $bounds:ident: $theirs:ty => $ours:ty,
     $offset:ident: $word:ty) => {
        /// Whose the object at an address is.
        ///
        /// # Safety
        /// An object of libc's type lies there, whosever it is.
        #[inline(always)]
        pub unsafe fn $whose<'a>(at: *const $theirs) -> Whose<'a, $ours> {
            if !$bounds.hold(at.addr()) {
                return Whose::Libcs;
            }
            // SAFETY: by contract.
            unsafe { $there(at) }
        }

        /// The same of an address where the pool's memory may be.
        ///
        /// # Safety
        /// An object of libc's type lies there, whosever it is.
        #[inline(always)]
        pub unsafe fn $there<'a>(at: *const $theirs) -> Whose<'a, $ours> {
            // SAFETY: by contract.
            unsafe { $marked(at) }.map_or_else(|| unmarked(at.addr()), Whose::Pools)
        }

        /// The object at an address, if it has the pool's mark.
        ///
        /// # Safety
        /// An object of libc's type lies there, whosever it is.
        #[inline(always)]
        pub unsafe fn $marked<'a>(at: *const $theirs) -> Option<&'a $ours> {
            const { assert!(size_of::<$theirs>() >= size_of::<$ours>()) };
            let ours = at.cast::<$ours>();
            if !ours.is_aligned() {
                return None;
            }
            // SAFETY: the object has the size of ours and begins at a multiple of 8; all access is
            // by atomics, of libc's as well.
            unsafe {
                let word = &*at.byte_add(<$ours>::$offset).cast::<$word>();
                <$ours>::is_marked(word.load(Ordering::Relaxed)).then(|| &*ours)
            }
        }
    };
}

object_at!(mutex_at, mutex_there, marked_mutex, LOCKS: libc::pthread_mutex_t => SharedMutex,
    KIND_AT: AtomicU32);
object_at!(condvar_at, condvar_there, marked_condvar, LOCKS: libc::pthread_cond_t => SharedCondvar,
    MARK_AT: AtomicU64);
object_at!(rwlock_at, rwlock_there, marked_rwlock, LOCKS: libc::pthread_rwlock_t => SharedRwLock,
    MARK_AT: AtomicU64);
object_at!(barrier_at, barrier_there, marked_barrier, LOCKS:
    libc::pthread_barrier_t => SharedBarrier, MARK_AT: AtomicU64);
object_at!(semaphore_at, semaphore_there, marked_semaphore, SEMAPHORES:
    libc::sem_t => SharedSemaphore, MARK_AT: AtomicU64);

/// The place for a new object: the pool's if the program wants it shared between processes and the
/// memory is the pool's, whole. The C library's anywhere else.
///
/// # Safety
/// An object of libc's type lies there, or is to.
pub unsafe fn new_object_at<'a, Theirs, Ours>(
    bounds: &Bounds,
    at: *const Theirs,
    is_shared: bool,
) -> Whose<'a, Ours> {
    const { assert!(size_of::<Theirs>() >= size_of::<Ours>()) };
    let ours = at.cast::<Ours>();
    if !bounds.hold(at.addr()) || !is_in_pool(at.addr(), size_of::<Ours>()) {
        return Whose::Libcs;
    }
    if is_shared && ours.is_aligned() && sleeper::offset_of(ours).is_some() {
        // SAFETY: the program's memory there is attached and large enough; ours are atomics alone.
        return Whose::Pools(unsafe { &*ours });
    }
    Whose::Uninitialised
}
