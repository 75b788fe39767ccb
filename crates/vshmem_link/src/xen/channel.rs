//! Event channels: `/dev/xen/evtchn`, as Linux's xen/evtchn.h has it.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::ioctl::pass;

const DEVICE: &str = "/dev/xen/evtchn";
const GROUP: u8 = b'E';

/// The event channels of one process.
#[derive(Debug)]
pub struct Channels {
    file: OwnedFd,
}

impl Channels {
    /// Opens the device.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(DEVICE, flags, Mode::empty()).map(|file| Self { file })
    }

    /// Readable when a notification has come on one of the ports.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn operate<const N: usize>(&self, number: u8, mut words: [u32; N]) -> Result<u32, Errno> {
        let argument: *mut c_void = words.as_mut_ptr().cast();
        // SAFETY: the operations here read structures of N numbers and write nothing.
        let result = unsafe { pass(self.file.as_fd(), GROUP, number, N * 4, argument) }?;
        Ok(result.unsigned_abs())
    }

    /// A port that the other domain may connect to.
    pub fn offer(&self, to: u16) -> Result<u32, Errno> {
        self.operate(2, [u32::from(to)])
    }

    /// A port connected to one that another domain offers.
    pub fn connect(&self, to: u16, port: u32) -> Result<u32, Errno> {
        self.operate(1, [u32::from(to), port])
    }

    /// Gives a port up.
    pub fn close(&self, port: u32) {
        // Closed by the other side already, or with the device.
        let _ = self.operate(3, [port]);
    }

    /// Notifies the domain that is connected to a port.
    pub fn notify(&self, port: u32) -> Result<(), Errno> {
        self.operate(4, [port]).map(drop)
    }

    /// Reads which ports have been notified, and allows further notifications on them. Returns
    /// whether there were any.
    pub fn take(&self) -> Result<bool, Errno> {
        let mut any = false;
        let mut ports = [0u8; 256];
        loop {
            match rustix::io::read(&self.file, &mut ports) {
                Ok(0) | Err(Errno::AGAIN | Errno::INTR) => return Ok(any),
                Ok(used) => {
                    any = true;
                    rustix::io::write(&self.file, &ports[..used])?;
                }
                // Too many came at once: the device has to be reset.
                Err(Errno::FBIG) => {
                    any = true;
                    self.operate::<0>(5, [])?;
                }
                Err(errno) => return Err(errno),
            }
        }
    }
}
