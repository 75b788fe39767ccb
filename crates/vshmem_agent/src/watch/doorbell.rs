//! The agent's half of waking. A waker that cannot reach a sleeping thread notifies the waiter's
//! domain, by the link's doorbell; the agent hears that, looks which threads of its domain have
//! been served, and wakes them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vshmem_ipc::{Client, Errno};
use vshmem_link::Link;

/// The link's doorbell, as this domain hears it.
#[derive(Debug)]
pub struct DoorbellListener {
    /// Where the link says that this domain was notified, or that a process has ended.
    descriptor: Option<OwnedFd>,
    /// Whether waiters of this domain may rely on being notified, when last looked.
    all_can_notify: bool,
}

impl DoorbellListener {
    /// Opens it.
    pub fn open(link: &dyn Link) -> Self {
        // Without, waiters look again by themselves.
        Self { descriptor: link.doorbell_descriptor().unwrap_or_default(), all_can_notify: true }
    }

    /// Readable when the domain was notified; urgent when a process has ended.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Once a second: wakes waiters that were missed. A notification may have been lost, or the
    /// waker was to notify may have died or been stopped.
    pub fn round(&mut self, this_client: &Client) -> Result<(), Errno> {
        this_client.deliver_wakeups();
        this_client.recover_waiters()?;
        let before = self.all_can_notify;
        self.all_can_notify = this_client.is_woken_by_all()?;
        if before && !self.all_can_notify {
            // A client has come that cannot notify: waiters look for themselves from now on.
            this_client.wake_every_waiter();
        }
        Ok(())
    }

    /// The domain was notified. Reads the descriptor first, so that a notification that comes
    /// meanwhile is not lost.
    pub fn answer(&mut self, this_client: &Client) {
        let Some(descriptor) = &self.descriptor else { return };
        match rustix::io::read(descriptor, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {
                this_client.deliver_wakeups();
            }
            // The device is gone.
            Err(_) => self.descriptor = None,
        }
    }
}
