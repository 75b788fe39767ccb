//! Handles of pools: those that are open in this process, and how one that was closed is known.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use vshmem_ipc::Errno;
use vshmem_mem::{Mapping, wiped_on_fork};

/// What the word of an open pool holds.
const OPEN: u32 = 0x706f_6f6c;
/// Closed pools whose memory is kept, so that their handles are known as closed ones.
const CLOSED_KEPT: usize = 64;

/// Whether a pool is open: the one word of it that is read by a handle that may have been closed.
#[derive(Debug)]
pub struct OpenWord(AtomicU32);

impl OpenWord {
    /// The word of an open pool.
    pub fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    /// Whether the pool is open.
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) == OPEN
    }

    /// Marks the pool as closed.
    pub fn close(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// The pools that this process has opened. Weak references keep the memory of closed ones.
type OpenPools = Mutex<Vec<OpenPool>>;
/// A pool in that list, open or closed.
pub type OpenPool = Weak<dyn Any + Send + Sync>;

/// The page that holds the address of the list. The kernel clears the page in a child: pools that
/// the parent has opened are not open there, and the parent may have held the list's lock when it
/// forked.
static LIST: AtomicPtr<AtomicPtr<OpenPools>> = AtomicPtr::new(std::ptr::null_mut());

/// The list, locked.
pub fn open_pools() -> Result<MutexGuard<'static, Vec<OpenPool>>, Errno> {
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
pub fn forget_closed(open: &mut Vec<OpenPool>) {
    let closed = open.iter().filter(|pool| pool.strong_count() == 0).count();
    let mut too_many = closed.saturating_sub(CLOSED_KEPT);
    open.retain(|pool| {
        let is_forgotten = too_many > 0 && pool.strong_count() == 0;
        too_many -= usize::from(is_forgotten);
        !is_forgotten
    });
}
