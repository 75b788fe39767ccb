//! One client's program: started, fed, listened to and reported, by one thread that waits in
//! `poll`.
//!
//! The client's connection is always read, whatever the program does, so that a signal reaches a
//! program whose input or output is stuck; how much input may be on its way is limited by the
//! window that the client keeps.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::Result;
use crate::init::orders::tunables;
use crate::init::world::is_own;
use crate::model::boot::BIN;
use crate::transport::connection::Connection;
use crate::transport::frame;
use crate::transport::frame::{Decoder, Kind, Refusal, Request};

/// How long a client may take to say what it wants.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a program may live on after its client has gone and it got SIGHUP.
const GRACE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Output waiting for a slow client; the program waits when there is more.
const BACKLOG: usize = 256 << 10;

const PIECE: usize = 64 << 10;

/// Gives a client a session, in a thread of its own.
pub(super) fn attend(client: Connection, token: &Arc<str>) {
    let token = Arc::clone(token);
    let started = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        // A broken connection is the client's affair; its program has been ended.
        let _ = run(client, &token);
    });
    if let Err(error) = started {
        let _ = writeln!(std::io::stdout(), "vshmem-lab: cannot serve a client: {error}");
    }
}

/// Serves one client from its request to the exit of its program.
fn run(mut client: Connection, token: &str) -> io::Result<()> {
    client.set_timeout(TIMEOUT)?;
    let mut decoder = Decoder::default();
    let request = match hear(&mut client, &mut decoder, token) {
        Ok(request) => request,
        Err(error) => return refuse(&mut client, &Refusal::Request(error.to_string())),
    };
    match start(&request) {
        Ok(program) => Session::new(client, decoder, program)?.serve(),
        Err(refusal) => refuse(&mut client, &refusal),
    }
}

fn hear(client: &mut Connection, decoder: &mut Decoder, token: &str) -> io::Result<Request> {
    let mut piece = vec![0; PIECE];
    let payload = loop {
        match decoder.take()? {
            Some((Kind::Request, payload)) => break payload,
            Some((kind, _)) => {
                return Err(io::Error::other(format!("the first frame is {kind:?}")));
            }
            None => {}
        }
        let size = client.read(&mut piece)?;
        if size == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        decoder.push(&piece[..size]);
    };
    let request: Request = serde_json::from_slice(&payload)?;
    if request.token != token {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "the client does not know this guest's token",
        ));
    }
    Ok(request)
}

fn refuse(client: &mut Connection, refusal: &Refusal) -> io::Result<()> {
    frame::send(client, Kind::Refused, &serde_json::to_vec(refusal)?)
}

