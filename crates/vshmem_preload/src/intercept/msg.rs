//! msgget(2), msgsnd(2), msgrcv(2), msgctl(2).

use libc::{c_int, c_long, c_ushort, c_void, key_t, size_t, ssize_t};
use vshmem_ipc::{Client, Errno, Kind, QueueStat, Receive, SHORT_BYTES};

use crate::intercept::control::{Call, Commands, IPC_INFO, highest, permission};
use vshmem_process::errno;
use vshmem_process::mapping::user;
use vshmem_process::next::next;
use vshmem_process::session::caller::Credentials;
use vshmem_process::session::{cancel, current, home_namespace, route};

/// Bytes of the type in a `struct msgbuf`.
const TYPE_BYTES: usize = size_of::<c_long>();

const MSG_STAT: c_int = 11;
const MSG_INFO: c_int = 12;
const MSG_STAT_ANY: c_int = 13;
const COMMANDS: Commands = Commands { info: MSG_INFO, stat: MSG_STAT, stat_any: MSG_STAT_ANY };

/// `struct msginfo`.
#[repr(C)]
#[derive(Clone, Copy)]
struct msginfo {
    msgpool: c_int,
    msgmap: c_int,
    msgmax: c_int,
    msgmnb: c_int,
    msgmni: c_int,
    msgssz: c_int,
    msgtql: c_int,
    msgseg: c_ushort,
}

/// msgget(2).
///
/// # Safety
/// None needed: no pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgget(key: key_t, flags: c_int) -> c_int {
    if !route::key_in_pool(Kind::Queue, key) {
        let id = next!(c"msgget": fn(key_t, c_int) -> c_int, (key, flags), -1);
        return route::told_apart(Kind::Queue, key, flags, id, || {
            let _ = kernels(id, libc::IPC_RMID, std::ptr::null_mut());
        });
    }
    errno::answer_int(
        current::watchful_session()
            .and_then(|session| session.client().msgget(key, flags, &Credentials::now())),
    )
}

/// msgsnd(2).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgsnd(
    id: c_int,
    message: *const c_void,
    size: size_t,
    flags: c_int,
) -> c_int {
    if !route::id_in_pool(Kind::Queue, id) {
        return next!(c"msgsnd": fn(c_int, *const c_void, size_t, c_int) -> c_int,
                     (id, message, size, flags), -1);
    }
    cancel::exit_if_cancelled();
    if send_at_once(id, message.cast(), size).is_some() {
        return 0;
    }
    errno::answer_unit(cancel::point(|| send(id, message.cast(), size, flags)))
}

/// Sends a message if nothing stands in the way. `None`: it was not sent.
#[inline(always)]
fn send_at_once(id: c_int, message: *const u8, size: usize) -> Option<()> {
    let session = current::existing()?;
    if size > SHORT_BYTES {
        return None;
    }
    user::check(message, TYPE_BYTES + size, false).ok()?;
    // SAFETY: type and payload were just found to be readable; they are only read, and only during
    // this call. Any bytes are a long.
    let (kind, payload) = unsafe {
        let kind = message.cast::<c_long>().read_unaligned();
        (kind, std::slice::from_raw_parts(message.add(TYPE_BYTES), size))
    };
    session.client().msgsnd_at_once(id, kind, payload, &Credentials::now()).then_some(())
}

fn send(id: c_int, message: *const u8, size: usize, flags: c_int) -> Result<(), Errno> {
    let session = current::session()?;
    let this_client = session.client();
    // SAFETY: any bytes are a long.
    let kind = unsafe { user::read(message.cast::<c_long>()) }?;
    if size > this_client.pool().geometry().msgmax as usize || id < 0 || kind < 1 {
        return Err(Errno::INVAL);
    }
    let payload = message.wrapping_add(TYPE_BYTES);
    user::check(payload, size, false)?;
    // SAFETY: the payload was just found to be readable; it is only read, and only during this
    // call.
    let payload = unsafe { std::slice::from_raw_parts(payload, size) };
    this_client.msgsnd(id, kind, payload, flags & libc::IPC_NOWAIT != 0, &Credentials::now())
}

/// msgrcv(2).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgrcv(
    id: c_int,
    message: *mut c_void,
    room: size_t,
    kind: c_long,
    flags: c_int,
) -> ssize_t {
    if !route::id_in_pool(Kind::Queue, id) {
        return next!(c"msgrcv":
            fn(c_int, *mut c_void, size_t, c_long, c_int) -> ssize_t,
            (id, message, room, kind, flags), -1);
    }
    cancel::exit_if_cancelled();
    if let Some(bytes) = receive_at_once(id, message.cast(), room, kind, flags) {
        return bytes as ssize_t;
    }
    // Beside the result, which so stays in registers: `Result<usize, Errno>` is copied with stalls.
    let mut bytes = 0;
    let received = cancel::point(|| {
        bytes = receive(id, message.cast(), room, kind, flags)?;
        Ok(())
    });
    errno::answer(received.map(|()| bytes as i64)) as ssize_t
}

