//! close(2), dup(2) and their kin: which number stands for which object afterwards.
//!
//! A child of vfork has descriptors of its own, but its parent's memory, the table among it: what
//! it closes and duplicates before it executes a program is not followed.
//!
//! As long as the table and what the pool counts differ, this thread is one of those that attach:
//! a fork waits for them, so that its child has as many descriptors as are counted for it.

use libc::{c_int, c_uint, off_t};
use vshmem_ipc::Errno;

use crate::attached::attach_table::Attaching;
use crate::object_descriptors::Descriptor;
use crate::object_descriptors::open::{self, object_of, surely_object_of};
use crate::posix::locks;
use crate::session::cancel::uncancelled;
use crate::{errno, process};

/// Whether what a call does to the numbers concerns the table.
fn is_followed() -> bool {
    !open::is_empty() && process::owns_its_memory()
}

/// Forgets what a number stands for, if it stands for an object.
fn forget(file: c_int) -> Option<Descriptor> {
    object_of(file).filter(|_| process::owns_its_memory()).and_then(|_| open::forget(file))
}

/// A number stands for its object again: it was not closed after all.
fn put_back(file: c_int, descriptor: Descriptor) {
    // Its place was free a moment ago.
    let _ = errno::untouched(|| open::register(file, descriptor));
}

/// close(2), by whatever call.
#[inline]
pub fn close(file: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if object_of(file).is_none() { call() } else { close_known(file, call) }
}

#[cold]
fn close_known(file: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if !process::owns_its_memory() {
        return call();
    }
    let _changing = Attaching::begin();
    // Before it is closed: then another thread may be given the number at once.
    let known = forget(file);
    // Linux closes it whatever it answers.
    let result = uncancelled(call);
    if let Some(gone) = known {
        locks::given_up();
        open::give_up(gone.object);
    }
    result
}

/// close_range(2) and closefrom(3), by whatever call: numbers that stand for other files
/// afterwards, or for none, are forgotten.
pub fn close_range<T>(first: c_uint, last: c_uint, call: impl FnOnce() -> T) -> T {
    let result = call();
    if is_followed() {
        errno::untouched(|| {
            let _changing = Attaching::begin();
            open::each_in(first, last, |file, _| {
                let _ = surely_object_of(file);
            });
            locks::given_up();
        });
    }
    result
}

/// dup(2), or fcntl(2) with F_DUPFD, by whatever call: gives a number that was free.
pub fn duplicate(file: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if object_of(file).is_none() || !process::owns_its_memory() {
        return call();
    }
    let _changing = Attaching::begin();
    let Some(known) = surely_object_of(file) else { return call() };
    if let Err(error) = open::keep(known.object) {
        errno::set(error);
        return -1;
    }
    entered(known, call())
}

/// dup2(2) and dup3(2), by whatever call: gives a number that the program has chosen.
pub fn duplicate_to(file: c_int, number: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if file == number || !is_followed() {
        return call();
    }
    let _changing = Attaching::begin();
    let source = object_of(file).and_then(|_| surely_object_of(file));
    if let Some(Err(error)) = source.map(|known| open::keep(known.object)) {
        errno::set(error);
        return -1;
    }
    let replaced = forget(number);
    let result = uncancelled(call);
    match replaced {
        Some(known) if result == -1 => put_back(number, known),
        Some(gone) => {
            locks::given_up();
            open::give_up(gone.object);
        }
        None => {}
    }
    source.map_or(result, |known| entered(known, result))
}

/// Enters what a call has made of a descriptor, which is counted already. A number that the table
/// has no place for is closed again.
fn entered(known: Descriptor, result: c_int) -> c_int {
    if result == -1 {
        open::give_up(known.object);
        return result;
    }
    match open::register(result, known) {
        Ok(()) => result,
        Err(error) => {
            open::close(result);
            errno::set(error);
            -1
        }
    }
}

/// fcntl(2), by whatever call.
///
/// # Safety
/// `argument` is as the call wants it.
#[inline]
pub unsafe fn control(
    file: c_int,
    command: c_int,
    argument: usize,
    call: impl Fn() -> c_int,
) -> c_int {
    if object_of(file).is_none() {
        return call();
    }
    match surely_object_of(file) {
        None => call(),
        // SAFETY: the same contract.
        Some(known) => unsafe { control_known(file, command, argument, known, call) },
    }
}

/// # Safety
/// As for [`control`].
#[cold]
unsafe fn control_known(
    file: c_int,
    command: c_int,
    argument: usize,
    known: Descriptor,
    call: impl Fn() -> c_int,
) -> c_int {
    match command {
        // SAFETY: by this function's own contract, the argument of these commands is that.
        _ if locks::is_command(command) => unsafe {
            locks::record(file, command, argument as *mut libc::flock, known, call)
        },
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicate(file, call),
        // The file behind a queue's is opened for everything.
        libc::F_GETFL => match call() {
            -1 => -1,
            flags => flags & !libc::O_ACCMODE | known.access.flags(),
        },
        libc::F_SETFL => {
            let result = call();
            open::note_flags(file, known);
            result
        }
        // As of a file in /dev/shm: nobody may seal it. The file behind it is.
        libc::F_GET_SEALS => libc::F_SEAL_SEAL,
        libc::F_SETLEASE => {
            errno::set(Errno::NOLCK);
            -1
        }
        _ => call(),
    }
}

/// flock(2), by whatever call.
#[inline]
pub fn lock(file: c_int, operation: c_int, call: impl Fn() -> c_int) -> c_int {
    match surely_object_of(file) {
        None => call(),
        Some(known) => locks::whole(file, operation, known, call),
    }
}

/// lockf(3).
#[inline]
pub fn lock_section(file: c_int, command: c_int, bytes: off_t, call: impl Fn() -> c_int) -> c_int {
    match surely_object_of(file) {
        None => call(),
        Some(known) => locks::section(file, command, bytes, known, call),
    }
}
