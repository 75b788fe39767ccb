//! Ports: where this process receives.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use vshmem_channel::{Identity, Inbound, Port, Received, Shape};
use vshmem_ipc::Errno;

use crate::answer;
use crate::pool::{Pool, share};

/// `struct vshmem_address`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Address {
    /// The port's number.
    pub nonce: u64,
    /// Id of the segment that it lies in.
    pub id: u32,
    /// Bytes of a message.
    pub most_bytes: u32,
}

/// `struct vshmem_message`.
#[derive(Debug)]
#[repr(C)]
pub struct Message {
    text: *const c_void,
    bytes: u32,
    lane: u32,
    tag: u8,
}

/// `struct vshmem_sender`.
#[derive(Debug)]
#[repr(C)]
pub struct Sender {
    port: Address,
    mark: u64,
    client: u32,
}

/// `vshmem_port`.
#[derive(Debug)]
pub struct Receiver {
    pool: Arc<Pool>,
    /// Segment that it lies in.
    id: i32,
    port: Port,
    /// What was received last.
    message: Option<Inbound>,
}

impl Receiver {
    fn make(pool: Arc<Pool>, senders: u32, budget: u64, most: u32) -> Result<Self, Errno> {
        let shape = Shape::within(senders, budget, most).ok_or(Errno::INVAL)?;
        let held = pool.hold(shape.bytes(), 0)?;
        let made = nonce().and_then(|nonce| {
            let me = pool.session()?.client().client_id().word();
            Port::make(pool.map(), held.offset, shape, nonce, me).ok_or(Errno::IO)
        });
        match made {
            Ok(port) => Ok(Self { pool, id: held.id, port, message: None }),
            Err(errno) => {
                let _ = pool.detach(held.id);
                Err(errno)
            }
        }
    }

    /// What a sender tells of it.
    pub fn identity(&self) -> (u32, u64) {
        (self.id as u32, self.port.nonce())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.pool.detach(self.id);
    }
}

/// A number that no other port has.
fn nonce() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer has room for what is asked.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == bytes.len() as isize { Ok(u64::from_ne_bytes(bytes)) } else { Err(Errno::IO) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_port_make(
    pool: *const Pool,
    senders: u32,
    budget: u64,
    most_lane: u32,
    port: *mut *mut Receiver,
) -> c_int {
    // SAFETY: the caller passes a pool's handle.
    let pool = unsafe { share(pool) };
    answer(pool.and_then(|pool| Receiver::make(pool, senders, budget, most_lane)).map(|made| {
        // SAFETY: the caller passes a place for the handle.
        unsafe { port.write(Box::into_raw(Box::new(made))) };
        0
    }))
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_port_close(port: *mut Receiver) {
    if !port.is_null() {
        // SAFETY: the handle was made by vshmem_port_make and ends here.
        drop(unsafe { Box::from_raw(port) });
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_port_address(port: *const Receiver, address: *mut Address) {
    // SAFETY: the caller passes an open port and a place for its address.
    unsafe {
        let (id, nonce) = (*port).identity();
        address.write(Address { nonce, id, most_bytes: (*port).port.shape().most_bytes() });
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_receive(port: *mut Receiver, message: *mut Message) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe { vshmem_receive_soon(port, message, 1) }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_receive_soon(
    port: *mut Receiver,
    message: *mut Message,
    looks: u32,
) -> c_int {
    // SAFETY: the caller passes an open port that no other thread uses now.
    let receiver = unsafe { &mut *port };
    let pool = &receiver.pool;
    let ended = |who: Identity, errno: Errno| (who, -errno.raw_os_error());
    let (who, result) = match receiver.port.receive(looks, |name| pool.may_act(name)) {
        Received::Message(found) => {
            receiver.message = Some(found);
            let text = receiver.pool.address(found.at).cast_const().cast();
            let Inbound { lane, bytes, tag, .. } = found;
            // SAFETY: the caller passes a place for the message.
            unsafe { message.write(Message { text, bytes, lane, tag }) };
            return 1;
        }
        Received::Empty => return 0,
        Received::Corrupt(who) => ended(who, Errno::BADMSG),
        Received::Left(who) => ended(who, Errno::PIPE),
    };
    // SAFETY: as above.
    unsafe {
        message.write(Message { text: std::ptr::null(), bytes: 0, lane: who.client as u32, tag: 0 })
    };
    result
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_receive_done(port: *mut Receiver, _message: *const Message) {
    // SAFETY: the caller passes an open port that no other thread uses now.
    let receiver = unsafe { &mut *port };
    if let Some(message) = receiver.message.take() {
        receiver.port.release(&message);
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_sender(
    port: *const Receiver,
    lane: u32,
    sender: *mut Sender,
) -> c_int {
    // SAFETY: the caller passes an open port.
    let found = unsafe { (*port).port.sender(lane) };
    answer(found.ok_or(Errno::NOENT).map(|who| {
        let Identity { client, port: id, nonce, mark } = who;
        // To be shown: nothing is decided by it.
        let client = client as u32;
        // SAFETY: the caller passes a place for the sender.
        unsafe {
            sender.write(Sender { port: Address { nonce, id, most_bytes: 0 }, mark, client })
        };
        0
    }))
}
