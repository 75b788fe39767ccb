//! The domain leaves the pool: this process is told, and parts.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use vshmem_ipc::Errno;
use vshmem_mem::{Becomes, MappedFileId, signal_mask};
use vshmem_session::Session;

use crate::answer;
use crate::pool::{Pool, borrow, locked, session_of, share};

/// How often a process that wants to be told looks.
const LOOK: Duration = Duration::from_millis(250);

/// A callback of C's, and what it is given.
struct Callback {
    leave: extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: the caller of `vshmem_on_leave` has it called by another thread.
unsafe impl Send for Callback {}

/// Waits, on a thread of its own, until the domain of a pool leaves or the pool is closed.
fn wait(pool: Arc<Pool>, told: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    pool.session()?.client().ask_for_notice()?;
    let pool: Weak<Pool> = Arc::downgrade(&pool);
    let begins = move || {
        loop {
            let leaves = {
                let Some(pool) = pool.upgrade() else { return };
                let Ok(session) = pool.session() else { return };
                session.client().is_leaving()
            };
            if leaves {
                return told();
            }
            std::thread::sleep(LOOK);
        }
    };
    // The program's signals are for its own threads.
    let spawned = signal_mask::uninterrupted(|| {
        std::thread::Builder::new().name("vshmem-leave".to_owned()).spawn(begins)
    });
    spawned.map(drop).map_err(|_| Errno::NOMEM)
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_leaving(pool: *const Pool) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    match unsafe { session_of(pool) } {
        Err(Errno::IDRM) => 1,
        session => answer(session.map(|session| session.client().is_leaving().into())),
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_leave_fd(pool: *const Pool) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { share(pool) };
    answer(pool.and_then(|pool| {
        if let Some(notice) = pool.membership.notice.get() {
            return Ok(notice.as_raw_fd());
        }
        let made = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let notice = Arc::clone(pool.membership.notice.get_or_init(|| Arc::clone(&made)));
        if Arc::ptr_eq(&notice, &made) {
            let told = move || {
                // It cannot be full.
                let _ = rustix::io::write(&*made, &1_u64.to_ne_bytes());
            };
            wait(Arc::clone(&pool), told)?;
        }
        Ok(notice.as_raw_fd())
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_on_leave(
    pool: *const Pool,
    leave: extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { share(pool) };
    answer(pool.and_then(|pool| {
        if pool.membership.has_callback.swap(true, Ordering::AcqRel) {
            return Err(Errno::BUSY);
        }
        let callback = Callback { leave, argument };
        wait(Arc::clone(&pool), move || callback.call()).map(|()| 0)
    }))
}

impl Callback {
    fn call(self) {
        (self.leave)(self.argument);
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_part(pool: *const Pool) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { borrow(pool) };
    answer(pool.and_then(|pool| {
        let session = pool.session()?;
        signal_mask::uninterrupted(|| part(pool, session))?;
        Ok(0)
    }))
}

/// First the memory, so that nothing of this client's is given to another while it is mapped; then
/// the place in the pool; then the tables.
fn part(pool: &Pool, session: &Session) -> Result<(), Errno> {
    let tables = session.client().pool().map();
    let (from, to) = (tables.start().as_ptr().addr(), tables.bytes() as usize);
    let tables = from..from + to;
    let file = MappedFileId::at(tables.start)?;
    let unit = usize::try_from(session.link().capabilities().page_bytes).unwrap_or(1);
    close_unheld(pool)?;
    // SAFETY: by vshmem.h's contract no other thread makes a call for the pool, and the program has
    // given up that what it holds is shared.
    unsafe {
        vshmem_mem::make_private(file, unit, &|range, _| match tables.contains(&range.start) {
            true => Becomes::Shared,
            false => Becomes::Private,
        })?;
    }
    let parted = session.client().part();
    pool.membership.has_parted.store(true, Ordering::Release);
    // What C holds stays when the pool is closed.
    std::mem::forget(Arc::clone(pool.map()));
    // SAFETY: as above; nobody calls for the pool any more.
    unsafe { vshmem_mem::make_private(file, unit, &|_, _| Becomes::Private)? };
    // That the domain was evicted meanwhile is as good.
    match parted {
        Err(Errno::IDRM | Errno::IO) | Ok(()) => Ok(()),
        other => other,
    }
}

/// Of the whole pool, closes what this process does not hold: it needs no copy.
fn close_unheld(pool: &Pool) -> Result<(), Errno> {
    let held = locked(&pool.held);
    let mut ranges: Vec<(u64, u64)> = held.iter().map(|(at, (_, bytes))| (*at, *bytes)).collect();
    ranges.push((pool.map().bytes(), 0));
    ranges.sort_unstable();
    let mut at = 0;
    for (start, bytes) in ranges {
        if let Some(gap) = start.checked_sub(at).filter(|gap| *gap > 0)
            && let Some(gap_start) = NonNull::new(pool.address(at))
        {
            // SAFETY: the range lies in the mapping of the whole pool, and nothing is held there.
            unsafe { vshmem_mem::cover(gap_start.addr().get(), gap as usize)? };
        }
        at = start + bytes;
    }
    Ok(())
}
