//! The doorbell of a domain: its agent holds an event channel to every other member, and notifies
//! for the processes of the domain.
//!
//! An event channel belongs to the process that has bound it, and there is one for each pair of
//! domains. So a process asks the agent to notify, with one datagram, as processes of a host ask
//! `vshmem pool serve`. A domain's address is its id.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use vshmem_sync::Doorbell;

use crate::served::Served;

/// Where agents take notifications from processes of their domain.
const DIRECTORY: &str = "/run/vshmem/xen-bells";

/// The socket of a pool's agent in this domain.
pub fn socket_of(pool: &str) -> PathBuf {
    Path::new(DIRECTORY).join(pool)
}

/// Notifies through the agent.
#[derive(Debug)]
pub struct XenDoorbell {
    own: u16,
    socket: PathBuf,
    agent: Served,
}

impl XenDoorbell {
    /// The doorbell of domain `own` in a pool.
    pub fn new(own: u16, pool: &str) -> Self {
        let socket = socket_of(pool);
        Self { own, agent: Served::at(&socket), socket }
    }
}

impl Doorbell for XenDoorbell {
    fn own_address(&self) -> Option<u32> {
        // An agent without the right to event channels has no socket.
        self.socket.exists().then_some(u32::from(self.own))
    }

    fn notify(&self, address: u32) -> Result<(), Errno> {
        self.agent.notify(address)
    }
}
