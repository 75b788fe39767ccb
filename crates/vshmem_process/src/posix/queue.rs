//! mq_open(3), mq_send(3), mq_receive(3) and what else a descriptor of a message queue is used for.

use std::ffi::CStr;

use libc::{c_char, c_int, c_uint, mode_t, mq_attr, size_t, timespec};
use vshmem_ipc::{Caller, Errno, QueueOpen, QueueSize, Wait};
use vshmem_mem::{Clock, Deadline, Instant};

use crate::attached::attach_table::Attaching;
use crate::errno;
use crate::mapping::user;
use crate::object_descriptors::{Access, Descriptor, OpenQueue, open};
use crate::posix::{signals_due, umask};
use crate::process;
use crate::process_shared::deadline;
use crate::session::caller::Credentials;
use crate::session::{cancel, current, exit, thread_words};

/// `MQ_PRIO_MAX` of the kernel.
const PRIORITIES: c_uint = 32768;

/// What mq_attr asks for.
fn size_of_new(
    wanted: *const mq_attr,
    me: &Credentials,
) -> Result<Result<QueueSize, Errno>, Errno> {
    if wanted.is_null() {
        return Ok(Ok(QueueSize::DEFAULT));
    }
    // SAFETY: any bytes are an mq_attr.
    let wanted = unsafe { user::read(wanted) }?;
    let allowed = if me.unlimited() { QueueSize::LARGEST } else { allowed_to_all() };
    Ok(QueueSize::asked(wanted.mq_maxmsg, wanted.mq_msgsize, allowed))
}

/// What this machine allows to everybody, as it does for the kernel's queues.
fn allowed_to_all() -> QueueSize {
    let read = |path: &CStr, usual: u32| -> u32 {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(path, flags, rustix::fs::Mode::empty()) else {
            return usual;
        };
        let mut text = [0; 32];
        let bytes = rustix::io::read(&file, &mut text).unwrap_or(0);
        let number = std::str::from_utf8(&text[..bytes]).ok();
        number.and_then(|number| number.trim().parse().ok()).unwrap_or(usual)
    };
    let QueueSize { most_messages, most_bytes } = QueueSize::DEFAULT;
    QueueSize {
        most_messages: read(c"/proc/sys/fs/mqueue/msg_max", most_messages),
        most_bytes: read(c"/proc/sys/fs/mqueue/msgsize_max", most_bytes),
    }
}

/// mq_open(3) of a name behind its slash.
///
/// # Errors
/// As the man page says.
pub fn open_queue(
    name: &[u8],
    flags: c_int,
    mode: mode_t,
    wanted: *const mq_attr,
) -> Result<c_int, Errno> {
    let me = Credentials::now();
    let create = flags & libc::O_CREAT != 0;
    let size = if create { size_of_new(wanted, &me)? } else { Err(Errno::INVAL) };
    let access = Access::of_flags(flags).ok_or(Errno::INVAL)?;
    let how = QueueOpen {
        read: access.read,
        write: access.write,
        create,
        exclusive: flags & libc::O_EXCL != 0,
        mode: if create { mode & !umask::current() } else { 0 },
        size,
    };
    let this_client = current::watchful_session()?.client();
    // A fork waits until what is counted is in the table.
    let _changing = Attaching::begin();
    let refusals = [Errno::NOSPC, Errno::NOMEM, Errno::NFILE];
    let id =
        exit::retry_after_reaping(this_client, &refusals, || this_client.mq_open(name, &how, &me))?;
    let file = open::make_queue(id, access)?;
    if flags & libc::O_NONBLOCK != 0 {
        open::set_flags(file, libc::O_NONBLOCK);
        if let Some(known) = open::object_of(file) {
            open::note_flags(file, known);
        }
    }
    Ok(file)
}

/// mq_unlink(3) of a name behind its slash.
///
/// # Errors
/// As the man page says: EACCES where unlink(2) says EPERM.
pub fn unlink(name: &[u8]) -> Result<(), Errno> {
    let this_client = current::watchful_session()?.client();
    exit::reap_exiting(this_client);
    this_client.mq_unlink(name, &Credentials::now()).map_err(|errno| match errno {
        Errno::PERM => Errno::ACCESS,
        other => other,
    })
}

/// Until when a call waits; none: for ever. As the kernel, it is looked at first of all.
fn until(at: *const timespec) -> Result<Option<Deadline>, Errno> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: any bytes are a timespec.
    let at = unsafe { user::read(at) }?;
    if at.tv_sec < 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: it is this function's own copy.
    unsafe { deadline::of(Clock::Realtime, &raw const at) }.map(Some)
}

