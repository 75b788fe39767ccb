//! semget(2), semop(2), semtimedop(2), semctl(2).

use std::time::Duration;

use libc::{c_int, c_short, c_ushort, key_t, sembuf, size_t, timespec};
use vshmem_ipc::{Client, Errno, Kind, Operation, SetStat};

use crate::intercept::control::{Call, Commands, IPC_INFO, highest, permission};
use vshmem_process::errno;
use vshmem_process::mapping::user;
use vshmem_process::next::next;
use vshmem_process::session::caller::Credentials;
use vshmem_process::session::{current, exit, home_namespace, route};

const SEM_UNDO: c_short = 0x1000;
const GETPID: c_int = 11;
const GETVAL: c_int = 12;
const GETALL: c_int = 13;
const GETNCNT: c_int = 14;
const GETZCNT: c_int = 15;
const SETVAL: c_int = 16;
const SETALL: c_int = 17;
const SEM_STAT: c_int = 18;
const SEM_INFO: c_int = 19;
const SEM_STAT_ANY: c_int = 20;
const COMMANDS: Commands = Commands { info: SEM_INFO, stat: SEM_STAT, stat_any: SEM_STAT_ANY };
/// What the kernel answers for limits that it has not, whatever is set: its defaults for others.
const LINUX_SEMMNS: c_int = 1_024_000_000;
const LINUX_SEMOPM: c_int = 500;
/// Operations that are copied to the stack without further ado.
const FEW: usize = 8;
/// The most that any pool allows (geometry check of `semopm`).
const MOST: usize = 1000;

/// `struct seminfo`.
#[repr(C)]
#[derive(Clone, Copy)]
struct seminfo {
    semmap: c_int,
    semmni: c_int,
    semmns: c_int,
    semmnu: c_int,
    semmsl: c_int,
    semopm: c_int,
    semume: c_int,
    semusz: c_int,
    semvmx: c_int,
    semaem: c_int,
}

/// semget(2).
///
/// # Safety
/// None needed: no pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semget(key: key_t, count: c_int, flags: c_int) -> c_int {
    if !route::key_in_pool(Kind::Semaphore, key) {
        let id = next!(c"semget": fn(key_t, c_int, c_int) -> c_int, (key, count, flags), -1);
        return route::told_apart(Kind::Semaphore, key, flags, id, || {
            let _ = kernels(id, 0, libc::IPC_RMID, 0);
        });
    }
    errno::answer_int(
        current::watchful_session()
            .and_then(|session| session.client().semget(key, count, flags, &Credentials::now())),
    )
}

/// semop(2).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semop(id: c_int, operations: *mut sembuf, count: size_t) -> c_int {
    if !route::id_in_pool(Kind::Semaphore, id) {
        return next!(c"semop": fn(c_int, *mut sembuf, size_t) -> c_int,
                     (id, operations, count), -1);
    }
    errno::answer_unit(operate(id, operations, count, std::ptr::null()))
}

/// semtimedop(2).
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semtimedop(
    id: c_int,
    operations: *mut sembuf,
    count: size_t,
    timeout: *const timespec,
) -> c_int {
    if !route::id_in_pool(Kind::Semaphore, id) {
        return next!(c"semtimedop": fn(c_int, *mut sembuf, size_t, *const timespec) -> c_int,
                     (id, operations, count, timeout), -1);
    }
    errno::answer_unit(operate(id, operations, count, timeout))
}

