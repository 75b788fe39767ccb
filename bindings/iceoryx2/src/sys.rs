//! Those calls of `vshmem.h` that are used here.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `vshmem_pool`.
#[repr(C)]
#[derive(Debug)]
pub struct Pool {
    _opaque: [u8; 0],
}

/// `struct vshmem_shm_stat`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ShmStat {
    pub bytes: u64,
    pub room: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub attaches: u32,
    pub opens: u32,
}

/// `vshmem_shm_each`.
pub type Each = unsafe extern "C" fn(name: *const c_char, argument: *mut c_void);

unsafe extern "C" {
    pub fn vshmem_open(
        name: *const c_char,
        pool: *mut *mut Pool,
        message: *mut c_char,
        bytes: usize,
    ) -> c_int;
    pub fn vshmem_client(pool: *const Pool, client: *mut u64) -> c_int;
    pub fn vshmem_client_alive(pool: *const Pool, client: u64) -> c_int;
    pub fn vshmem_attach(pool: *mut Pool, id: c_int, bytes: u64, at: *mut *mut c_void) -> c_int;
    pub fn vshmem_release(pool: *mut Pool, memory: *mut c_void) -> c_int;
    pub fn vshmem_shm_open(
        pool: *mut Pool,
        name: *const c_char,
        flags: c_int,
        mode: c_uint,
        bytes: u64,
    ) -> c_int;
    pub fn vshmem_shm_close(pool: *mut Pool, id: c_int) -> c_int;
    pub fn vshmem_shm_stat(pool: *const Pool, id: c_int, stat: *mut ShmStat) -> c_int;
    pub fn vshmem_shm_resize(pool: *mut Pool, id: c_int, bytes: u64) -> c_int;
    pub fn vshmem_shm_unlink(pool: *mut Pool, name: *const c_char) -> c_int;
    pub fn vshmem_shm_names(
        pool: *const Pool,
        prefix: *const c_char,
        each: Each,
        argument: *mut c_void,
    ) -> c_int;
    pub fn vshmem_wait(
        pool: *mut Pool,
        word: *const u32,
        value: u32,
        timeout: *const libc::timespec,
    ) -> c_int;
    pub fn vshmem_wake(pool: *mut Pool, word: *const u32, most: c_uint) -> c_int;
}