/// Does a call that may wait. A clock is only looked at when it has to, and it goes on after a
/// handler that was installed with SA_RESTART, as the kernel's does.
#[inline]
fn waiting(
    nonblocking: bool,
    until: Option<Deadline>,
    mut call: impl FnMut(Wait) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let Some(until) = until else {
        return restarting(|| call(if nonblocking { Wait::Never } else { Wait::Forever }));
    };
    let done = call(Wait::Never);
    if nonblocking || done != Err(Errno::AGAIN) {
        return done;
    }
    restarting(|| match until.remaining() {
        // Even so it looks once more: a handler may have run past the end, and the message, or the
        // room, have come meanwhile.
        left if left.is_zero() => match call(Wait::Never) {
            Err(Errno::AGAIN) => Err(Errno::TIMEDOUT),
            done => done,
        },
        left => call(Wait::Until(Instant::now().after(left))),
    })
}

#[inline]
fn restarting(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        let interruptions = thread_words::interruptions();
        match cancel::point(&mut call) {
            Err(Errno::INTR) if thread_words::interruptions() == interruptions => {}
            result => return result,
        }
    }
}

/// Sends a short message if nothing stands in the way; false: nothing has happened.
#[inline(always)]
pub fn send_at_once(
    found: OpenQueue,
    message: *const c_char,
    size: size_t,
    priority: c_uint,
) -> bool {
    let message: *const u8 = message.cast();
    let is_usual = priority < PRIORITIES
        && found.may_send()
        && size <= QueueSize::LARGEST.most_bytes as usize
        && user::check(message, size, false).is_ok();
    let Some(session) = current::existing().filter(|_| is_usual) else { return false };
    let message = match size {
        0 => &[],
        // SAFETY: the payload was just found to be readable; it is only read, and only during this
        // call.
        _ => unsafe { std::slice::from_raw_parts(message, size) },
    };
    cancel::exit_if_cancelled();
    session.client().mq_send_at_once(found.id(), message, priority)
}

/// mq_timedsend(3).
///
/// # Errors
/// As the man page says.
pub fn send_until(
    found: OpenQueue,
    message: *const c_char,
    size: size_t,
    priority: c_uint,
    at: *const timespec,
) -> Result<(), Errno> {
    let until = until(at)?;
    if send_at_once(found, message, size, priority) {
        return Ok(());
    }
    send(found, message, size, priority, until)
}

/// mq_send(3) of what [`send_at_once`] has not sent.
///
/// # Errors
/// As the man page says.
pub fn send(
    found: OpenQueue,
    message: *const c_char,
    size: size_t,
    priority: c_uint,
    until: Option<Deadline>,
) -> Result<(), Errno> {
    if priority >= PRIORITIES {
        return Err(Errno::INVAL);
    }
    let id = found.id();
    if !found.may_send() {
        return Err(Errno::BADF);
    }
    let this_client = current::session()?.client();
    if size > QueueSize::LARGEST.most_bytes as usize {
        return Err(Errno::MSGSIZE);
    }
    let message: *const u8 = message.cast();
    if let Err(errno) = user::check(message, size, false) {
        // The kernel looks at the size first.
        let most = this_client.mq_stat(id)?.size.most_bytes as usize;
        return Err(if size > most { Errno::MSGSIZE } else { errno });
    }
    let message = match size {
        0 => &[],
        // SAFETY: as in `send_at_once`.
        _ => unsafe { std::slice::from_raw_parts(message, size) },
    };
    cancel::exit_if_cancelled();
    waiting(found.is_nonblocking(), until, |wait| {
        if let Some(number) = this_client.mq_send(id, message, priority, wait)? {
            errno::untouched(|| tell_this_process(number));
        }
        Ok(())
    })
}

/// Sends this process the signal that its own message owes it: mq_notify(3).
#[cold]
fn tell_this_process(registration: u64) {
    if let Some(due) = signals_due::take(registration) {
        due.send(process::own_pid());
    }
}

