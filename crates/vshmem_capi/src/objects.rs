//! Segments, semaphore sets and queues by key, for programs without the preload library.

use std::ffi::{CStr, c_char, c_int, c_long, c_short, c_void};
use std::time::Duration;

use vshmem_ipc::{Backing, Errno, Operation, Receive};
use vshmem_session::Session;
use vshmem_wire::fnv1a_32;

use crate::answer;
use crate::caller::Credentials;
use crate::pool::{Pool, session_of};

const SEM_UNDO: c_short = 0x1000;

/// A key for a name: the same in all domains, and never IPC_PRIVATE.
fn key_of(name: &[u8]) -> i32 {
    // Above 0: a negative answer would be an error.
    ((fnv1a_32(name) & 0x7fff_ffff) as i32).max(1)
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_key(name: *const c_char) -> c_int {
    // SAFETY: the caller passes a C string.
    key_of(unsafe { CStr::from_ptr(name) }.to_bytes())
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shmget(
    pool: *const Pool,
    key: c_int,
    bytes: u64,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(
        session
            .and_then(|session| session.client().shmget(key, bytes, flags, &Credentials, session)),
    )
}

/// The pool's memory, for a caller that wants a node of the host.
#[derive(Debug)]
struct OnNode<'a>(&'a Session, Option<u32>);

impl Backing for OnNode<'_> {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        self.0.prepare(offset, bytes, dirty)
    }

    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        self.0.zero(offset, bytes)
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Errno> {
        self.0.copy(from, to, bytes)
    }

    fn node(&self) -> Option<u32> {
        self.1.or_else(|| self.0.node())
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shmget_on(
    pool: *const Pool,
    key: c_int,
    bytes: u64,
    flags: c_int,
    node: c_int,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| {
        let on_node = OnNode(session, u32::try_from(node).ok());
        session.client().shmget(key, bytes, flags, &Credentials, &on_node)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shmrm(pool: *const Pool, id: c_int) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(
        session.and_then(|session| session.client().segment_remove(id, &Credentials)).map(|()| 0),
    )
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_semget(
    pool: *const Pool,
    key: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| session.client().semget(key, count, flags, &Credentials)))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_semop(
    pool: *const Pool,
    id: c_int,
    operations: *const libc::sembuf,
    count: usize,
    timeout: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller passes a pool's handle, and a time or null.
    let (session, timeout) = unsafe { (session_of(pool), timeout.as_ref()) };
    answer(session.and_then(|session| {
        if count > session.client().pool().geometry().semopm as usize {
            return Err(Errno::TOOBIG);
        }
        // SAFETY: the caller passes so many operations.
        let raw = (0..count).map(|nth| unsafe { operations.add(nth).read() });
        let operations: Vec<Operation> = raw.map(operation).collect();
        if operations.is_empty() || id < 0 {
            return Err(Errno::INVAL);
        }
        session
            .client()
            .semop(id, &operations, timeout.map(span).transpose()?, &Credentials)
            .map(|()| 0)
    }))
}

fn operation(raw: libc::sembuf) -> Operation {
    Operation {
        number: raw.sem_num,
        change: raw.sem_op,
        no_wait: raw.sem_flg & libc::IPC_NOWAIT as c_short != 0,
        undo: raw.sem_flg & SEM_UNDO != 0,
    }
}

/// A time that C passes. EINVAL: it is none.
pub fn span(raw: &libc::timespec) -> Result<Duration, Errno> {
    let seconds = u64::try_from(raw.tv_sec).map_err(|_| Errno::INVAL)?;
    match u32::try_from(raw.tv_nsec) {
        Ok(nanos) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => Err(Errno::INVAL),
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_semval(pool: *const Pool, id: c_int, number: c_int) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    let value = session.and_then(|one| one.client().semaphore_value(id, number, &Credentials));
    answer(value.map(|value| value as c_int))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_semset(
    pool: *const Pool,
    id: c_int,
    number: c_int,
    value: c_int,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    let set = session.and_then(|one| one.client().set_semaphore(id, number, value, &Credentials));
    answer(set.map(|()| 0))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_semrm(pool: *const Pool, id: c_int) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| session.client().set_remove(id, &Credentials)).map(|()| 0))
}

/// See vshmem.h.
#[unsafe(no_mangle)]
pub extern "C" fn vshmem_interrupt() {
    vshmem_mem::signal_handled();
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_msgget(pool: *const Pool, key: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| session.client().msgget(key, flags, &Credentials)))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_msgsnd(
    pool: *const Pool,
    id: c_int,
    mtype: c_long,
    payload: *const c_void,
    bytes: usize,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| {
        let this_client = session.client();
        if bytes > this_client.pool().geometry().msgmax as usize || id < 0 || mtype < 1 {
            return Err(Errno::INVAL);
        }
        let payload = match bytes {
            0 => &[][..],
            // SAFETY: the caller passes so many bytes, which are only read, and only here.
            _ => unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), bytes) },
        };
        let no_wait = flags & libc::IPC_NOWAIT != 0;
        this_client.msgsnd(id, mtype, payload, no_wait, &Credentials).map(|()| 0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_msgrcv(
    pool: *const Pool,
    id: c_int,
    mtype: *mut c_long,
    payload: *mut c_void,
    room: usize,
    wanted: c_long,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    let wanted = Receive::of(wanted, room, flags);
    let mut deliver = |kind: i64, size: usize, copy: &dyn Fn(&mut [u8])| {
        if !mtype.is_null() {
            // SAFETY: the caller passes a place for the type, or null.
            unsafe { mtype.write(kind) };
        }
        if size > 0 {
            // SAFETY: the caller passes `room` bytes, and no message that is delivered is longer.
            copy(unsafe { std::slice::from_raw_parts_mut(payload.cast::<u8>(), size) });
        }
        Ok(size)
    };
    let received =
        session.and_then(|session| session.client().msgrcv(id, wanted, &Credentials, &mut deliver));
    answer(received.map(|bytes| bytes as c_int))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_msgrm(pool: *const Pool, id: c_int) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| session.client().queue_remove(id, &Credentials)).map(|()| 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_keys_of_their_own_that_never_change() {
        assert_eq!(key_of(b"job7"), 0x2007_6ef1);
        assert_ne!(key_of(b"job7"), key_of(b"job8"));
        assert!(["", "a", "x/y"].iter().all(|name| key_of(name.as_bytes()) > 0));
    }
}
