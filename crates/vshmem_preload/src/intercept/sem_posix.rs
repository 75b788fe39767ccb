//! sem_init(3), sem_wait(3), sem_post(3) and their kin: those in the pool's memory by their
//! address, all others libc's.

use libc::{c_int, c_uint, clockid_t, sem_t, timespec};
use vshmem_ipc::{Errno, SharedSemaphore};
use vshmem_mem::{Clock, Deadline, signals_before_wait};

use crate::intercept::by_address::by_address;
use vshmem_process::attached::bounds::SEMAPHORES;
use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::process_shared::deadline;
use vshmem_process::process_shared::sleeper::Sleeper;
use vshmem_process::process_shared::whose::{Whose, marked_semaphore, new_object_at, semaphore_at};
use vshmem_process::session::{cancel, thread_words};

by_address!(sem_post, new(c"sem_post"), -1, invalid(),
    SEMAPHORES, semaphore_there: sem_t, post);
by_address!(sem_trywait, new(c"sem_trywait"), -1, invalid(),
    SEMAPHORES, semaphore_there: sem_t, try_wait);
by_address!(sem_wait, new(c"sem_wait"), -1, invalid(),
    SEMAPHORES, semaphore_there: sem_t, wait_now);

/// The answer of a call on what was never initialised as a semaphore of the pool's.
#[cold]
fn invalid() -> c_int {
    errno::answer_unit(Err(Errno::INVAL))
}

/// sem_init(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) -> c_int {
    // SAFETY: by the caller's contract.
    let new = unsafe { new_object_at::<_, SharedSemaphore>(&SEMAPHORES, semaphore, shared != 0) };
    if let Whose::Pools(new) = new {
        return errno::answer_unit(new.init(value));
    }
    // One that was here before is no more; libc's leaves its mark as it is.
    // SAFETY: as above.
    let _ = unsafe { marked_semaphore(semaphore) }.map(SharedSemaphore::destroy);
    if let Whose::Uninitialised = new {
        return invalid();
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
        Whose::Pools(shared) => {
            shared.destroy();
            0
        }
        Whose::Uninitialised => invalid(),
        Whose::Libcs => next!(c"sem_destroy": fn(*mut sem_t) -> c_int, (semaphore), -1),
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
        Whose::Pools(shared) => {
            // SAFETY: as above.
            unsafe { value.write(shared.value() as c_int) };
            0
        }
        Whose::Uninitialised => invalid(),
        Whose::Libcs => {
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
        Whose::Pools(shared) => match unsafe { deadline::of(Clock::Realtime, until) } {
            Ok(until) => wait(shared, Some(until)),
            Err(error) => errno::answer_unit(Err(error)),
        },
        Whose::Uninitialised => invalid(),
        Whose::Libcs => next!(c"sem_timedwait":
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
        Whose::Pools(shared) => {
            let clock = deadline::clock(clock);
            // SAFETY: as above.
            match clock.and_then(|clock| unsafe { deadline::of(clock, until) }) {
                Ok(until) => wait(shared, Some(until)),
                Err(error) => errno::answer_unit(Err(error)),
            }
        }
        Whose::Uninitialised => invalid(),
        Whose::Libcs => next!(c"sem_clockwait":
            fn(*mut sem_t, clockid_t, *const timespec) -> c_int, (semaphore, clock, until), -1),
    }
}

#[inline]
fn post(semaphore: &SharedSemaphore) -> c_int {
    errno::answer_unit(semaphore.post(&Sleeper::uninterrupted()))
}

#[inline]
fn try_wait(semaphore: &SharedSemaphore) -> c_int {
    errno::answer_unit(semaphore.try_wait())
}

#[inline]
fn wait_now(semaphore: &SharedSemaphore) -> c_int {
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
