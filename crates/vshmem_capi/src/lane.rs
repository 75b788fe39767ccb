//! Lanes: where this process sends.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use vshmem_channel::{ClaimError, Identity, Outbound, SendError};
use vshmem_ipc::Errno;
use vshmem_mem::copy_past_cache;

use crate::answer;
use crate::pool::{Pool, share};
use crate::port::{Address, PORTS, Receiver};

/// `vshmem_lane`.
#[derive(Debug)]
pub struct Lane {
    pool: Arc<Pool>,
    /// Segment of the port, which stays as long as this process has it attached.
    id: i32,
    /// `Some` until the lane is closed.
    outbound: Option<Outbound>,
}

impl Lane {
    /// Claims a lane of a port, or of one of those that follow it.
    fn claim(
        pool: &Arc<Pool>,
        mut to: Address,
        own: Option<&Receiver>,
        mark: u64,
    ) -> Result<Self, Errno> {
        for _ in 0..PORTS {
            match Self::claim_there(Arc::clone(pool), to, own, mark)? {
                Ok(lane) => return Ok(lane),
                Err((id, nonce)) => to = Address { id, nonce, ..to },
            }
        }
        Err(Errno::IO)
    }

    /// A lane of this port, or where the receiver has more of them.
    fn claim_there(
        pool: Arc<Pool>,
        to: Address,
        own: Option<&Receiver>,
        mark: u64,
    ) -> Result<Result<Self, (u32, u64)>, Errno> {
        let id = i32::try_from(to.id).map_err(|_| Errno::INVAL)?;
        let gone = |errno| {
            if errno == Errno::INVAL || errno == Errno::IDRM { Errno::NOENT } else { errno }
        };
        let port = pool.attach(id).map_err(gone)?;
        let mut lane = Self { pool, id, outbound: None };
        let client = lane.pool.session()?.client().client_id().word();
        let (port_id, nonce) = own.map_or((0, 0), Receiver::identity);
        let who = Identity { client, port: port_id, nonce, mark };
        let claimed = Outbound::claim(lane.pool.map(), port.offset, port.bytes, to.nonce, who);
        lane.outbound = Some(match claimed {
            Ok(outbound) => outbound,
            Err(ClaimError::Elsewhere { id, nonce }) => return Ok(Err((id, nonce))),
            Err(ClaimError::Gone) => return Err(Errno::NOENT),
            Err(ClaimError::Full) => return Err(Errno::AGAIN),
            Err(ClaimError::NoMore) => return Err(Errno::NOSPC),
            Err(ClaimError::Corrupt) => return Err(Errno::IO),
        });
        Ok(Ok(lane))
    }

    #[inline]
    fn outbound(&mut self) -> Result<&mut Outbound, Errno> {
        self.outbound.as_mut().ok_or(Errno::IO)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // In a child the lane still belongs to its parent.
        if let Some(outbound) = self.outbound.take()
            && self.pool.session().is_ok()
        {
            outbound.close();
        }
        let _ = self.pool.detach(self.id);
    }
}

