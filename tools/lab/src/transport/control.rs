//! What the keeper and its clients say to each other: one JSON value per line, a descriptor beside
//! it where one is due.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::GuestFault;
use crate::model::GuestListing;

/// A client's wish.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ControlRequest {
    /// A connection to the guest's agent. The line stays open after the answer: the guest's death
    /// is reported on it.
    Connect(u32),
    List,
    Kill(u32),
    /// Stop the guest, or let it go on.
    Pause(u32, bool),
    Restart(u32),
    Down,
}

/// The keeper's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The connection is beside this; the token opens the agent.
    Connected(String),
    Guests(Vec<GuestListing>),
    Done,
    Fault(GuestFault),
}

/// What the keeper tells `up` on its standard output, once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Up,
    Failed(GuestFault),
}

/// What `up` answers on the keeper's standard input; if it never does, it has died, and the lab
/// goes with it.
pub(crate) const ACKNOWLEDGED: &str = "keep";

const LONGEST: usize = 1 << 20;

/// One end of the line.
#[derive(Debug)]
pub(crate) struct Control {
    stream: UnixStream,
    bytes: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl Control {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Control { stream, bytes: Vec::new(), descriptor: None }
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a value, and a descriptor with it.
    pub(crate) fn send<T: Serialize>(
        &self,
        value: &T,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        send(&self.stream, value, descriptor)
    }

    /// The next value, and the descriptor that came with it. The end of the line is an error.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<(T, Option<OwnedFd>)> {
        loop {
            if let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Ok((serde_json::from_slice(&line)?, self.descriptor.take()));
            }
            if self.bytes.len() > LONGEST {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line without end"));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.stream, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptor = descriptors.into_iter().last();
            }
        }
        if got.bytes == 0 || got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.bytes.extend(&bytes[..got.bytes]);
        Ok(())
    }
}

/// Sends a value over a line whose other use is elsewhere.
pub(crate) fn send<T: Serialize>(
    stream: &UnixStream,
    value: &T,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let sent = sendmsg(stream.as_fd(), &[IoSlice::new(&line)], &mut beside, SendFlags::NOSIGNAL)?;
    io::Write::write_all(&mut &*stream, &line[sent..])
}