fn operate(
    id: c_int,
    operations: *const sembuf,
    count: usize,
    timeout: *const timespec,
) -> Result<(), Errno> {
    let session = current::session()?;
    let this_client = session.client();
    // The kernel's order: timeout pointer, count, operations, then values.
    let span = if timeout.is_null() {
        None
    } else {
        // SAFETY: any bytes are a timespec.
        Some(unsafe { user::read(timeout) }?)
    };
    if count > this_client.pool().geometry().semopm as usize {
        return Err(Errno::TOOBIG);
    }
    user::check(operations.cast(), count * size_of::<sembuf>(), false)?;
    if count < 1 || id < 0 {
        return Err(Errno::INVAL);
    }
    let timeout = match span {
        None => None,
        Some(span) => {
            let seconds = u64::try_from(span.tv_sec).map_err(|_| Errno::INVAL)?;
            let nanos = u32::try_from(span.tv_nsec).map_err(|_| Errno::INVAL)?;
            if nanos >= 1_000_000_000 {
                return Err(Errno::INVAL);
            }
            Some(Duration::new(seconds, nanos))
        }
    };
    if count == 1 {
        copy_and_operate::<1>(this_client, id, operations, count, timeout)
    } else if count <= FEW {
        copy_and_operate::<FEW>(this_client, id, operations, count, timeout)
    } else {
        operate_many(this_client, id, operations, count, timeout)
    }
}

/// Out of line: it takes more than a page of the stack.
#[inline(never)]
fn operate_many(
    this_client: &Client,
    id: c_int,
    operations: *const sembuf,
    count: usize,
    timeout: Option<Duration>,
) -> Result<(), Errno> {
    copy_and_operate::<MOST>(this_client, id, operations, count, timeout)
}

#[inline(always)]
fn copy_and_operate<const ROOM: usize>(
    this_client: &Client,
    id: c_int,
    operations: *const sembuf,
    count: usize,
    timeout: Option<Duration>,
) -> Result<(), Errno> {
    let mut copy = [Operation::default(); ROOM];
    let copied = copy.get_mut(..count).ok_or(Errno::TOOBIG)?;
    for (index, operation) in copied.iter_mut().enumerate() {
        // SAFETY: `operate` has found `count` operations to be readable.
        let raw = unsafe { operations.add(index).read_unaligned() };
        *operation = Operation {
            number: raw.sem_num,
            change: raw.sem_op,
            no_wait: raw.sem_flg & libc::IPC_NOWAIT as c_short != 0,
            undo: raw.sem_flg & SEM_UNDO != 0,
        };
    }
    let result = this_client.semop(id, copied, timeout, &Credentials::now());
    match result {
        // It may be held by a process that has ended.
        Err(Errno::AGAIN)
            if copied.iter().any(|operation| operation.no_wait)
                && exit::reap_exiting(this_client) =>
        {
            this_client.semop(id, copied, timeout, &Credentials::now())
        }
        _ => result,
    }
}

/// semctl(2). The last argument is C's variadic `union semun`, which travels like a pointer.
///
/// # Safety
/// As libc's; a bad pointer gives EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn semctl(
    id: c_int,
    number: c_int,
    command: c_int,
    argument: usize,
) -> c_int {
    let call = Call { kind: Kind::Semaphore, id, command, commands: COMMANDS };
    let ask_kernel = || kernels(id, number, command, argument);
    if command == GETVAL {
        // Programs poll by it: apart from the others, whose frame and table of commands cost as
        // much as it does.
        return call.answer(ask_kernel, |this_client, _| {
            let value = this_client.semaphore_value(id, number, &Credentials::now());
            value.map(|value| value as c_int)
        });
    }
    call.answer(ask_kernel, |this_client, kernel| {
        control(this_client, id, number, command, argument, kernel)
    })
}

/// The kernel's semctl(2).
fn kernels(id: c_int, number: c_int, command: c_int, argument: usize) -> c_int {
    next!(c"semctl": fn(c_int, c_int, c_int, usize) -> c_int, (id, number, command, argument), -1)
}