fn errno_of(error: SendError) -> Errno {
    match error {
        SendError::Full => Errno::AGAIN,
        SendError::TooLong => Errno::MSGSIZE,
        SendError::Corrupt => Errno::IO,
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_lane_claim(
    pool: *const Pool,
    to: *const Address,
    own: *const Receiver,
    mark: u64,
    lane: *mut *mut Lane,
) -> c_int {
    // SAFETY: the caller passes a pool's handle, an address, and an open port or null.
    let (pool, to, own) = unsafe { (share(pool), *to, own.as_ref()) };
    answer(pool.and_then(|pool| Lane::claim(&pool, to, own, mark)).map(|claimed| {
        // SAFETY: the caller passes a place for the handle.
        unsafe { lane.write(Box::into_raw(Box::new(claimed))) };
        0
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_lane_close(lane: *mut Lane) {
    if !lane.is_null() {
        // SAFETY: the handle was made by vshmem_lane_claim and ends here.
        drop(unsafe { Box::from_raw(lane) });
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_lane_most_bytes(lane: *const Lane) -> u32 {
    // SAFETY: the caller passes an open lane.
    unsafe { &*lane }.outbound.as_ref().map_or(0, Outbound::most_bytes)
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_reserve(
    lane: *mut Lane,
    bytes: u32,
    payload: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller passes an open lane that no other thread uses now.
    let lane = unsafe { &mut *lane };
    let reserved = lane.outbound().and_then(|lane| lane.reserve(bytes).map_err(errno_of));
    answer(reserved.map(|at| {
        // SAFETY: the caller passes a place for the address.
        unsafe { payload.write(lane.pool.address(at).cast()) };
        0
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_publish(lane: *mut Lane, bytes: u32, tag: u8) -> c_int {
    // SAFETY: the caller passes an open lane that no other thread uses now.
    let lane = unsafe { &mut *lane };
    let published = lane.outbound().and_then(|lane| lane.publish(bytes, tag).map_err(errno_of));
    answer(published.map(|()| 0))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_send(
    lane: *mut Lane,
    parts: *const libc::iovec,
    count: c_int,
    tag: u8,
) -> c_int {
    // SAFETY: the caller passes an open lane that no other thread uses now, and so many parts.
    let (lane, parts) = unsafe {
        let count = usize::try_from(count).unwrap_or(0);
        (&mut *lane, if count == 0 { &[] } else { std::slice::from_raw_parts(parts, count) })
    };
    let bytes = parts.iter().try_fold(0_u32, |sum, part| {
        u32::try_from(part.iov_len).ok().and_then(|bytes| sum.checked_add(bytes))
    });
    let Some(bytes) = bytes else { return -Errno::MSGSIZE.raw_os_error() };
    let sent = lane.outbound().and_then(|lane| lane.reserve(bytes).map_err(errno_of));
    answer(sent.and_then(|at| {
        let mut to = lane.pool.address(at);
        for part in parts {
            // SAFETY: the parts are the caller's, and the room that was reserved holds them all.
            unsafe {
                copy_past_cache(part.iov_base.cast::<u8>(), to, part.iov_len);
                to = to.add(part.iov_len);
            }
        }
        lane.outbound()?.publish(bytes, tag).map_err(errno_of).map(|()| 0)
    }))
}

/// Copies a few bytes without a call where there are as many as headers and numbers have.
///
/// # Safety
/// Both ends have so many bytes, and do not overlap.
#[inline(always)]
unsafe fn copy_few(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the two words lie in what is copied; they overlap where there are fewer than sixteen
    // bytes.
    unsafe {
        if (8..=16).contains(&bytes) {
            let first = from.cast::<u64>().read_unaligned();
            let last = from.add(bytes - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(first);
            to.add(bytes - 8).cast::<u64>().write_unaligned(last);
        } else if bytes != 0 {
            std::ptr::copy_nonoverlapping(from, to, bytes);
        }
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_post(
    lane: *mut Lane,
    head: *const c_void,
    head_bytes: u32,
    payload: *const c_void,
    payload_bytes: u32,
    tag: u8,
) -> c_int {
    // SAFETY: the caller passes an open lane that no other thread uses now.
    let lane = unsafe { &mut *lane };
    let base = lane.pool.address(0);
    let Some(outbound) = lane.outbound.as_mut() else { return -Errno::IO.raw_os_error() };
    let Some(bytes) = head_bytes.checked_add(payload_bytes) else {
        return -Errno::MSGSIZE.raw_os_error();
    };
    let at = match outbound.reserve(bytes) {
        Ok(at) => at,
        Err(error) => return -errno_of(error).raw_os_error(),
    };
    let to = base.wrapping_add(at as usize);
    // SAFETY: the caller passes so many bytes, and the room that was reserved holds them all.
    unsafe {
        copy_few(head.cast(), to, head_bytes as usize);
        copy_few(payload.cast(), to.add(head_bytes as usize), payload_bytes as usize);
    }
    match outbound.publish(bytes, tag) {
        Ok(()) => {
            outbound.clear_ahead();
            0
        }
        Err(error) => -errno_of(error).raw_os_error(),
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_lane_rest(lane: *mut Lane) {
    // SAFETY: the caller passes an open lane that no other thread uses now.
    if let Ok(outbound) = unsafe { &mut *lane }.outbound() {
        outbound.clear_ahead();
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_lane_drained(lane: *mut Lane) -> c_int {
    // SAFETY: the caller passes an open lane that no other thread uses now.
    let lane = unsafe { &mut *lane };
    let drained = lane.outbound().and_then(|lane| lane.is_drained().map_err(errno_of));
    answer(drained.map(c_int::from))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_lane_alive(lane: *const Lane) -> c_int {
    // SAFETY: the caller passes an open lane.
    let lane = unsafe { &*lane };
    lane.outbound.as_ref().is_some_and(|outbound| lane.pool.may_act(outbound.owner())).into()
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_lane_closed(lane: *const Lane) -> c_int {
    // SAFETY: the caller passes an open lane.
    unsafe { &*lane }.outbound.as_ref().is_none_or(Outbound::is_closed).into()
}
