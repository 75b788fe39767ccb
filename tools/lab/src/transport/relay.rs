//! Moves bytes and signals between this process and a session of a guest's agent.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::error::{Doing, Error, GuestFault, Result};
use crate::held::held;
use crate::model::names::domain;
use crate::transport::connection::Connection;
use crate::transport::control::{Control, Reply};
use crate::transport::frame;
use crate::transport::frame::{Decoder, Kind, Refusal, STDIN_WINDOW};
use crate::transport::request::{ExecRequest, Streams};

const PIECE: usize = 64 << 10;

/// How long the keeper may take to notice that a guest is dead whose connections have ended.
const DEATH: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// As of a program that wrote to a pipe without a reader.
const BROKEN_PIPE: i32 = 128 + 13;

/// Runs a command over a connection to the agent. `keeper` tells of the guest's death.
pub(crate) fn relay(
    guest: u32,
    connection: Connection,
    keeper: Option<Control>,
    request: &ExecRequest,
    token: String,
    streams: Streams,
) -> Result<i32> {
    let Streams { stdin, stdout, stderr } = streams;
    let lost = || format!("talk to {}'s agent", domain(guest));
    let hello =
        serde_json::to_vec(&request.with_token(token)).map_err(io::Error::from).doing(lost)?;
    let mut line = Line { writer: connection.clone(), window: STDIN_WINDOW, closed: false };
    frame::send(&mut line.writer, Kind::Request, &hello).doing(lost)?;
    let line = Shared { line: Mutex::new(line), moved: Condvar::new() };
    let (stop_read, stop_write) = rustix::pipe::pipe().doing(|| "make a pipe".into())?;
    let mut signals = if request.forward_signals {
        Some(
            Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])
                .doing(|| "watch for signals".into())?,
        )
    } else {
        None
    };
    let handle = signals.as_ref().map(Signals::handle);

    std::thread::scope(|scope| {
        let line = &line;
        scope.spawn(move || pump(stdin, &stop_read, line));
        if let Some(signals) = &mut signals {
            scope.spawn(move || {
                for signal in signals.forever() {
                    // A connection that has broken is the other thread's to report.
                    let _ =
                        frame::send(&mut line.lock().writer, Kind::Signal, &signal.to_le_bytes());
                }
            });
        }
        let result = listen(guest, connection.clone(), keeper, line, stdout, stderr);
        if let Some(handle) = handle {
            handle.close();
        }
        // Before the lock is taken: a writer may be stuck with it.
        connection.end();
        drop(stop_write);
        line.lock().closed = true;
        line.moved.notify_all();
        result
    })
}

/// The sending side of the connection.
struct Line {
    writer: Connection,
    /// How much more input may be sent.
    window: usize,
    closed: bool,
}

struct Shared {
    line: Mutex<Line>,
    moved: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line> {
        held(self.line.lock())
    }

    /// Waits until input may be sent: how much; `None` if no more is wanted.
    fn window(&self) -> Option<usize> {
        let line = self.moved.wait_while(self.lock(), |line| line.window == 0 && !line.closed);
        let line = held(line);
        (!line.closed).then_some(line.window)
    }
}