fn control(
    this_client: &Client,
    id: c_int,
    number: c_int,
    command: c_int,
    argument: usize,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let me = Credentials::now();
    let buffer = argument as *mut libc::semid_ds;
    match command {
        GETPID => this_client.semaphore_pid(id, number, &me).map(|pid| pid as c_int),
        GETNCNT => this_client.semaphore_waiters(id, number, false, &me).map(|n| n as c_int),
        GETZCNT => this_client.semaphore_waiters(id, number, true, &me).map(|n| n as c_int),
        SETVAL => this_client.set_semaphore(id, number, argument as c_int, &me).map(|()| 0),
        GETALL => values_into(this_client, id, argument as *mut c_ushort, &me),
        SETALL => values_from(this_client, id, argument as *const c_ushort, &me),
        libc::IPC_STAT => {
            user::write(buffer, describe(&this_client.set_stat(id, &me)?))?;
            Ok(0)
        }
        SEM_STAT | SEM_STAT_ANY => {
            let index = route::index_in_pool(id);
            let stat = this_client.set_at_index(index, command == SEM_STAT_ANY, &me)?;
            user::write(buffer, describe(&stat))?;
            Ok(stat.id)
        }
        libc::IPC_SET => {
            // SAFETY: any bytes are a semid_ds.
            let wanted = unsafe { user::read(buffer.cast_const()) }?.sem_perm;
            let (uid, gid) = home_namespace::given(wanted.uid, wanted.gid)?;
            let mode = u32::from(wanted.mode);
            this_client.set_change(id, uid, gid, mode, &me).map(|()| 0)
        }
        libc::IPC_RMID => this_client.set_remove(id, &me).map(|()| 0),
        IPC_INFO | SEM_INFO => totals(this_client, command, argument as *mut seminfo, kernel),
        _ => Err(Errno::INVAL),
    }
}

/// GETALL.
fn values_into(
    this_client: &Client,
    id: c_int,
    values: *mut c_ushort,
    me: &Credentials,
) -> Result<c_int, Errno> {
    let count = this_client.semaphore_count(id)?;
    user::check(values.cast_const().cast(), count * size_of::<c_ushort>(), true)?;
    this_client.semaphore_values(id, me, |index, value| {
        if index < count {
            // SAFETY: the array was just found to be writable over `count` values.
            unsafe { values.add(index).write_unaligned(value) };
        }
    })?;
    Ok(0)
}

/// SETALL.
fn values_from(
    this_client: &Client,
    id: c_int,
    values: *const c_ushort,
    me: &Credentials,
) -> Result<c_int, Errno> {
    let count = this_client.semaphore_count(id)?;
    user::check(values.cast(), count * size_of::<c_ushort>(), false)?;
    let value = |index: usize| {
        // SAFETY: the array was just found to be readable over `count` values, and the
        // index is below the set's count.
        if index < count { unsafe { values.add(index).read_unaligned() } } else { 0 }
    };
    this_client.set_semaphores(id, &value, me)?;
    Ok(0)
}

/// IPC_INFO and SEM_INFO; added to what the kernel has answered, if it has.
fn totals(
    this_client: &Client,
    command: c_int,
    buffer: *mut seminfo,
    kernel: Option<c_int>,
) -> Result<c_int, Errno> {
    let ours = this_client.sem_info()?;
    let limits = this_client.pool().geometry();
    let mut info = seminfo {
        semmap: LINUX_SEMMNS,
        semmni: limits.semmni as c_int,
        semmns: limits.semmns as c_int,
        semmnu: LINUX_SEMMNS,
        semmsl: limits.semmsl as c_int,
        semopm: limits.semopm as c_int,
        semume: LINUX_SEMOPM,
        semusz: 20,
        semvmx: limits.semvmx as c_int,
        semaem: limits.semvmx as c_int,
    };
    if kernel.is_some() {
        // SAFETY: the kernel has just written a seminfo there.
        info = unsafe { user::read(buffer.cast_const()) }?;
    } else if command == SEM_INFO {
        (info.semusz, info.semaem) = (0, 0);
    }
    if command == SEM_INFO {
        info.semusz += ours.sets as c_int;
        info.semaem += ours.semaphores as c_int;
    }
    user::write(buffer, info)?;
    Ok(highest(ours.sets, ours.highest, kernel))
}

fn describe(stat: &SetStat) -> libc::semid_ds {
    // SAFETY: all-zero bytes are a valid semid_ds.
    let mut out: libc::semid_ds = unsafe { std::mem::zeroed() };
    out.sem_perm = permission(&stat.permission);
    out.sem_otime = stat.operated.into();
    out.sem_ctime = stat.changed.into();
    out.sem_nsems = stat.count.into();
    out
}
