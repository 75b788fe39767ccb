//! The agent's half of waking. A waker that cannot reach a sleeping thread rings the sleeper's
//! domain, by the link's doorbell; the agent hears that, looks which threads of its domain have
//! been served, and wakes them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vshmem_ipc::{Errno, Member};
use vshmem_link::Link;

/// The link's doorbell, as this domain hears it.
#[derive(Debug)]
pub struct Doorbell {
    /// Where the link says that this domain was rung, or that a process has ended.
    descriptor: Option<OwnedFd>,
    /// Whether sleepers of this domain may rely on being rung, when last looked.
    all_can_ring: bool,
}

impl Doorbell {
    /// Opens it.
    pub fn open(link: &dyn Link) -> Self {
        // Without, sleepers look again by themselves.
        Self { descriptor: link.doorbell_descriptor().unwrap_or_default(), all_can_ring: true }
    }

    /// Readable when the domain was rung; urgent when a process has ended.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Once a second: wakes whoever was missed. A ring may have been lost, or whoever was to ring
    /// may have died or been stopped.
    pub fn round(&mut self, member: &Member) -> Result<(), Errno> {
        member.deliver_rings();
        member.tend_sleepers()?;
        let before = self.all_can_ring;
        self.all_can_ring = member.is_rung_by_all()?;
        if before && !self.all_can_ring {
            // Somebody has come who cannot ring: sleepers look for themselves from now on.
            member.ring_everybody();
        }
        Ok(())
    }

    /// The domain was rung. Reads the descriptor first, so that a ring that comes meanwhile is not
    /// lost.
    pub fn answer(&mut self, member: &Member) {
        let Some(descriptor) = &self.descriptor else { return };
        match rustix::io::read(descriptor, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {
                member.deliver_rings();
            }
            // The device is gone.
            Err(_) => self.descriptor = None,
        }
    }
}
