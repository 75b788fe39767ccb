//! Which client of a pool this process is, and whether another one lives.

use std::ffi::c_int;

use vshmem_wire::ClientId;

use crate::answer;
use crate::pool::{Pool, session_of};

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_client(pool: *const Pool, client: *mut u64) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.map(|session| {
        // SAFETY: the caller passes a place for the number.
        unsafe { client.write(session.client().client_id().word()) };
        0
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_client_alive(pool: *const Pool, client: u64) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    answer(session.map(|session| {
        ClientId::of(client).is_some_and(|client| session.client().may_act(client)).into()
    }))
}