/// Receives a short message if nothing stands in the way: its bytes. None: nothing has happened.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "looked at before it is written to")]
#[inline(always)]
pub fn receive_at_once(
    found: OpenQueue,
    into: *mut c_char,
    room: size_t,
    priority: *mut c_uint,
) -> Option<usize> {
    let into: *mut u8 = into.cast();
    let is_usual = found.may_receive()
        && (priority.is_null()
            || user::check(priority.cast_const().cast(), size_of::<c_uint>(), true).is_ok());
    let session = current::existing().filter(|_| is_usual)?;
    cancel::exit_if_cancelled();
    // Not yet written to: the message may still be another receiver's.
    let is_ready = |size: usize| user::check(into, size, true).is_ok();
    let room = room.min(isize::MAX as usize);
    session.client().mq_receive_at_once(found.id(), room, is_ready, |sent_with, text| {
        // SAFETY: both places were just found to be writable, and the program has passed them to be
        // written to: `text` is no longer than what was asked for.
        unsafe {
            if !priority.is_null() {
                priority.write_unaligned(sent_with);
            }
            into.copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
    })
}

/// mq_timedreceive(3).
///
/// # Errors
/// As the man page says.
pub fn receive_until(
    found: OpenQueue,
    into: *mut c_char,
    room: size_t,
    priority: *mut c_uint,
    at: *const timespec,
) -> Result<usize, Errno> {
    let until = until(at)?;
    match receive_at_once(found, into, room, priority) {
        Some(bytes) => Ok(bytes),
        None => receive(found, into, room, priority, until),
    }
}

/// mq_receive(3) of what [`receive_at_once`] has not received.
///
/// # Errors
/// As the man page says.
pub fn receive(
    found: OpenQueue,
    into: *mut c_char,
    room: size_t,
    priority: *mut c_uint,
    until: Option<Deadline>,
) -> Result<usize, Errno> {
    let id = found.id();
    if !found.may_receive() {
        return Err(Errno::BADF);
    }
    let this_client = current::session()?.client();
    let room = room.min(isize::MAX as usize);
    let into: *mut u8 = into.cast();
    cancel::exit_if_cancelled();
    let mut bytes = 0;
    waiting(found.is_nonblocking(), until, |wait| {
        bytes = this_client.mq_receive(id, room, wait, &mut |sent_with, size, copy| {
            if !priority.is_null() {
                user::write(priority, sent_with as c_uint)?;
            }
            user::check(into, size, true)?;
            if size > 0 {
                // SAFETY: the room was just found to be writable, and is the program's to be
                // written.
                copy(unsafe { std::slice::from_raw_parts_mut(into, size) });
            }
            Ok(size)
        })?;
        Ok(())
    })?;
    Ok(bytes)
}

/// mq_setattr(3); mq_getattr(3) sets nothing.
///
/// # Errors
/// EINVAL for any flag but O_NONBLOCK, EBADF, EFAULT.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "looked at before it is read")]
pub fn attributes(file: c_int, wanted: *const mq_attr, before: *mut mq_attr) -> Result<(), Errno> {
    let mut nonblock = None;
    if !wanted.is_null() {
        // SAFETY: any bytes are an mq_attr.
        let flags = unsafe { user::read(wanted) }?.mq_flags;
        if flags & !i64::from(libc::O_NONBLOCK) != 0 {
            return Err(Errno::INVAL);
        }
        nonblock = Some(flags != 0);
    }
    let found = open::queue(file).ok_or(Errno::BADF)?;
    let stat = current::watchful_session()?.client().mq_stat(found.id())?;
    if let Some(nonblock) = nonblock {
        // None: another thread has closed it since.
        let descriptor = open::object_of(file).ok_or(Errno::BADF)?;
        set_nonblock(file, descriptor, nonblock);
    }
    if !before.is_null() {
        // SAFETY: all-zero bytes are an mq_attr.
        let mut told: mq_attr = unsafe { std::mem::zeroed() };
        told.mq_flags = if found.is_nonblocking() { libc::O_NONBLOCK.into() } else { 0 };
        told.mq_maxmsg = stat.size.most_messages.into();
        told.mq_msgsize = stat.size.most_bytes.into();
        told.mq_curmsgs = stat.messages.into();
        user::write(before, told)?;
    }
    Ok(())
}

fn set_nonblock(file: c_int, descriptor: Descriptor, nonblock: bool) {
    open::set_flags(file, if nonblock { libc::O_NONBLOCK } else { 0 });
    open::note_flags(file, descriptor);
}

/// The queue that a descriptor is of, for mq_notify(3).
///
/// # Errors
/// EBADF.
pub fn queue_to_tell_of(file: c_int) -> Result<i32, Errno> {
    open::queue(file).map(OpenQueue::id).ok_or(Errno::BADF)
}
