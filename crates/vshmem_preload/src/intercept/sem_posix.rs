//! sem_init(3), sem_wait(3), sem_post(3) and their kin: those of the pool by their mark, all others
//! libc's.

use libc::{c_int, c_uint, clockid_t, sem_t, timespec};
use vshmem_ipc::{Errno, SharedSemaphore};
use vshmem_mem::{Clock, Deadline, signals_before_wait};
use vshmem_session::Posix;

use crate::errno;
use crate::intercept::by_mark::by_mark;
use crate::next::next;
use crate::process_shared::sleeper::Sleeper;
use crate::process_shared::{deadline, new_object_at, semaphore_at};
use crate::session::{cancel, thread_words};

by_mark!(sem_post, new(c"sem_post"), -1,
    semaphore_at: sem_t => SharedSemaphore, post);
by_mark!(sem_trywait, new(c"sem_trywait"), -1,
    semaphore_at: sem_t => SharedSemaphore, try_wait);
by_mark!(sem_wait, new(c"sem_wait"), -1,
    semaphore_at: sem_t => SharedSemaphore, wait_now);

/// sem_init(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) -> c_int {
    // SAFETY: by the caller's contract.
    unsafe {
        let new = new_object_at::<_, SharedSemaphore>(semaphore, shared != 0, Posix::Semaphore);
        if let Some(new) = new {
            return errno::answer_unit(new.init(value));
        }
        // libc's leaves the mark of one that was here before as it is.
        if let Some(before) = semaphore_at(semaphore) {
            before.destroy();
        }
    }
    next!(c"sem_init": fn(*mut sem_t, c_int, c_uint) -> c_int, (semaphore, shared, value), -1)
}

/// sem_destroy(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_destroy(semaphore: *mut sem_t) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { semaphore_at(semaphore) } {
        Some(shared) => {
            shared.destroy();
            0
        }
        None => next!(c"sem_destroy": fn(*mut sem_t) -> c_int, (semaphore), -1),
    }
}

/// sem_getvalue(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { semaphore_at(semaphore) } {
        Some(shared) => {
            // SAFETY: as above.
            unsafe { value.write(shared.value() as c_int) };
            0
        }
        None => {
            next!(c"sem_getvalue": fn(*mut sem_t, *mut c_int) -> c_int, (semaphore, value), -1)
        }
    }
}

/// sem_timedwait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { semaphore_at(semaphore) } {
        // SAFETY: as above.
        Some(shared) => match unsafe { deadline::of(Clock::Realtime, until) } {
            Ok(until) => wait(shared, Some(until)),
            Err(error) => errno::answer_unit(Err(error)),
        },
        None => next!(c"sem_timedwait":
            fn(*mut sem_t, *const timespec) -> c_int, (semaphore, until), -1),
    }
}

/// sem_clockwait(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: by the caller's contract.
    match unsafe { semaphore_at(semaphore) } {
        Some(shared) => {
            let clock = deadline::clock(clock);
            // SAFETY: as above.
            match clock.and_then(|clock| unsafe { deadline::of(clock, until) }) {
                Ok(until) => wait(shared, Some(until)),
                Err(error) => errno::answer_unit(Err(error)),
            }
        }
        None => next!(c"sem_clockwait":
            fn(*mut sem_t, clockid_t, *const timespec) -> c_int, (semaphore, clock, until), -1),
    }
}

/// Out of line, as those below: a semaphore of libc's needs nothing of it.
#[inline(never)]
extern "C" fn post(semaphore: &SharedSemaphore) -> c_int {
    errno::answer_unit(semaphore.post(&Sleeper::uninterrupted()))
}

#[inline(never)]
extern "C" fn try_wait(semaphore: &SharedSemaphore) -> c_int {
    errno::answer_unit(semaphore.try_wait())
}

/// A cancellation unwinds from here.
#[inline(never)]
extern "C-unwind" fn wait_now(semaphore: &SharedSemaphore) -> c_int {
    wait(semaphore, None)
}

#[inline]
fn wait(semaphore: &SharedSemaphore, until: Option<Deadline>) -> c_int {
    cancel::exit_if_cancelled();
    if semaphore.try_wait().is_ok() {
        return 0;
    }
    errno::answer_unit(sleep(semaphore, until))
}

#[cold]
#[inline(never)]
fn sleep(semaphore: &SharedSemaphore, until: Option<Deadline>) -> Result<(), Errno> {
    loop {
        let interruptions = thread_words::interruptions();
        let waited = cancel::point(|| {
            semaphore.wait(&Sleeper::interrupted_after(signals_before_wait()), until)
        });
        match waited {
            // As the kernel: SA_RESTART has a sleep begin again that has no end.
            Err(Errno::INTR)
                if until.is_none() && thread_words::interruptions() == interruptions => {}
            result => return result,
        }
    }
}