fn start(request: &Request) -> Result<Child, Refusal> {
    let Some((program, arguments)) = request.argv.split_first() else {
        return Err(Refusal::Request("there is no program in the request".into()));
    };
    let refused = |code, why| Err(Refusal::Program { code, why });
    let cwd = request.cwd.as_deref().unwrap_or_else(|| "/root".as_ref());
    if let Err(error) = std::fs::metadata(cwd) {
        let hint = hint(cwd, &error);
        return refused(127, format!("cannot go to the directory {cwd:?}: {error}{hint}"));
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(cwd)
        .env_clear()
        .env("PATH", format!("{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))
        .envs([("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root"), ("SHELL", "/bin/sh")])
        .envs([("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")])
        .envs(tunables())
        .envs(request.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some((uid, gid)) = request.user {
        command.uid(uid).gid(gid);
    }
    match command.spawn() {
        Ok(child) => Ok(child),
        Err(error) => {
            let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
            // One without a slash was looked for in PATH.
            let is_path = program.as_bytes().contains(&b'/');
            let hint = if is_path { hint(&cwd.join(program), &error) } else { "" };
            refused(code, format!("cannot run {program:?}: {error}{hint}"))
        }
    }
}

/// Why a file that the host has may not be there.
fn hint(path: &Path, error: &io::Error) -> &'static str {
    if error.kind() == ErrorKind::NotFound && is_own(path) {
        "; /tmp, /var/tmp, /root and /run are the guest's own: put on the host what it is to have elsewhere, as below /srv"
    } else {
        ""
    }
}

/// Output of the program: standard output or standard error.
struct Outlet {
    pipe: Option<OwnedFd>,
    kind: Kind,
    /// Once the program has ended: what was in the pipe then. What others write there later is not
    /// its output.
    left: Option<u64>,
}

struct Session {
    client: Connection,
    decoder: Decoder,
    child: Child,
    pidfd: OwnedFd,
    stdin: Option<ChildStdin>,
    input: VecDeque<u8>,
    input_ends: bool,
    outlets: [Outlet; 2],
    output: VecDeque<u8>,
    ended: Option<ExitStatus>,
}

impl Session {
    fn new(client: Connection, decoder: Decoder, mut child: Child) -> io::Result<Self> {
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let stdin = child.stdin.take();
        let stdout: Option<OwnedFd> = child.stdout.take().map(Into::into);
        let stderr: Option<OwnedFd> = child.stderr.take().map(Into::into);
        ioctl_fionbio(&client, true)?;
        let pipes = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for pipe in pipes.into_iter().flatten() {
            ioctl_fionbio(pipe, true)?;
        }
        let outlets = [(stdout, Kind::Stdout), (stderr, Kind::Stderr)].map(|(pipe, kind)| Outlet {
            pipe,
            kind,
            left: None,
        });
        Ok(Session {
            client,
            decoder,
            child,
            pidfd,
            stdin,
            input: VecDeque::new(),
            input_ends: false,
            outlets,
            output: VecDeque::new(),
            ended: None,
        })
    }

    fn serve(mut self) -> io::Result<()> {
        let served = self.converse();
        if self.ended.is_none() {
            self.hang_up();
        }
        served
    }

    fn converse(&mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        self.obey()?;
        loop {
            let ready = self.wait()?;
            if ready.client {
                match self.client.read(&mut piece) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(size) => self.decoder.push(&piece[..size]),
                    Err(error) if again(&error) => {}
                    Err(error) => return Err(error),
                }
                self.obey()?;
            }
            if ready.stdin_broken {
                self.close_stdin();
            }
            self.feed();
            if ready.ended && self.ended.is_none() {
                self.ended = Some(self.child.wait()?);
                for outlet in &mut self.outlets {
                    outlet.left = Some(
                        outlet.pipe.as_ref().map_or(0, |pipe| ioctl_fionread(pipe).unwrap_or(0)),
                    );
                }
            }
            for outlet in 0..self.outlets.len() {
                self.listen(outlet, &mut piece)?;
            }
            self.report()?;
            if let Some(status) = self.ended
                && self.outlets.iter().all(|outlet| outlet.pipe.is_none())
            {
                return self.finish(status);
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let talk =
            if self.output.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let mut fds = vec![PollFd::new(&self.client, talk)];
        let alive = self.ended.is_none();
        if alive {
            fds.push(PollFd::new(&self.pidfd, PollFlags::IN));
        }
        if let Some(stdin) = &self.stdin {
            let flags = if self.input.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(stdin, flags));
        }
        let room = self.output.len() < BACKLOG;
        fds.extend(
            self.outlets
                .iter()
                .filter_map(|outlet| outlet.pipe.as_ref())
                .filter(|_| room)
                .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
        );
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let stdin_at = 1 + usize::from(alive);
        Ok(Ready {
            client: fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            ended: alive && !fds[1].revents().is_empty(),
            stdin_broken: self.stdin.is_some() && fds[stdin_at].revents().contains(PollFlags::ERR),
        })
    }

    /// Does what the client's frames say.
    fn obey(&mut self) -> io::Result<()> {
        while let Some((kind, payload)) = self.decoder.take()? {
            match kind {
                Kind::Stdin if self.stdin.is_some() => self.input.extend(&payload),
                Kind::Stdin => {}
                Kind::StdinEnd => self.input_ends = true,
                Kind::Signal => {
                    if let (Some(signal), None) =
                        (Signal::from_named_raw(frame::number(&payload)?), &self.ended)
                    {
                        self.signal(signal);
                    }
                }
                other => return Err(io::Error::other(format!("a client sent {other:?}"))),
            }
        }
        self.feed();
        Ok(())
    }

    fn feed(&mut self) {
        while let Some(stdin) = &mut self.stdin {
            let (piece, _) = self.input.as_slices();
            if piece.is_empty() {
                if self.input_ends {
                    self.stdin = None;
                }
                return;
            }
            match stdin.write(piece) {
                Ok(size) => {
                    self.input.drain(..size);
                    self.put(Kind::StdinTaken, &(size as u32).to_le_bytes());
                }
                Err(error) if again(&error) => return,
                Err(_) => self.close_stdin(),
            }
        }
    }

    fn close_stdin(&mut self) {
        if self.stdin.take().is_some() {
            self.input.clear();
            self.put(Kind::StdinClosed, &[]);
        }
    }

    /// Takes what one outlet has, as far as there is room.
    fn listen(&mut self, outlet: usize, piece: &mut [u8]) -> io::Result<()> {
        while self.output.len() < BACKLOG {
            let Outlet { pipe: Some(pipe), kind, left } = &mut self.outlets[outlet] else {
                return Ok(());
            };
            let most = left.map_or(piece.len(), |left| piece.len().min(left as usize));
            let size = match if most == 0 {
                Ok(0)
            } else {
                rustix::io::read(&*pipe, &mut piece[..most])
            } {
                Ok(size) => size,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let kind = *kind;
            if size == 0 {
                self.outlets[outlet].pipe = None;
                return Ok(());
            }
            if let Some(left) = left {
                *left -= size as u64;
            }
            self.put(kind, &piece[..size]);
        }
        Ok(())
    }

    fn put(&mut self, kind: Kind, payload: &[u8]) {
        let mut bytes = Vec::with_capacity(payload.len() + 5);
        frame::put(&mut bytes, kind, payload);
        self.output.extend(bytes);
    }

    /// Sends what the connection takes.
    fn report(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            let (piece, _) = self.output.as_slices();
            match self.client.write(piece) {
                Ok(size) => drop(self.output.drain(..size)),
                Err(error) if again(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn finish(&mut self, status: ExitStatus) -> io::Result<()> {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        self.put(Kind::Exit, &code.to_le_bytes());
        ioctl_fionbio(&self.client, false)?;
        self.report()
    }

    fn signal(&self, signal: Signal) {
        // Gone already: the exit is on its way.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// The client has gone: so goes its program, as when a terminal is closed.
    fn hang_up(&mut self) {
        self.stdin = None;
        self.signal(Signal::HUP);
        self.signal(Signal::CONT);
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&GRACE)), Ok(1..)) {
            self.signal(Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

struct Ready {
    client: bool,
    ended: bool,
    stdin_broken: bool,
}

fn again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
