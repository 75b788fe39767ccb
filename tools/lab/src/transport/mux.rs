//! Many connections over one line that carries bytes in order: a guest's serial port. Both sides
//! are alike, but only the keeper opens connections.
//!
//! A frame is one byte of kind, four of the connection's number, four of length (little endian),
//! payload. A side sends no more on a connection than it has credit for, and takes what comes off
//! the line at once; so an unread connection blocks no other.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::held::held;

/// How much may be on its way on one connection.
const CREDIT: usize = 256 << 10;

/// The largest payload.
const PIECE: usize = 16 << 10;

const HEADER: usize = 9;
const STACK: usize = 256 << 10;

/// What a frame says about its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Open = 1,
    /// The answer to [`Kind::Open`].
    Opened = 2,
    Data = 3,
    /// Four bytes: so much more may be sent.
    Credit = 4,
    /// Nothing more will be sent.
    End = 5,
    /// Nothing more is wanted.
    Closed = 6,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        use Kind::*;
        [Open, Opened, Data, Credit, End, Closed].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A connection as this side knows it.
#[derive(Debug)]
struct Channel {
    /// To wake those who wait at this side's end.
    local: UnixStream,
    /// Towards this side's end; none once nothing more comes.
    inbox: Option<Sender<Vec<u8>>>,
    credit: usize,
    /// How much has come that no credit was given for yet.
    owed: usize,
    opened: bool,
    /// The other side wants nothing more.
    closed: bool,
    /// How many of its two directions are at work here.
    at_work: u8,
}

#[derive(Debug, Default)]
struct Channels {
    by_number: HashMap<u32, Channel>,
    last: u32,
    broken: bool,
}

/// One end of the line.
pub(crate) struct Mux {
    line: Mutex<Box<dyn Write + Send>>,
    channels: Mutex<Channels>,
    moved: Condvar,
}