/// Sends standard input, until it or the command ends.
fn pump(stdin: Option<OwnedFd>, stop: &OwnedFd, line: &Shared) {
    let mut piece = vec![0; PIECE];
    if let Some(stdin) = &stdin {
        while let Some(window) = line.window() {
            let mut fds = [PollFd::new(stdin, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) if !fds[1].revents().is_empty() => return,
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => break,
            }
            let most = piece.len().min(window);
            match rustix::io::read(stdin.as_fd(), &mut piece[..most]) {
                Ok(0) => break,
                Ok(size) => {
                    let mut line = line.lock();
                    line.window -= size;
                    if frame::send(&mut line.writer, Kind::Stdin, &piece[..size]).is_err() {
                        return;
                    }
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => break,
            }
        }
    }
    let _ = frame::send(&mut line.lock().writer, Kind::StdinEnd, &[]);
}

/// Waits until the agent sends something: then true. What the keeper says instead is the guest's
/// end.
fn await_agent(guest: u32, connection: &Connection, control: &mut Control) -> Result<bool> {
    let mut fds =
        [PollFd::new(connection, PollFlags::IN), PollFd::new(control.stream(), PollFlags::IN)];
    match poll(&mut fds, None) {
        Ok(_) if fds[0].revents().is_empty() && !fds[1].revents().is_empty() => Err(match control
            .receive()
        {
            Ok((Reply::Fault(fault), _)) => fault.into(),
            _ => {
                Error::Keeper { what: "has gone, and with it the guest".into(), log: String::new() }
            }
        }),
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error).doing(|| format!("talk to {}'s agent", domain(guest))),
    }
}

/// Hands out what the agent sends, until the command's exit.
fn listen(
    guest: u32,
    mut connection: Connection,
    mut keeper: Option<Control>,
    line: &Shared,
    mut stdout: Box<dyn Write + Send>,
    mut stderr: Box<dyn Write + Send>,
) -> Result<i32> {
    let lost = || format!("talk to {}'s agent", domain(guest));
    let mut decoder = Decoder::default();
    let mut piece = vec![0; PIECE];
    loop {
        if let Some(control) = &mut keeper
            && !await_agent(guest, &connection, control)?
        {
            continue;
        }
        let size = match connection.read(&mut piece) {
            Ok(0) => {
                return Err(lost_line(guest, keeper, "the agent closed the connection".into()));
            }
            Ok(size) => size,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(lost_line(guest, keeper, error.to_string()));
            }
        };
        decoder.push(&piece[..size]);
        while let Some((kind, payload)) = decoder.take().doing(lost)? {
            let written = match kind {
                Kind::Stdout => stdout.write_all(&payload).and_then(|()| stdout.flush()),
                Kind::Stderr => stderr.write_all(&payload).and_then(|()| stderr.flush()),
                Kind::StdinTaken => {
                    line.lock().window += frame::number(&payload).doing(lost)?.max(0) as usize;
                    line.moved.notify_all();
                    Ok(())
                }
                Kind::StdinClosed => {
                    line.lock().closed = true;
                    line.moved.notify_all();
                    Ok(())
                }
                Kind::Exit => return frame::number(&payload).doing(lost),
                Kind::Refused => return refused(guest, &payload, &mut stderr),
                other => return Err(io::Error::other(format!("it sent {other:?}"))).doing(lost),
            };
            match written {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(BROKEN_PIPE),
                Err(error) => return Err(error).doing(|| "write the command's output".into()),
            }
        }
    }
}

/// Why a connection has ended: with the guest, mostly. The keeper notices that a moment later.
fn lost_line(guest: u32, keeper: Option<Control>, why: String) -> Error {
    if let Some(mut control) = keeper {
        let mut fds = [PollFd::new(control.stream(), PollFlags::IN)];
        if matches!(poll(&mut fds, Some(&DEATH)), Ok(1))
            && let Ok((Reply::Fault(fault), _)) = control.receive()
        {
            return fault.into();
        }
    }
    GuestFault::Unreachable { guest, why }.into()
}

fn refused(guest: u32, payload: &[u8], stderr: &mut Box<dyn Write + Send>) -> Result<i32> {
    let refusal: Refusal = serde_json::from_slice(payload)
        .map_err(io::Error::from)
        .doing(|| format!("understand {}'s refusal", domain(guest)))?;
    match refusal {
        Refusal::Program { code, why } => {
            // As a shell does: the words on standard error, the code to the caller.
            let _ = writeln!(stderr, "{}: {why}", domain(guest));
            Ok(code)
        }
        Refusal::Request(why) => Err(Error::Refused { guest, why }),
    }
}
