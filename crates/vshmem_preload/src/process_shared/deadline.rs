//! Until when a program waits, as it says so.

use std::time::Duration;

use libc::{c_int, clockid_t, timespec};
use vshmem_ipc::Errno;
use vshmem_mem::{Clock, Deadline};

/// The clock that a program names.
///
/// # Errors
/// EINVAL for any but CLOCK_REALTIME and CLOCK_MONOTONIC.
pub fn clock(id: clockid_t) -> Result<Clock, Errno> {
    match id as c_int {
        libc::CLOCK_REALTIME => Ok(Clock::Realtime),
        libc::CLOCK_MONOTONIC => Ok(Clock::Monotonic),
        _ => Err(Errno::INVAL),
    }
}

/// A moment; one before the clock's beginning has passed.
///
/// # Errors
/// EINVAL when the nanoseconds are none.
///
/// # Safety
/// `at` is valid for reading.
pub unsafe fn of(clock: Clock, at: *const timespec) -> Result<Deadline, Errno> {
    // SAFETY: by contract.
    let at = unsafe { at.read() };
    let nanos = u32::try_from(at.tv_nsec).map_err(|_| Errno::INVAL)?;
    if nanos >= 1_000_000_000 {
        return Err(Errno::INVAL);
    }
    let at =
        u64::try_from(at.tv_sec).map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanos));
    Ok(Deadline { clock, at })
}
