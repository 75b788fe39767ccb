//! poll(2), select(2) and their kin, for descriptors of message queues among others.

use std::time::Duration;

use libc::{c_int, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use vshmem_ipc::Errno;

use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::object_descriptors::open;
use vshmem_process::posix::readiness::{self, Sets, Until};

/// The descriptors that a program asks about, if a queue is among them.
///
/// # Safety
/// So many of them lie there.
#[inline]
unsafe fn with_queue<'a>(asked: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    if open::is_empty() || asked.is_null() {
        return None;
    }
    // SAFETY: by contract.
    let asked = unsafe { std::slice::from_raw_parts_mut(asked, count as usize) };
    readiness::has_queue(asked.iter().map(|one| one.fd)).then_some(asked)
}

/// How long a timespec is; for ever without.
///
/// # Safety
/// It is null or valid.
unsafe fn span_of(span: *const timespec) -> Result<Option<Duration>, Errno> {
    // SAFETY: by contract.
    let Some(span) = (unsafe { span.as_ref() }) else { return Ok(None) };
    let seconds = u64::try_from(span.tv_sec).map_err(|_| Errno::INVAL)?;
    let nanos = u32::try_from(span.tv_nsec).map_err(|_| Errno::INVAL)?;
    if nanos < 1_000_000_000 { Ok(Some(Duration::new(seconds, nanos))) } else { Err(Errno::INVAL) }
}

/// poll(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(asked: *mut pollfd, count: nfds_t, span: c_int) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { with_queue(asked, count) } {
        Some(asked) => {
            let until = Until::after_milliseconds(span);
            errno::answer_int(readiness::poll(asked, until, std::ptr::null()))
        }
        None => next!(c"poll": fn(*mut pollfd, nfds_t, c_int) -> c_int, (asked, count, span), -1),
    }
}

/// poll as `_FORTIFY_SOURCE` calls it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    asked: *mut pollfd,
    count: nfds_t,
    span: c_int,
    bytes: size_t,
) -> c_int {
    let fits = bytes / size_of::<pollfd>() >= count as usize;
    // SAFETY: by the caller's contract.
    if fits && unsafe { with_queue(asked, count) }.is_some() {
        // SAFETY: as above.
        return unsafe { poll(asked, count, span) };
    }
    next!(c"__poll_chk": fn(*mut pollfd, nfds_t, c_int, size_t) -> c_int,
          (asked, count, span, bytes), -1)
}

/// ppoll(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    asked: *mut pollfd,
    count: nfds_t,
    span: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { with_queue(asked, count) } {
        Some(asked) => {
            // SAFETY: as above.
            let polled = unsafe { span_of(span) }
                .and_then(|span| readiness::poll(asked, Until::after(span), mask));
            errno::answer_int(polled)
        }
        None => next!(c"ppoll":
            fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int,
            (asked, count, span, mask), -1),
    }
}

/// ppoll as `_FORTIFY_SOURCE` calls it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    asked: *mut pollfd,
    count: nfds_t,
    span: *const timespec,
    mask: *const sigset_t,
    bytes: size_t,
) -> c_int {
    let fits = bytes / size_of::<pollfd>() >= count as usize;
    // SAFETY: by the caller's contract.
    if fits && unsafe { with_queue(asked, count) }.is_some() {
        // SAFETY: as above.
        return unsafe { ppoll(asked, count, span, mask) };
    }
    next!(c"__ppoll_chk":
        fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t, size_t) -> c_int,
        (asked, count, span, mask, bytes), -1)
}

/// select(2). What is left of the time is not written back.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    span: *mut timeval,
) -> c_int {
    let sets = Sets { read, write, except };
    // SAFETY: by the caller's contract.
    if !open::is_empty() && unsafe { sets.have_queue(count) } {
        // SAFETY: as above.
        let span = unsafe { span.as_ref() }.map(|span| {
            let seconds = u64::try_from(span.tv_sec).unwrap_or(0);
            Duration::from_secs(seconds) + Duration::from_micros(span.tv_usec.max(0) as u64)
        });
        let until = Until::after(span);
        // SAFETY: as above.
        let selected = unsafe { readiness::select(count, sets, until, std::ptr::null()) };
        return errno::answer_int(selected);
    }
    next!(c"select":
        fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int,
        (count, read, write, except, span), -1)
}

/// pselect(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    span: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = Sets { read, write, except };
    // SAFETY: by the caller's contract.
    if !open::is_empty() && unsafe { sets.have_queue(count) } {
        // SAFETY: as above.
        let until = unsafe { span_of(span) }.map(Until::after);
        // SAFETY: as above.
        let selected =
            until.and_then(|until| unsafe { readiness::select(count, sets, until, mask) });
        return errno::answer_int(selected);
    }
    next!(c"pselect":
        fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t)
            -> c_int,
        (count, read, write, except, span, mask), -1)
}
