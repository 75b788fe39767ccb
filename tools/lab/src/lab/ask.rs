//! Asking a lab's keeper. A keeper that is stopped, or frozen with its container, keeps its socket
//! and never answers: a command that asks says so after some seconds.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::error::{Doing, Error, Result};
use crate::host::directory::Directory;
use crate::host::guest_processes;
use crate::host::record::Record;
use crate::transport::control::{Control, ControlRequest, Reply};

/// How long a keeper may take to list its guests, which it does from memory.
const ANSWER: Duration = Duration::from_secs(5);

/// Asks for something that may take long, like the boot of a guest. While it takes long, the keeper
/// must answer others.
pub(super) fn ask(
    record: &Record,
    directory: &Directory,
    wish: &ControlRequest,
) -> Result<(Control, Reply, Option<OwnedFd>)> {
    let socket = directory.socket();
    let asking = || format!("ask the lab's keeper at {socket:?}");
    let alive = match wish {
        ControlRequest::List => Ok(()),
        // One that is stopped is told by its first answer, which takes it no time.
        _ => ask_at(&socket, &ControlRequest::List, ANSWER).map(drop),
    };
    match alive.and_then(|()| ask_at(&socket, wish, ANSWER)) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(silent(record)),
        other => other.doing(asking),
    }
}

/// Whether the keeper answers.
pub(super) fn answers(directory: &Directory) -> bool {
    ask_at(&directory.socket(), &ControlRequest::List, ANSWER).is_ok()
}

/// Asks at a socket. `ErrorKind::WouldBlock`: the process that listens there has not answered in
/// that time.
pub(super) fn ask_at(
    socket: &Path,
    wish: &ControlRequest,
    within: Duration,
) -> io::Result<(Control, Reply, Option<OwnedFd>)> {
    let mut control = Control::new(connect_within(socket, within)?);
    control.send(wish, None)?;
    let (reply, descriptor) = hear(&mut control, || match wish {
        ControlRequest::List => Err(ErrorKind::WouldBlock.into()),
        _ => ask_at(socket, &ControlRequest::List, within).map(drop),
    })?;
    Ok((control, reply, descriptor))
}

/// The answer; each time that it has not come within the socket's limit, the keeper must show that
/// it is alive.
fn hear(
    control: &mut Control,
    mut alive: impl FnMut() -> io::Result<()>,
) -> io::Result<(Reply, Option<OwnedFd>)> {
    loop {
        match control.receive() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => alive()?,
            other => return other,
        }
    }
}

/// Connects, for which there must be room in the listener's queue, and bounds each read and write.
fn connect_within(socket: &Path, within: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let line = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // For Unix sockets it bounds connect(2), too.
    set_socket_timeout(&line, Timeout::Send, Some(within))?;
    set_socket_timeout(&line, Timeout::Recv, Some(within))?;
    connect(&line, &address)?;
    Ok(line.into())
}

fn silent(record: &Record) -> Error {
    let keeper = record.living_keeper().unwrap_or_default();
    Error::Silent {
        name: record.name.clone(),
        keeper,
        seconds: ANSWER.as_secs(),
        remedy: remedy(&record.name, keeper),
    }
}

/// What to do with a lab whose keeper does not answer.
pub(super) fn remedy(name: &str, keeper: i32) -> String {
    let down = format!("`vshmem lab --name {name} down` ends it and its guests");
    if guest_processes::is_stopped(keeper) {
        format!("it is stopped: `kill -CONT {keeper}` lets it go on, {down}")
    } else {
        format!("it may be frozen with its container, or busy: try again, or {down}")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const WITHIN: Duration = Duration::from_millis(50);

    fn refused(socket: &Path, wish: &ControlRequest) -> Option<ErrorKind> {
        ask_at(socket, wish, WITHIN).err().map(|error| error.kind())
    }

    #[test]
    fn a_keeper_that_never_answers_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("keeper.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        for wish in [ControlRequest::List, ControlRequest::Kill(1), ControlRequest::Restart(1)] {
            assert_eq!(refused(&socket, &wish), Some(ErrorKind::WouldBlock), "{wish:?}");
        }
        // Until the queue of those who want to connect is full, and then as well.
        let mut waiting = Vec::new();
        while let Ok(line) = connect_within(&socket, WITHIN) {
            waiting.push(line);
        }
        assert_eq!(refused(&socket, &ControlRequest::List), Some(ErrorKind::WouldBlock));
    }

    #[test]
    fn a_long_job_of_a_keeper_that_answers_others_is_waited_for() {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let keeper = Control::new(far);
        let mut looks = 0;
        let heard = hear(&mut Control::new(near), || {
            looks += 1;
            if looks == 3 { keeper.send(&Reply::Done, None) } else { Ok(()) }
        });
        assert!(matches!(heard, Ok((Reply::Done, _))), "{heard:?}");
    }
}
