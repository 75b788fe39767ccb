//! flock(2), record locks and locks of open file descriptions (fcntl(2)), and lockf(3), on
//! descriptors of shared memory objects.
//!
//! The kernel has the locks, on the file behind the descriptor: which process or description holds
//! one, what close, dup, fork and exec do to it, deadlocks and signals are its business. What is
//! added here is that other domains are kept away: the file's *place* has to have a claim for a
//! lock in the pool, before the lock is asked for and while it is held
//! (`vshmem_ipc::LockRequest`).
//!
//! From below: `kernel` asks the kernel; `prior` is what is held before a wait; `claim` gets the
//! claim; `set` and `get` are the calls.

mod claim;
mod get;
mod kernel;
mod prior;
mod set;

use libc::{c_int, off_t};
use vshmem_ipc::{Errno, LAST_BYTE, LockClass, LockMode, LockRange};

use crate::object_descriptors::{Descriptor, Object};
use crate::posix::seek;
use crate::session::current;
use crate::{errno, process};
use kernel::{Kernel, Locks};

pub use set::given_up;

/// flock(2), by whatever call.
#[cold]
pub fn whole(file: c_int, operation: c_int, known: Descriptor, call: impl Fn() -> c_int) -> c_int {
    let Some(id) = followed(known) else { return refused(known, call) };
    let kernel = Kernel { file, locks: Locks::Whole, inode: known.identity.inode };
    let blocks = operation & libc::LOCK_NB == 0;
    let mode = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => LockMode::Shared,
        libc::LOCK_EX => LockMode::Exclusive,
        libc::LOCK_UN => return set::unlocked(call()),
        _ => return call(),
    };
    let request = kernel.request(id, mode, LockRange::WHOLE, blocks);
    errno::answer_unit(set::lock(&kernel, &request, &call))
}

/// What fcntl(2) is asked to do about locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Get,
    Set { blocks: bool },
}

fn command_of(command: c_int) -> Option<(Command, Locks)> {
    Some(match command {
        libc::F_GETLK => (Command::Get, Locks::OfProcess),
        libc::F_SETLK => (Command::Set { blocks: false }, Locks::OfProcess),
        libc::F_SETLKW => (Command::Set { blocks: true }, Locks::OfProcess),
        libc::F_OFD_GETLK => (Command::Get, Locks::OfDescription),
        libc::F_OFD_SETLK => (Command::Set { blocks: false }, Locks::OfDescription),
        libc::F_OFD_SETLKW => (Command::Set { blocks: true }, Locks::OfDescription),
        _ => return None,
    })
}

/// Whether a command of fcntl(2) is one of these.
#[inline]
pub fn is_command(command: c_int) -> bool {
    command_of(command).is_some()
}

/// fcntl(2) of one of these commands, by whatever call.
///
/// # Safety
/// `about` is as the call wants it.
#[cold]
pub unsafe fn record(
    file: c_int,
    command: c_int,
    about: *mut libc::flock,
    known: Descriptor,
    call: impl Fn() -> c_int,
) -> c_int {
    let Some((what, locks)) = command_of(command) else { return call() };
    let Some(id) = followed(known) else { return refused(known, call) };
    if about.is_null() {
        return call();
    }
    // SAFETY: by this function's own contract.
    let asked = unsafe { about.read() };
    let kernel = Kernel { file, locks, inode: known.identity.inode };
    let is_unlock = c_int::from(asked.l_type) == libc::F_UNLCK;
    if is_unlock && what != Command::Get && c_int::from(asked.l_whence) != libc::SEEK_END {
        return set::unlocked(call());
    }
    let Some(mode) = mode_of(asked.l_type).or(is_unlock.then_some(LockMode::Shared)) else {
        return call();
    };
    if locks == Locks::OfDescription && asked.l_pid != 0 {
        return call();
    }
    let done = range_of(file, id, &asked).and_then(|range| match what {
        Command::Get => {
            let request = kernel.request(id, mode, range, false);
            let found = get::conflict(&kernel, &request)?;
            // SAFETY: by this function's own contract.
            unsafe { get::fill(found, about) };
            Ok(())
        }
        Command::Set { .. } if is_unlock => {
            kernel.unlock(range)?;
            given_up();
            Ok(())
        }
        Command::Set { blocks } => {
            let request = kernel.request(id, mode, range, blocks);
            let by_call = c_int::from(asked.l_whence) != libc::SEEK_END;
            set::lock(&kernel, &request, &|| {
                if by_call { call() } else { kernel.wait(mode, range) }
            })
        }
    });
    errno::answer_unit(done)
}

