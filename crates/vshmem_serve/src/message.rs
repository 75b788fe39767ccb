//! One message of the protocol: a number of eight bytes, little endian, and perhaps a descriptor.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Version of the protocol: the first message.
pub(crate) const VERSION: i64 = 0;
/// The number that comes with the shared memory.
pub(crate) const MEMORY: i64 = -1;

/// How sending a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    /// The socket is full; the kernel tells when there is room.
    NoRoom,
    /// The kernel is short of something, and does not tell when it no longer is.
    Later,
}

/// Sends one message, without waiting.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    number: i64,
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<Sent, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|one| [one]);
    if let Some(one) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(one));
    }
    let bytes = number.to_le_bytes();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags) {
        Ok(8) => Ok(Sent::Yes),
        // A stream socket takes eight bytes or none; half a message could not be mended.
        Ok(_) => Err(Errno::IO),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Sent::NoRoom),
        // TOOMANYREFS: too many descriptors are on their way to processes that do not fetch them.
        Err(Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => Ok(Sent::Later),
        Err(errno) => Err(errno),
    }
}