impl Mux {
    /// The end that writes there; [`listen`](Self::listen) reads.
    pub(crate) fn new(line: impl Write + Send + 'static) -> Arc<Self> {
        Arc::new(Mux {
            line: Mutex::new(Box::new(line)),
            channels: Mutex::default(),
            moved: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        held(self.channels.lock())
    }

    fn send(&self, kind: Kind, number: u32, payload: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEADER + payload.len());
        frame.push(kind as u8);
        frame.extend(number.to_le_bytes());
        frame.extend((payload.len() as u32).to_le_bytes());
        frame.extend(payload);
        held(self.line.lock()).write_all(&frame)
    }

    /// Opens a connection to the other side, if that answers in time.
    pub(crate) fn open(self: &Arc<Self>, within: Duration) -> io::Result<UnixStream> {
        let (end, local) = UnixStream::pair()?;
        let number = {
            let mut channels = self.lock();
            channels.last += 1;
            channels.last
        };
        self.start(number, local)?;
        self.send(Kind::Open, number, &[])?;
        // One that has come and gone meanwhile has been opened.
        let silent = |channels: &mut Channels| {
            !channels.broken
                && channels.by_number.get(&number).is_some_and(|channel| !channel.opened)
        };
        let (channels, waited) = held(self.moved.wait_timeout_while(self.lock(), within, silent));
        // Where it fails this side's end is dropped, and with it the connection ends, however late
        // it is opened.
        match (channels.broken, waited.timed_out()) {
            (true, _) => Err(ErrorKind::NotConnected.into()),
            (false, true) => Err(ErrorKind::TimedOut.into()),
            (false, false) => Ok(end),
        }
    }

    /// Sets a connection's two directions to work.
    fn start(self: &Arc<Self>, number: u32, local: UnixStream) -> io::Result<()> {
        let (inbox, pieces) = channel();
        let (from, to) = (local.try_clone()?, local.try_clone()?);
        let fresh = Channel {
            local,
            inbox: Some(inbox),
            credit: CREDIT,
            owed: 0,
            opened: false,
            closed: false,
            at_work: 2,
        };
        {
            let mut channels = self.lock();
            if channels.broken {
                return Err(ErrorKind::NotConnected.into());
            }
            channels.by_number.insert(number, fresh);
        }
        let spawn = |work: Box<dyn FnOnce(&Self) + Send>| {
            let mux = Arc::clone(self);
            let body = move || {
                work(&mux);
                mux.finish(number);
            };
            thread::Builder::new().stack_size(STACK).spawn(body).map(drop)
        };
        // A line that has broken is for the one who listens to report.
        spawn(Box::new(move |mux| drop(mux.forward(number, from))))?;
        spawn(Box::new(move |mux| mux.deliver(number, to, &pieces)))
    }

    fn finish(&self, number: u32) {
        let mut channels = self.lock();
        if let Some(channel) = channels.by_number.get_mut(&number) {
            channel.at_work -= 1;
            if channel.at_work == 0 {
                channels.by_number.remove(&number);
            }
        }
    }

    /// Sends what is written at this side's end, as far as there is credit.
    fn forward(&self, number: u32, mut from: UnixStream) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        while let Some(credit) = self.credit(number) {
            let most = credit.min(PIECE);
            let size = match from.read(&mut piece[..most]) {
                Ok(0) => break,
                Ok(size) => size,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            if let Some(channel) = self.lock().by_number.get_mut(&number) {
                channel.credit -= size;
            }
            self.send(Kind::Data, number, &piece[..size])?;
        }
        self.send(Kind::End, number, &[])
    }

    /// Waits until something may be sent: how much; `None` if nothing more is wanted.
    fn credit(&self, number: u32) -> Option<usize> {
        let stuck = |channels: &mut Channels| {
            let channel = channels.by_number.get(&number);
            !channels.broken
                && channel.is_some_and(|channel| !channel.closed && channel.credit == 0)
        };
        let channels = held(self.moved.wait_while(self.lock(), stuck));
        let channel = channels.by_number.get(&number).filter(|channel| !channel.closed)?;
        (!channels.broken).then_some(channel.credit)
    }

    /// Writes what has come to this side's end, and gives credit for what has been taken.
    fn deliver(&self, number: u32, mut to: UnixStream, pieces: &Receiver<Vec<u8>>) {
        for piece in pieces {
            if to.write_all(&piece).is_err() {
                let _ = self.send(Kind::Closed, number, &[]);
                return;
            }
            if let Some(channel) = self.lock().by_number.get_mut(&number) {
                channel.owed -= piece.len();
            }
            let _ = self.send(Kind::Credit, number, &(piece.len() as u32).to_le_bytes());
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Takes what comes off the line until that ends or breaks, which ends all connections.
    /// `accept` is given those that the other side opens; without it, that side may open none.
    pub(crate) fn listen(
        self: &Arc<Self>,
        mut line: impl Read,
        accept: Option<&dyn Fn(UnixStream)>,
    ) -> io::Error {
        let error = loop {
            if let Err(error) = self.take(&mut line, accept) {
                break error;
            }
        };
        let mut channels = self.lock();
        channels.broken = true;
        for channel in channels.by_number.values_mut() {
            channel.inbox = None;
            let _ = channel.local.shutdown(Shutdown::Both);
        }
        self.moved.notify_all();
        error
    }

    fn take(
        self: &Arc<Self>,
        line: &mut impl Read,
        accept: Option<&dyn Fn(UnixStream)>,
    ) -> io::Result<()> {
        let mut header = [0; HEADER];
        line.read_exact(&mut header)?;
        let [kind, n0, n1, n2, n3, l0, l1, l2, l3] = header;
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let broken = || io::Error::new(ErrorKind::InvalidData, format!("not a frame: {header:?}"));
        let kind = Kind::of(kind).filter(|_| length <= PIECE).ok_or_else(broken)?;
        let mut payload = vec![0; length];
        line.read_exact(&mut payload)?;
        if kind == Kind::Open {
            let accept = accept.ok_or_else(broken)?;
            let (end, local) = UnixStream::pair()?;
            self.start(number, local)?;
            self.send(Kind::Opened, number, &[])?;
            accept(end);
            return Ok(());
        }
        let mut channels = self.lock();
        // One that has ended here already: the other side will hear of that.
        let Some(channel) = channels.by_number.get_mut(&number) else {
            return Ok(());
        };
        match kind {
            Kind::Open => {}
            Kind::Opened => channel.opened = true,
            Kind::Data => {
                channel.owed += length;
                if channel.owed > CREDIT {
                    return Err(broken());
                }
                if let Some(inbox) = &channel.inbox {
                    // The delivering side has given up: it has said so.
                    let _ = inbox.send(payload);
                }
            }
            Kind::Credit => {
                let more = payload.try_into().map(u32::from_le_bytes).map_err(|_| broken())?;
                channel.credit = channel.credit.saturating_add(more as usize);
            }
            Kind::End => channel.inbox = None,
            Kind::Closed => {
                channel.closed = true;
                let _ = channel.local.shutdown(Shutdown::Read);
            }
        }
        self.moved.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    /// Both ends of a line; the far one gives each connection that is opened to `serve`.
    fn line(serve: fn(UnixStream)) -> (Arc<Mux>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let here = Mux::new(near.try_clone().unwrap());
        let there = Mux::new(far.try_clone().unwrap());
        let listener = Arc::clone(&here);
        let reader = near.try_clone().unwrap();
        thread::spawn(move || listener.listen(reader, None));
        thread::spawn(move || {
            there.listen(far, Some(&|end| drop(thread::spawn(move || serve(end)))));
        });
        (here, near)
    }

    fn echo(mut end: UnixStream) {
        let mut back = end.try_clone().unwrap();
        let _ = io::copy(&mut end, &mut back);
        let _ = back.shutdown(Shutdown::Write);
    }

    #[test]
    fn many_connections_carry_their_own_bytes() {
        let (mux, _line) = line(echo);
        thread::scope(|scope| {
            for number in 0..8_u32 {
                let mux = &mux;
                scope.spawn(move || {
                    let sent: Vec<u8> =
                        (0..2_u32 << 20).map(|at| ((at ^ number) * 7 + number) as u8).collect();
                    let mut end = mux.open(SOON).unwrap();
                    let mut writer = end.try_clone().unwrap();
                    let copy = sent.clone();
                    scope.spawn(move || {
                        writer.write_all(&copy).unwrap();
                        writer.shutdown(Shutdown::Write).unwrap();
                    });
                    let mut got = Vec::new();
                    end.read_to_end(&mut got).unwrap();
                    assert!(got == sent, "{} bytes came back as {}", sent.len(), got.len());
                });
            }
        });
    }

    #[test]
    fn an_unread_connection_blocks_no_other() {
        // The first is never read at the far side; it keeps its end.
        let (mux, _line) = line(|mut end| {
            let mut first = [0];
            if end.read(&mut first).is_ok_and(|size| size == 1) && first == *b"s" {
                thread::park();
            }
            let _ = end.write_all(&first);
            echo(end);
        });
        let mut stuck = mux.open(SOON).unwrap();
        stuck.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        while stuck.write(&[b's'; 4096]).is_ok() {}
        let mut other = mux.open(SOON).unwrap();
        other.write_all(b"answer").unwrap();
        let mut got = [0; 6];
        other.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"answer");
    }

    #[test]
    fn an_end_that_is_dropped_ends_the_connection_for_the_other() {
        let (mux, _line) = line(|mut end| {
            end.write_all(b"x").unwrap();
        });
        let mut end = mux.open(SOON).unwrap();
        let mut got = Vec::new();
        end.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"x");
        // What is written now is not read any more: it fails, or is taken and dropped, but no
        // thread waits for ever.
        while end.write_all(&[0; 65_536]).is_ok() {}
    }

    #[test]
    fn when_the_line_breaks_so_do_all_connections() {
        let (mux, line) = line(echo);
        let mut end = mux.open(SOON).unwrap();
        line.shutdown(Shutdown::Both).unwrap();
        let mut got = Vec::new();
        end.read_to_end(&mut got).unwrap();
        assert!(got.is_empty());
        assert!(mux.open(SOON).is_err());
    }

    #[test]
    fn a_silent_other_side_is_given_up() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mux = Mux::new(near);
        let refused = mux.open(Duration::from_millis(10)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn what_is_no_frame_breaks_the_line() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mux = Mux::new(near.try_clone().unwrap());
        far.write_all(&[99; HEADER]).unwrap();
        assert_eq!(mux.listen(near, None).kind(), ErrorKind::InvalidData);
    }
}
