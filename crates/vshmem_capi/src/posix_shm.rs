//! POSIX shared memory objects by name, for programs without the preload library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use vshmem_ipc::{Beginning, Errno, FoundBy, Kind, PosixOpen, PosixShmStat};
use vshmem_session::Session;

use crate::answer;
use crate::caller::Credentials;
use crate::pool::{Pool, session_of};

/// A name without the slashes in front, which mean nothing.
fn bare(name: &CStr) -> &[u8] {
    let name = name.to_bytes();
    let begin = name.iter().position(|byte| *byte != b'/').unwrap_or(name.len());
    &name[begin..]
}

/// What open(2)'s flags ask for.
fn how(flags: c_int, mode: u32) -> Result<PosixOpen, Errno> {
    let write = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => false,
        libc::O_RDWR => true,
        _ => return Err(Errno::INVAL),
    };
    Ok(PosixOpen {
        read: true,
        write,
        create: flags & libc::O_CREAT != 0,
        exclusive: flags & libc::O_EXCL != 0,
        truncate: flags & libc::O_TRUNC != 0,
        mode,
    })
}

/// Opens an object, and gives one that has no byte so many.
fn open(
    session: &Session,
    name: &CStr,
    flags: c_int,
    mode: u32,
    bytes: u64,
) -> Result<c_int, Errno> {
    let this_client = session.client();
    let how = how(flags, mode)?;
    let bytes = if how.create && how.write { bytes } else { 0 };
    let beginning = Beginning { bytes, fill: &|_| Ok(()) };
    let id =
        this_client.posix_shm_open_filled(bare(name), how, beginning, &Credentials, session)?;
    let sized = this_client.posix_shm_stat(id).and_then(|stat| {
        let is_empty = stat.size == 0 && bytes > 0;
        if is_empty { this_client.posix_shm_set_size(id, bytes, session) } else { Ok(()) }
    });
    if sized.is_err() {
        let _ = this_client.posix_shm_close(id);
    }
    sized.map(|()| id)
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shm_open(
    pool: *const Pool,
    name: *const c_char,
    flags: c_int,
    mode: u32,
    bytes: u64,
) -> c_int {
    // SAFETY: the caller passes a pool's handle and a C string.
    let (session, name) = unsafe { (session_of(pool), CStr::from_ptr(name)) };
    answer(session.and_then(|session| open(session, name, flags, mode, bytes)))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shm_close(pool: *const Pool, id: c_int) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| session.client().posix_shm_close(id)).map(|()| 0))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shm_bytes(pool: *const Pool, id: c_int, bytes: *mut u64) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| {
        let stat = session.client().posix_shm_stat(id)?;
        // SAFETY: the caller passes a place for the number.
        unsafe { bytes.write(stat.size) };
        Ok(0)
    }))
}

/// `struct vshmem_shm_stat`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ShmStat {
    bytes: u64,
    room: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    attaches: u32,
    opens: u32,
}

impl From<PosixShmStat> for ShmStat {
    fn from(found: PosixShmStat) -> Self {
        Self {
            bytes: found.size,
            room: found.capacity,
            mode: found.mode,
            uid: found.uid,
            gid: found.gid,
            links: found.named.into(),
            attaches: found.attached,
            opens: found.opened,
        }
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shm_stat(
    pool: *const Pool,
    id: c_int,
    stat: *mut ShmStat,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.and_then(|session| {
        let found = session.client().posix_shm_stat(id)?;
        // SAFETY: the caller passes a place for it.
        unsafe { stat.write(found.into()) };
        Ok(0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shm_resize(pool: *const Pool, id: c_int, bytes: u64) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(
        session.and_then(|session| {
            session.client().posix_shm_set_size(id, bytes, session).map(|()| 0)
        }),
    )
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shm_unlink(pool: *const Pool, name: *const c_char) -> c_int {
    // SAFETY: the caller passes a pool's handle and a C string.
    let (session, name) = unsafe { (session_of(pool), CStr::from_ptr(name)) };
    answer(session.and_then(|session| {
        session.client().posix_shm_unlink(bare(name), &Credentials).map(|()| 0)
    }))
}

/// `vshmem_shm_each`.
pub type Each = unsafe extern "C" fn(name: *const c_char, argument: *mut c_void);

/// The names that begin with these bytes.
fn names(session: &Session, prefix: &[u8]) -> Result<Vec<CString>, Errno> {
    let objects = session.client().pool().entries(Kind::Segment)?;
    let begins = |found_by| match found_by {
        FoundBy::Name(name) if name.starts_with(prefix) => CString::new(name).ok(),
        _ => None,
    };
    Ok(objects.into_iter().filter_map(|object| begins(object.found_by)).collect())
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_shm_names(
    pool: *const Pool,
    prefix: *const c_char,
    each: Each,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a pool's handle and a C string.
    let (session, prefix) = unsafe { (session_of(pool), CStr::from_ptr(prefix)) };
    answer(session.and_then(|session| names(session, bare(prefix))).map(|names| {
        // SAFETY: the caller passes a function that takes a C string and this argument.
        names.iter().for_each(|name| unsafe { each(name.as_ptr(), argument) });
        names.len() as c_int
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_in_front_mean_nothing_and_flags_are_those_of_open() {
        assert_eq!(bare(c"/data"), b"data");
        assert_eq!(bare(c"//data"), b"data");
        assert_eq!(bare(c"/"), b"");
        assert_eq!(how(libc::O_WRONLY, 0), Err(Errno::INVAL));
        let asked = how(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o640).unwrap();
        assert!(asked.write && asked.create && asked.exclusive && !asked.truncate);
        assert_eq!(asked.mode, 0o640);
    }
}
