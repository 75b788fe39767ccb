//! mq_open(3), mq_send(3), mq_receive(3) and their kin.

use libc::{c_char, c_int, c_uint, mode_t, mq_attr, mqd_t, sigevent, size_t, ssize_t, timespec};
use vshmem_session::Posix;

use vshmem_process::errno;
use vshmem_process::next::next;
use vshmem_process::object_descriptors::{OpenQueue, open};
use vshmem_process::posix::{adopt, follow, mq_notify, name, queue};
use vshmem_process::session::cancel::uncancelled;
use vshmem_process::session::route;

/// The queue of the pool that a descriptor is of. One that has come from elsewhere is looked at
/// once.
#[inline]
fn ours(file: mqd_t) -> Option<OpenQueue> {
    open::queue(file).or_else(|| adopted(file))
}

#[cold]
fn adopted(file: mqd_t) -> Option<OpenQueue> {
    let may_be = route::posix_in_pool(Posix::Queue) && open::object_of(file).is_none();
    if may_be {
        adopt::adopt(file);
    }
    open::queue(file)
}

/// mq_open(3). C's variadic arguments travel as others do.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_open(
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
    size: *const mq_attr,
) -> mqd_t {
    // SAFETY: by the caller's contract.
    if !unsafe { name::in_pool(Posix::Queue, name) } {
        return next!(c"mq_open": fn(*const c_char, c_int, mode_t, *const mq_attr) -> mqd_t,
                     (name, flags, mode, size), -1);
    }
    // SAFETY: a C string by contract.
    let opened = unsafe { name::read_of_queue(name) }
        .and_then(|name| uncancelled(|| queue::open_queue(name, flags, mode, size)));
    errno::answer_int(opened)
}

/// mq_open as `_FORTIFY_SOURCE` calls it, without mode and size.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __mq_open_2(name: *const c_char, flags: c_int) -> mqd_t {
    // SAFETY: by the caller's contract.
    if !unsafe { name::in_pool(Posix::Queue, name) } {
        return next!(c"__mq_open_2": fn(*const c_char, c_int) -> mqd_t, (name, flags), -1);
    }
    if flags & libc::O_CREAT != 0 {
        // glibc ends the program here: there is no mode.
        std::process::abort();
    }
    // SAFETY: by the caller's contract.
    unsafe { mq_open(name, flags, 0, std::ptr::null()) }
}

/// mq_close(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mq_close(file: mqd_t) -> c_int {
    follow::close(file, || next!(c"mq_close": fn(mqd_t) -> c_int, (file), -1))
}

/// mq_unlink(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_unlink(name: *const c_char) -> c_int {
    // SAFETY: by the caller's contract.
    if !unsafe { name::in_pool(Posix::Queue, name) } {
        return next!(c"mq_unlink": fn(*const c_char) -> c_int, (name), -1);
    }
    // SAFETY: a C string by contract.
    errno::answer_unit(
        unsafe { name::read_of_queue(name) }.and_then(|name| uncancelled(|| queue::unlink(name))),
    )
}

/// mq_send(3).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_send(
    file: mqd_t,
    message: *const c_char,
    size: size_t,
    priority: c_uint,
) -> c_int {
    let Some(found) = ours(file) else {
        return next!(c"mq_send": fn(mqd_t, *const c_char, size_t, c_uint) -> c_int,
                     (file, message, size, priority), -1);
    };
    if queue::send_at_once(found, message, size, priority) {
        return 0;
    }
    errno::answer_unit(queue::send(found, message, size, priority, None))
}

/// mq_timedsend(3).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_timedsend(
    file: mqd_t,
    message: *const c_char,
    size: size_t,
    priority: c_uint,
    until: *const timespec,
) -> c_int {
    let Some(found) = ours(file) else {
        return next!(c"mq_timedsend":
            fn(mqd_t, *const c_char, size_t, c_uint, *const timespec) -> c_int,
            (file, message, size, priority, until), -1);
    };
    errno::answer_unit(queue::send_until(found, message, size, priority, until))
}

/// mq_receive(3).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_receive(
    file: mqd_t,
    into: *mut c_char,
    room: size_t,
    priority: *mut c_uint,
) -> ssize_t {
    let Some(found) = ours(file) else {
        return next!(c"mq_receive": fn(mqd_t, *mut c_char, size_t, *mut c_uint) -> ssize_t,
                     (file, into, room, priority), -1);
    };
    if let Some(bytes) = queue::receive_at_once(found, into, room, priority) {
        return bytes as ssize_t;
    }
    let received = queue::receive(found, into, room, priority, None);
    errno::answer(received.map(|bytes| bytes as i64)) as ssize_t
}

/// mq_timedreceive(3).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_timedreceive(
    file: mqd_t,
    into: *mut c_char,
    room: size_t,
    priority: *mut c_uint,
    until: *const timespec,
) -> ssize_t {
    let Some(found) = ours(file) else {
        return next!(c"mq_timedreceive":
            fn(mqd_t, *mut c_char, size_t, *mut c_uint, *const timespec) -> ssize_t,
            (file, into, room, priority, until), -1);
    };
    let received = queue::receive_until(found, into, room, priority, until);
    errno::answer(received.map(|bytes| bytes as i64)) as ssize_t
}

/// mq_getattr(3).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_getattr(file: mqd_t, into: *mut mq_attr) -> c_int {
    if ours(file).is_none() {
        return next!(c"mq_getattr": fn(mqd_t, *mut mq_attr) -> c_int, (file, into), -1);
    }
    errno::answer_unit(queue::attributes(file, std::ptr::null(), into))
}

/// mq_setattr(3).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_setattr(
    file: mqd_t,
    wanted: *const mq_attr,
    before: *mut mq_attr,
) -> c_int {
    if ours(file).is_none() {
        return next!(c"mq_setattr": fn(mqd_t, *const mq_attr, *mut mq_attr) -> c_int,
                     (file, wanted, before), -1);
    }
    errno::answer_unit(queue::attributes(file, wanted, before))
}

/// mq_notify(3).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mq_notify(file: mqd_t, event: *const sigevent) -> c_int {
    if ours(file).is_none() {
        return next!(c"mq_notify": fn(mqd_t, *const sigevent) -> c_int, (file, event), -1);
    }
    errno::answer_unit(mq_notify::notify(file, event))
}