/// lockf(3), by whatever call.
#[cold]
pub fn section(
    file: c_int,
    command: c_int,
    bytes: off_t,
    known: Descriptor,
    call: impl Fn() -> c_int,
) -> c_int {
    let mut about = libc::flock {
        l_type: if command == libc::F_ULOCK { libc::F_UNLCK } else { libc::F_WRLCK } as i16,
        l_whence: libc::SEEK_CUR as i16,
        l_start: 0,
        l_len: bytes,
        l_pid: 0,
    };
    let by = match command {
        libc::F_LOCK => libc::F_SETLKW,
        libc::F_TLOCK | libc::F_ULOCK => libc::F_SETLK,
        libc::F_TEST => libc::F_GETLK,
        _ => return call(),
    };
    // SAFETY: the structure is this function's own.
    let result =
        unsafe { record(file, by, &raw mut about, known, || kernel::control(file, by, &about)) };
    let is_another = c_int::from(about.l_type) != libc::F_UNLCK
        && about.l_pid != process::own_pid() as libc::pid_t;
    if command == libc::F_TEST && result == 0 && is_another {
        errno::set(Errno::ACCESS);
        return -1;
    }
    result
}

/// The object of a descriptor whose locks reach other domains; a vfork child's are its kernel's
/// alone.
fn followed(known: Descriptor) -> Option<i32> {
    match known.object {
        Object::SharedMemory(id) if process::owns_its_memory() => Some(id),
        _ => None,
    }
}

/// Each descriptor of a queue has a file of its own behind it, so a lock would keep nobody away.
fn refused(known: Descriptor, call: impl FnOnce() -> c_int) -> c_int {
    match known.object {
        Object::SharedMemory(_) => call(),
        Object::Queue(_) => {
            errno::set(Errno::NOLCK);
            -1
        }
    }
}

fn mode_of(kind: i16) -> Option<LockMode> {
    match c_int::from(kind) {
        libc::F_RDLCK => Some(LockMode::Shared),
        libc::F_WRLCK => Some(LockMode::Exclusive),
        _ => None,
    }
}

/// The bytes that a `struct flock` names, as Linux reckons (flock64_to_posix_lock).
fn range_of(file: c_int, id: i32, asked: &libc::flock) -> Result<LockRange, Errno> {
    let base = match c_int::from(asked.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => seek::position_of(file)? as i64,
        libc::SEEK_END => current::session()?.client().posix_shm_stat(id)?.size as i64,
        _ => return Err(Errno::INVAL),
    };
    let start = base.checked_add(asked.l_start).ok_or(Errno::OVERFLOW)?;
    let last = match asked.l_len {
        0 => LAST_BYTE as i64,
        more @ 1.. => start.checked_add(more - 1).ok_or(Errno::OVERFLOW)?,
        _ => start.checked_sub(1).ok_or(Errno::INVAL)?,
    };
    let start = if asked.l_len < 0 { start.saturating_add(asked.l_len) } else { start };
    if start < 0 {
        return Err(Errno::INVAL);
    }
    Ok(LockRange { start: start as u64, last: last as u64 })
}

impl Locks {
    fn class(self) -> LockClass {
        match self {
            Self::Whole => LockClass::Whole,
            Self::OfProcess | Self::OfDescription => LockClass::Record,
        }
    }
}
