//! Memory of a pool: held, attached by its id, given back.

use std::ffi::{c_int, c_void};

use vshmem_ipc::Errno;

use crate::answer;
use crate::pool::{Pool, borrow, locked, session_of};

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_hold(
    pool: *const Pool,
    bytes: u64,
    memory: *mut *mut c_void,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { vshmem_hold_sparing(pool, bytes, 0, memory) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_hold_sparing(
    pool: *const Pool,
    bytes: u64,
    spare: u64,
    memory: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { borrow(pool) };
    answer(pool.and_then(|pool| {
        let held = pool.hold(bytes, spare)?;
        locked(&pool.held).insert(held.offset, (held.id, held.bytes));
        // SAFETY: the caller passes a place for the address.
        unsafe { memory.write(pool.address(held.offset).cast()) };
        Ok(0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_release(pool: *const Pool, memory: *mut c_void) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { borrow(pool) };
    answer(pool.and_then(|pool| {
        // In a child: the memory belongs to the parent.
        if let Err(errno) = pool.session()
            && errno != Errno::IDRM
        {
            return Err(errno);
        }
        let (id, bytes) = locked(&pool.held).remove(&pool.offset(memory)).ok_or(Errno::INVAL)?;
        if pool.membership.has_parted() {
            // SAFETY: it is this process's, which gives it back.
            return unsafe { vshmem_mem::cover(memory.addr(), bytes as usize) }.map(|()| 0);
        }
        pool.detach(id).map(|()| 0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_id(pool: *const Pool, memory: *const c_void) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { borrow(pool) };
    answer(pool.and_then(|pool| {
        pool.session()?; // a fork's child: another thread of the parent may hold the lock below
        locked(&pool.held).get(&pool.offset(memory)).map(|(id, _)| *id).ok_or(Errno::INVAL)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_attach(
    pool: *const Pool,
    id: c_int,
    bytes: u64,
    memory: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { borrow(pool) };
    answer(pool.and_then(|pool| {
        let found = pool.attach(id)?;
        let mut held = locked(&pool.held);
        let refused = if found.bytes < bytes {
            Some(Errno::INVAL)
        } else {
            held.contains_key(&found.offset).then_some(Errno::BUSY)
        };
        if let Some(errno) = refused {
            let _ = pool.detach(id);
            return Err(errno);
        }
        held.insert(found.offset, (id, found.bytes));
        // SAFETY: the caller passes a place for the address.
        unsafe { memory.write(pool.address(found.offset).cast()) };
        Ok(0)
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_private(pool: *const Pool) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let session = unsafe { session_of(pool) };
    let user = rustix::process::geteuid().as_raw();
    answer(session.map(|session| session.link().is_only_of(user).into()))
}
