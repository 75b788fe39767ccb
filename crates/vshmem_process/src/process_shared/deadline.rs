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

/// No machine has been up for so long, and the real-time clock passed it in 1990.
const LONGEST_UP: Duration = Duration::from_secs(20 * 365 * 86_400);
/// A moment of the real-time clock that a program waits for is not longer ago.
const LONGEST_AGO: Duration = Duration::from_secs(365 * 86_400);

fn real_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), time.tv_nsec as u32)
}

/// The same by the clock that a condition variable names, in memory that others write: a member may
/// name the monotonic one where the program counts by the real-time clock, and so make a moment
/// last for decades. What no monotonic clock has come to, and is near the present or later by the
/// other, is a moment of the other.
///
/// # Errors
/// As [`of`].
///
/// # Safety
/// `at` is valid for reading.
pub unsafe fn by_shared_clock(clock: Clock, at: *const timespec) -> Result<Deadline, Errno> {
    // SAFETY: by contract.
    let until = unsafe { of(clock, at) }?;
    let is_forged = matches!(clock, Clock::Monotonic)
        && until.at > LONGEST_UP
        && until.at + LONGEST_AGO > real_time();
    Ok(if is_forged { Deadline { clock: Clock::Realtime, ..until } } else { until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_a_member_has_named_makes_no_moment_last_for_decades() {
        let clock_of = |clock, tv_sec| {
            let at = timespec { tv_sec, tv_nsec: 0 };
            // SAFETY: a live value.
            unsafe { by_shared_clock(clock, &raw const at) }.unwrap().clock
        };
        let now = real_time().as_secs() as libc::time_t;
        for at in [now - 5, now, now + 5, now + 86_400] {
            assert_eq!(clock_of(Clock::Monotonic, at), Clock::Realtime);
            assert_eq!(clock_of(Clock::Realtime, at), Clock::Realtime);
        }
        assert_eq!(clock_of(Clock::Monotonic, 86_400), Clock::Monotonic);
        assert_eq!(clock_of(Clock::Realtime, 86_400), Clock::Realtime);
        // What programs say for "never" is none of the real-time clock's.
        assert_eq!(clock_of(Clock::Monotonic, 1_000_000_000), Clock::Monotonic);
        assert_eq!(clock_of(Clock::Monotonic, 1_073_741_823), Clock::Monotonic);
    }
}