/// Takes a message if nothing stands in the way: its bytes.
#[inline(always)]
fn receive_at_once(
    id: c_int,
    message: *mut u8,
    room: usize,
    kind: c_long,
    flags: c_int,
) -> Option<usize> {
    let session = current::existing()?;
    let wanted = Receive::of(kind, room, flags);
    let is_ready = |size: usize| user::check(message, size + TYPE_BYTES, true).is_ok();
    session.client().msgrcv_at_once(id, wanted, &Credentials::now(), is_ready, |kind, payload| {
        // SAFETY: the place was just found to be writable, and is the program's to be written to:
        // the payload is no longer than what was asked for.
        unsafe {
            message.cast::<c_long>().write_unaligned(kind as c_long);
            let into = message.add(TYPE_BYTES);
            into.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        }
    })
}

fn receive(
    id: c_int,
    message: *mut u8,
    room: usize,
    kind: c_long,
    flags: c_int,
) -> Result<usize, Errno> {
    let session = current::session()?;
    let wanted = Receive::of(kind, room, flags);
    session.client().msgrcv(id, wanted, &Credentials::now(), &mut |kind, size, copy| {
        user::write(message.cast::<c_long>(), kind as c_long)?;
        let payload = message.wrapping_add(TYPE_BYTES);
        user::check(payload, size, true)?;
        if size > 0 {
            // SAFETY: the room was just found to be writable, and is the program's to be written.
            copy(unsafe { std::slice::from_raw_parts_mut(payload, size) });
        }
        Ok(size)
    })
}

/// msgctl(2).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgctl(id: c_int, command: c_int, buffer: *mut libc::msqid_ds) -> c_int {
    let call = Call { kind: Kind::Queue, id, command, commands: COMMANDS };
    call.answer(
        || kernels(id, command, buffer),
        |this_client, kernel| control(this_client, id, command, buffer, kernel),
    )
}

/// The kernel's msgctl(2).
fn kernels(id: c_int, command: c_int, buffer: *mut libc::msqid_ds) -> c_int {
    next!(c"msgctl": fn(c_int, c_int, *mut libc::msqid_ds) -> c_int, (id, command, buffer), -1)
}

fn control(
    this_client: &Client,
    id: c_int,
    command: c_int,
    buffer: *mut libc::msqid_ds,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let me = Credentials::now();
    match command {
        libc::IPC_STAT => {
            user::write(buffer, describe(&this_client.queue_stat(id, &me)?))?;
            Ok(0)
        }
        MSG_STAT | MSG_STAT_ANY => {
            let index = route::index_in_pool(id);
            let stat = this_client.queue_at_index(index, command == MSG_STAT_ANY, &me)?;
            user::write(buffer, describe(&stat))?;
            Ok(stat.id)
        }
        libc::IPC_SET => {
            // SAFETY: any bytes are a msqid_ds.
            let wanted = unsafe { user::read(buffer.cast_const()) }?;
            let owner = wanted.msg_perm;
            let (uid, gid) = home_namespace::given(owner.uid, owner.gid)?;
            let (mode, limit) = (u32::from(owner.mode), wanted.msg_qbytes);
            this_client.queue_change(id, uid, gid, mode, limit, &me).map(|()| 0)
        }
        libc::IPC_RMID => this_client.queue_remove(id, &me).map(|()| 0),
        IPC_INFO | MSG_INFO => totals(this_client, command, buffer.cast(), kernel),
        _ => Err(Errno::INVAL),
    }
}

/// IPC_INFO and MSG_INFO; added to what the kernel has answered, if it has.
fn totals(
    this_client: &Client,
    command: c_int,
    buffer: *mut msginfo,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let ours = this_client.msg_info()?;
    let limits = this_client.pool().geometry();
    let most = limits.msgmni.saturating_mul(limits.msgmnb).min(i32::MAX as u32);
    let mut info = msginfo {
        msgpool: (most / 1024) as c_int,
        msgmap: limits.msgmnb as c_int,
        msgmax: limits.msgmax as c_int,
        msgmnb: limits.msgmnb as c_int,
        msgmni: limits.msgmni as c_int,
        msgssz: 16,
        msgtql: limits.msgmnb as c_int,
        msgseg: 0xffff,
    };
    if kernel.is_some() {
        // SAFETY: the kernel has just written a msginfo there.
        info = unsafe { user::read(buffer.cast_const()) }?;
    } else if command == MSG_INFO {
        (info.msgpool, info.msgmap, info.msgtql) = (0, 0, 0);
    }
    if command == MSG_INFO {
        info.msgpool += ours.queues as c_int;
        info.msgmap += ours.messages as c_int;
        info.msgtql += ours.bytes as c_int;
    }
    user::write(buffer, info)?;
    Ok(highest(ours.queues, ours.highest, kernel))
}

fn describe(stat: &QueueStat) -> libc::msqid_ds {
    // SAFETY: all-zero bytes are a valid msqid_ds.
    let mut out: libc::msqid_ds = unsafe { std::mem::zeroed() };
    out.msg_perm = permission(&stat.permission);
    out.msg_stime = stat.sent.into();
    out.msg_rtime = stat.received.into();
    out.msg_ctime = stat.changed.into();
    out.__msg_cbytes = stat.bytes.into();
    out.msg_qnum = stat.count.into();
    out.msg_qbytes = stat.limit.into();
    out.msg_lspid = stat.sender as libc::pid_t;
    out.msg_lrpid = stat.receiver as libc::pid_t;
    out
}
