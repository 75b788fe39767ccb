//! Waiting at a word of a pool's memory, as futex(2) does.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use vshmem_ipc::{Errno, WaitEnd};
use vshmem_mem::{Deadline, signals_handled, sleep_shortly};

use crate::answer;
use crate::objects::span;
use crate::pool::{Pool, borrow};

/// How long a thread waits before it tries again to wake others, when the pool has no thread slot
/// for it: those that sleep rely on it.
const NO_SLOT: Duration = Duration::from_millis(1);

/// Where the word lies in the pool. EINVAL: not in the part that programs have their memory in.
fn offset_of(pool: &Pool, word: *const u32) -> Result<u64, Errno> {
    let offset = pool.offset(word.cast());
    let data = pool.session()?.client().pool().layout().data;
    let is_there = (data.offset()..data.end()).contains(&offset) && offset.is_multiple_of(4);
    is_there.then_some(offset).ok_or(Errno::INVAL)
}

fn wait(
    pool: &Pool,
    word: *const u32,
    value: u32,
    timeout: Option<Duration>,
) -> Result<WaitEnd, Errno> {
    let signals_seen = signals_handled();
    let this_client = pool.session()?.client();
    let offset = offset_of(pool, word)?;
    // SAFETY: four bytes of the pool's mapping, aligned, which other processes change atomically.
    let word = unsafe { AtomicU32::from_ptr(word.cast_mut()) };
    let mut waits = || word.load(Ordering::SeqCst) == value;
    let deadline = timeout.map(Deadline::after);
    let spins = timeout.is_none_or(|span| !span.is_zero());
    if spins && this_client.futex_spin(1, &mut waits) {
        return Ok(WaitEnd::Changed);
    }
    this_client.futex_wait(offset, &mut waits, deadline, signals_seen)
}

fn wake(pool: &Pool, word: *const u32, most: u32) -> Result<u32, Errno> {
    let this_client = pool.session()?.client();
    let offset = offset_of(pool, word)?;
    loop {
        match this_client.futex_wake(offset, most) {
            Err(Errno::NOMEM) => sleep_shortly(NO_SLOT),
            woke => return woke.map(|woke| woke.threads),
        }
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_wait(
    pool: *const Pool,
    word: *const u32,
    value: u32,
    timeout: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller passes a pool's handle, and a time or null.
    let (pool, timeout) = unsafe { (borrow(pool), timeout.as_ref()) };
    answer(pool.and_then(|pool| match wait(pool, word, value, timeout.map(span).transpose()?)? {
        WaitEnd::Woken { .. } | WaitEnd::Changed => Ok(0),
        WaitEnd::TimedOut => Err(Errno::TIMEDOUT),
        WaitEnd::Interrupted => Err(Errno::INTR),
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_wake(pool: *const Pool, word: *const u32, most: u32) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { borrow(pool) };
    answer(pool.and_then(|pool| wake(pool, word, most)).map(|woken| woken as c_int))
}
