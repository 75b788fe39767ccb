//! The pool that this process takes part in.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use iceoryx2_log::error;

use crate::sys;

/// An errno, above 0.
pub(crate) type Errno = c_int;

struct Handle(*mut sys::Pool);

// SAFETY: a pool's handle may be used by any number of threads at once (vshmem.h).
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Never closed: objects of this process may live as long as it does.
static POOL: OnceLock<Handle> = OnceLock::new();

/// Joins a pool of that name. Without a call of this, the first use of the variant joins the pool
/// that VSHMEM_POOL names, or that this guest was given.
///
/// # Errors
/// The reason as a sentence: it cannot be joined, or this process has joined one already.
pub fn join(name: &str) -> Result<(), String> {
    let name = CString::new(name).map_err(|_| "a pool's name has no byte 0".to_owned())?;
    let handle = open(Some(&name))?;
    POOL.set(handle).map_err(|_| "this process takes part in a pool already".to_owned())
}

fn open(name: Option<&CStr>) -> Result<Handle, String> {
    let (mut handle, mut message) = (null_mut(), [0 as c_char; 512]);
    let name = name.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: a C string or null, a place for the handle, and a buffer with its length.
    let result =
        unsafe { sys::vshmem_open(name, &mut handle, message.as_mut_ptr(), message.len()) };
    if result < 0 {
        // SAFETY: the buffer began as zeroes, and what is written ends with one.
        return Err(unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned());
    }
    Ok(Handle(handle))
}

pub(crate) fn handle() -> Result<*mut sys::Pool, Errno> {
    if let Some(handle) = POOL.get() {
        return Ok(handle.0);
    }
    let handle = open(None).map_err(|message| {
        error!(from "vshmem", "Unable to join a pool. {message}");
        libc::ENODEV
    })?;
    Ok(POOL.get_or_init(|| handle).0)
}

pub(crate) fn answer(result: c_int) -> Result<c_int, Errno> {
    if result < 0 { Err(-result) } else { Ok(result) }
}

/// This process, as no other one is or was numbered; never 0 or [`NOBODY`].
pub(crate) fn this_client() -> Result<u64, Errno> {
    let (pool, mut client) = (handle()?, 0);
    // SAFETY: a pool's handle and a place for the number.
    answer(unsafe { sys::vshmem_client(pool, &mut client) })?;
    Ok(client)
}

/// The number of no client.
pub(crate) const NOBODY: u64 = 1;

/// Whether that process may still act. A pool that cannot be asked counts as yes: nothing is then
/// taken from anybody.
pub(crate) fn is_alive(client: u64) -> bool {
    // SAFETY: a pool's handle.
    handle().map_or(1, |pool| unsafe { sys::vshmem_client_alive(pool, client) }) != 0
}

/// The names of objects that begin so.
pub(crate) fn names(prefix: &CStr) -> Result<Vec<Vec<u8>>, Errno> {
    unsafe extern "C" fn note(name: *const c_char, argument: *mut c_void) {
        // SAFETY: a C string, and the list that was passed below.
        let (name, list) = unsafe { (CStr::from_ptr(name), &mut *argument.cast::<Vec<Vec<u8>>>()) };
        list.push(name.to_bytes().to_vec());
    }
    let (pool, mut list) = (handle()?, Vec::<Vec<u8>>::new());
    // SAFETY: a pool's handle, a C string, and a function with the argument that it takes.
    answer(unsafe { sys::vshmem_shm_names(pool, prefix.as_ptr(), note, (&raw mut list).cast()) })?;
    Ok(list)
}

/// Sleeps as long as the word of the pool has this value, and until it is woken.
///
/// # Errors
/// ETIMEDOUT, EINTR, and those of the pool.
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) -> Result<(), Errno> {
    let pool = handle()?;
    let span = timeout.map(|span| libc::timespec {
        tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: span.subsec_nanos().into(),
    });
    let span = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a pool's handle, a word that is borrowed, and a time or null.
    answer(unsafe { sys::vshmem_wait(pool, word.as_ptr(), value, span) }).map(|_| ())
}

/// Wakes all that sleep at the word.
pub(crate) fn wake(word: &AtomicU32) -> Result<(), Errno> {
    // SAFETY: a pool's handle, and a word that is borrowed.
    answer(unsafe { sys::vshmem_wake(handle()?, word.as_ptr(), u32::MAX) }).map(|_| ())
}
