//! Handles of pools: those that are open in this process, and how one that was closed is known.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vshmem_ipc::Errno;
use vshmem_mem::Mapping;
use vshmem_session::Session;

use crate::fork_mark::wiped_on_fork;
use crate::pool::Pool;

/// What the word of an open pool holds.
const OPEN: u32 = 0x706f_6f6c;
/// Closed pools whose memory is kept, so that their handles are known as closed ones.
const CLOSED_KEPT: usize = 64;

/// Whether a pool is open: the one word of it that is read by a handle that may have been closed.
#[derive(Debug)]
pub struct OpenWord(AtomicU32);

impl OpenWord {
    /// Of an open pool.
    pub fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    /// It is closed.
    pub fn close(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// The pools that this process has opened. Weak references keep the memory of closed ones.
type OpenPools = Mutex<Vec<Weak<Pool>>>;

/// Where the list is, in a page that a child finds empty: its parent may have held the lock when it
/// forked, and what a parent has opened is none of its child's.
static LIST: AtomicPtr<AtomicPtr<OpenPools>> = AtomicPtr::new(std::ptr::null_mut());

/// The list, locked.
pub fn open_pools() -> Result<MutexGuard<'static, Vec<Weak<Pool>>>, Errno> {
    let word = list_word()?;
    let mut list = word.load(Ordering::Acquire);
    if list.is_null() {
        let made = Box::into_raw(Box::new(OpenPools::default()));
        match word.compare_exchange(list, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => list = made,
            Err(other) => {
                // SAFETY: it was made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(made) });
                list = other;
            }
        }
    }
    // SAFETY: it was made in this process, by this function, and is never freed.
    let list = unsafe { &*list };
    Ok(list.lock().unwrap_or_else(PoisonError::into_inner))
}

fn list_word() -> Result<&'static AtomicPtr<OpenPools>, Errno> {
    let known = NonNull::new(LIST.load(Ordering::Acquire));
    let page = known.map_or_else(make_list_page, Ok)?;
    // SAFETY: the page is aligned, stays mapped, and is used as this word alone.
    Ok(unsafe { page.as_ref() })
}

fn make_list_page() -> Result<NonNull<AtomicPtr<OpenPools>>, Errno> {
    let made: Mapping = wiped_on_fork()?;
    let page = made.start().cast::<AtomicPtr<OpenPools>>();
    let none = std::ptr::null_mut();
    match LIST.compare_exchange(none, page.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            std::mem::forget(made);
            Ok(page)
        }
        Err(other) => NonNull::new(other).ok_or(Errno::NOMEM),
    }
}

/// Gives up the memory of pools that were closed long ago.
pub fn forget_closed(open: &mut Vec<Weak<Pool>>) {
    let closed = open.iter().filter(|pool| pool.strong_count() == 0).count();
    let mut too_many = closed.saturating_sub(CLOSED_KEPT);
    open.retain(|pool| {
        let is_forgotten = too_many > 0 && pool.strong_count() == 0;
        too_many -= usize::from(is_forgotten);
        !is_forgotten
    });
}

/// Borrows a handle. EBADF: it is null, or was closed.
///
/// # Safety
/// `handle` is null or was given out by this library; no other thread closes it meanwhile.
pub unsafe fn borrow<'a>(handle: *const Pool) -> Result<&'a Pool, Errno> {
    if handle.is_null() {
        return Err(Errno::BADF);
    }
    // SAFETY: the memory of a closed pool is kept (see `forget_closed`), and this word of it stays
    // what closing has made it.
    let word = unsafe { &*Pool::open_word(handle) };
    if word.0.load(Ordering::Acquire) != OPEN {
        return Err(Errno::BADF);
    }
    // SAFETY: it is open, and stays so by this function's own contract.
    Ok(unsafe { &*handle })
}

/// The session of a handle. EIO in a child of the process that has opened it.
///
/// # Safety
/// As [`borrow`].
pub unsafe fn session_of<'a>(handle: *const Pool) -> Result<&'a Session, Errno> {
    // SAFETY: by this function's own contract.
    unsafe { borrow(handle) }.and_then(Pool::session)
}

/// Another reference to an open pool.
///
/// # Safety
/// As [`borrow`].
pub unsafe fn share(handle: *const Pool) -> Result<Arc<Pool>, Errno> {
    // SAFETY: by this function's own contract.
    unsafe { borrow(handle) }?;
    // SAFETY: handles are made of counted references, and one more is counted first.
    unsafe {
        Arc::increment_strong_count(handle);
        Ok(Arc::from_raw(handle))
    }
}
