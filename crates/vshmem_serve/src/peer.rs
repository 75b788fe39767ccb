//! A guest: one connection of QEMU.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::admission::Caller;
use crate::doorbell::Doorbells;
use crate::message::{self, Sent, send};
use crate::peer_view::{Next, PeerView};

/// A connected guest.
#[derive(Debug)]
pub(crate) struct Peer {
    pub id: u16,
    pub caller: Caller,
    /// Start time of its process, to tell it from a later one of the same pid.
    pub start: u64,
    /// The caller has been seen to be the guest itself, not a process that connected for it.
    pub is_process: bool,
    pub doorbells: Arc<Doorbells>,
    /// Domains that have been seen with its address: slot and epoch.
    pub domains: BTreeMap<u32, u32>,
    /// Boot id of the guest's kernel, once one of its domains has been seen.
    pub boot: Option<[u32; 4]>,
    socket: OwnedFd,
    peer_view: PeerView,
    /// Something is left to tell that the socket had no room for.
    blocked: bool,
}

/// What a look at a peer's socket found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// It has closed its end: QEMU has ended, or has given the device up.
    Gone,
    /// It has sent something. The protocol knows no messages of that direction.
    Garbage,
}

impl Peer {
    /// A peer that has just connected. It says later whether it is a process or a virtual machine.
    pub fn new(id: u16, caller: Caller, socket: OwnedFd, doorbells: Arc<Doorbells>) -> Self {
        let start = match caller.pid {
            0 => 0,
            pid => vshmem_link::process_start(pid),
        };
        Self {
            id,
            caller,
            start,
            is_process: false,
            doorbells,
            domains: BTreeMap::new(),
            boot: None,
            socket,
            peer_view: PeerView::default(),
            blocked: false,
        }
    }

    /// The socket to it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether to wait for room in its socket.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether it was told of a peer of that id.
    pub fn knows(&self, id: u16) -> bool {
        self.peer_view.knows(id)
    }

    /// Tells it what it does not know yet, as far as there is room. `all` are those that are
    /// there, itself included.
    pub fn tell(
        &mut self,
        memory: BorrowedFd<'_>,
        vectors: u32,
        all: &[(u16, Arc<Doorbells>)],
    ) -> Result<(), Errno> {
        self.blocked = false;
        let me = self.id;
        let others = all.iter().map(|(id, _)| *id).filter(|id| *id != me);
        while let Some(next) = self.peer_view.next(others.clone(), vectors) {
            let (number, descriptor) = match next {
                Next::Version => (message::VERSION, None),
                Next::Id => (i64::from(self.id), None),
                Next::Memory => (message::MEMORY, Some(memory)),
                Next::Own(vector) => (i64::from(self.id), self.doorbells.of_vector(vector)),
                Next::Gone(id) => (i64::from(id), None),
                Next::Peer(id, vector) => {
                    let doorbells = all.iter().find(|(other, _)| *other == id);
                    (
                        i64::from(id),
                        doorbells.and_then(|(_, doorbells)| doorbells.of_vector(vector)),
                    )
                }
            };
            match send(self.socket.as_fd(), number, descriptor)? {
                Sent::Yes => self.peer_view.note(next),
                Sent::NoRoom => {
                    self.blocked = true;
                    return Ok(());
                }
                Sent::Later => return Ok(()),
            }
        }
        Ok(())
    }

    /// Looks what it has sent. Descriptors that come along are dropped by the kernel, because no
    /// room is offered for them.
    pub fn hear(&self) -> Heard {
        let mut few = [0; 64];
        match rustix::net::recv(&self.socket, &mut few[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Heard::Gone,
            Ok(_) => Heard::Garbage,
            Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
            Err(_) => Heard::Gone,
        }
    }
}
