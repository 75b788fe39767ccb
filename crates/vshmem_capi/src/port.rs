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

/// Ports that one receiver has at most; each has twice the lanes of the one before.
pub const PORTS: usize = 13;

/// `vshmem_port`.
#[derive(Debug)]
pub struct Receiver {
    pool: Arc<Pool>,
    /// Segment that it lies in.
    id: i32,
    port: Port,
    /// With the lanes of senders that found none in those before, each with its segment.
    more: Vec<(i32, Port)>,
    /// Which of them is looked at, 0 for the first port.
    turn: usize,
    /// Its bytes, and those of a lane, at most.
    budget: u64,
    most: u32,
    /// What was received last.
    message: Option<Inbound>,
}

/// A port in memory that this process takes for it.
fn port_within(pool: &Pool, lanes: u32, budget: u64, most: u32) -> Result<(i32, Port), Errno> {
    let shape = Shape::within(lanes, budget, most).ok_or(Errno::INVAL)?;
    let held = pool.hold(shape.bytes(), 0)?;
    let made = nonce().and_then(|nonce| {
        let me = pool.session()?.client().client_id().word();
        Port::make(pool.map(), held.offset, shape, nonce, me).ok_or(Errno::IO)
    });
    if made.is_err() {
        let _ = pool.detach(held.id);
    }
    made.map(|port| (held.id, port))
}

impl Receiver {
    fn make(pool: Arc<Pool>, senders: u32, budget: u64, most: u32) -> Result<Self, Errno> {
        let (id, port) = port_within(&pool, senders, budget, most)?;
        Ok(Self { pool, id, port, more: Vec::new(), turn: 0, budget, most, message: None })
    }

    fn current(&mut self) -> &mut Port {
        match self.turn {
            0 => &mut self.port,
            nth => &mut self.more[nth - 1].1,
        }
    }

    /// The number of the first lane of the port whose turn it is: those of all ports are counted
    /// through.
    fn first_lane(&self, turn: usize) -> u32 {
        let ports = std::iter::once(&self.port).chain(self.more.iter().map(|(_, port)| port));
        ports.take(turn).map(|port| port.shape().lanes()).sum()
    }

    /// Looks at each port, beginning with the one after the last that had something.
    #[cold]
    fn receive_in_turn(&mut self, looks: u32) -> Received {
        let pool = Arc::clone(&self.pool);
        for _ in 0..=self.more.len() {
            self.turn = (self.turn + 1) % (self.more.len() + 1);
            match self.current().receive(looks, |name| pool.may_act(name)) {
                Received::Empty => {}
                found => return found,
            }
        }
        Received::Empty
    }

    fn sender(&self, lane: u32) -> Option<Identity> {
        let first_of = |turn| self.first_lane(turn);
        let turn = (0..=self.more.len()).rev().find(|&turn| lane >= first_of(turn))?;
        let port = if turn == 0 { &self.port } else { &self.more[turn - 1].1 };
        port.sender(lane - first_of(turn))
    }

    /// Makes another port where senders have asked for more lanes; whether it has.
    fn grow(&mut self) -> Result<bool, Errno> {
        let may_grow = self.more.len() + 1 < PORTS;
        let last = self.more.last_mut().map_or(&mut self.port, |(_, port)| port);
        if !last.is_asked_for_more() {
            return Ok(false);
        }
        let lanes = 2 * last.shape().lanes();
        let mut made = Err(Errno::NOSPC);
        let mut budget = self.budget;
        while may_grow && made.is_err() {
            made = port_within(&self.pool, lanes, budget, self.most);
            // What is left may be less than its share.
            let full = matches!(made, Err(errno) if [Errno::NOSPC, Errno::NOMEM].contains(&errno));
            budget /= 2;
            if !full || Shape::within(lanes, budget, self.most).is_none() {
                break;
            }
        }
        last.lead_on(made.as_ref().ok().map(|(id, port)| (*id as u32, port.nonce())));
        self.more.push(made?);
        Ok(true)
    }

    /// What a sender tells of it.
    pub fn identity(&self) -> (u32, u64) {
        (self.id as u32, self.port.nonce())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // In a child the ports still belong to its parent.
        let is_ours = self.pool.session().is_ok();
        let first = (self.id, &self.port);
        for (id, port) in
            std::iter::once(first).chain(self.more.iter().map(|(id, port)| (*id, port)))
        {
            if is_ours {
                port.close();
            }
            let _ = self.pool.detach(id);
        }
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
    let looked = if receiver.more.is_empty() {
        receiver.port.receive(looks, |name| pool.may_act(name))
    } else {
        receiver.receive_in_turn(looks)
    };
    let (who, result) = match looked {
        Received::Message(found) => {
            receiver.message = Some(found);
            let text = receiver.pool.address(found.at).cast_const().cast();
            let Inbound { mut lane, bytes, tag, .. } = found;
            if receiver.turn != 0 {
                lane += receiver.first_lane(receiver.turn);
            }
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
        receiver.current().release(&message);
    }
}

/// See vshmem.h.
///
/// # Safety
/// As vshmem.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vshmem_port_grow(port: *mut Receiver) -> c_int {
    // SAFETY: the caller passes an open port that no other thread uses now.
    answer(unsafe { &mut *port }.grow().map(c_int::from))
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
    let found = unsafe { (*port).sender(lane) };
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
