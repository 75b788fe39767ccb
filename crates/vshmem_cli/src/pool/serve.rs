//! `vshmem pool serve`.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use vshmem_link::Link;
use vshmem_serve::{Ending, MOST_VECTORS, Request, Server, ServerPaths, XenServer};
use vshmem_session::find;

use crate::failure::{Failure, Outcome, failed};
use crate::show;

/// Hand a pool to QEMU guests, with doorbells between them and the host; in dom0, to Xen guests.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// The pool's name.
    name: String,
    /// Where guests connect, instead of /run/vshmem/serve/NAME.sock.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Doorbells per guest. One is enough for vshmem.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_VECTORS)))]
    vectors: u32,
}

const EXAMPLES: &str = "\
Stays in the foreground and writes a line for each event; SIGTERM ends it. A guest whose QEMU ends is
declared dead in the pool at once. Guests cannot reconnect to a server: after the server restarts,
running guests keep the pool, but their waiters poll every 4 ms instead of being notified, until the
guests are restarted.

Examples:
  vshmem pool serve job7 &
  qemu-system-x86_64 ... $(vshmem pool show job7 --as qemu)
  vshmem pool serve job7 --vectors 1";

impl Serve {
    /// Serves until it is asked to stop.
    pub fn carry_out(self) -> Outcome {
        let name = self.name;
        if name.contains('/') {
            return Err(Failure::Usage(format!(
                "{name}: give the pool's name, not its path; `vshmem pool ls` shows the names"
            )));
        }
        allow_many_descriptors();
        let (stop, signalled) = UnixStream::pair().map_err(|error| cannot_catch(&error))?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let end = signalled.try_clone().map_err(|error| cannot_catch(&error))?;
            signal_hook::low_level::pipe::register(signal, end)
                .map_err(|error| cannot_catch(&error))?;
        }
        let link = find(&name)?;
        let path = link.path().to_owned();
        if link.kind() == "xen" {
            return serve_xen(link, &name, &stop);
        }
        let request = Request { name: name.clone(), socket: self.socket, vectors: self.vectors };
        let mut server = Server::start(link, &request)?;
        // It notices the death of this process and takes the host's doorbell back.
        begin(&name, &path, opening(&name, server.paths(), self.vectors))?;
        let mut gone = false;
        let ending = server.run(stop.as_fd(), &mut |event| tell(&name, event, &mut gone))?;
        drop(server);
        end(&name, ending)
    }
}

/// Starts this domain's agent, and says that the server is there.
fn begin(name: &str, path: &Path, opening: String) -> Result<(), Failure> {
    if let Err(error) = vshmem_agent::start(path) {
        show::line(format!("pool {name}: no agent ({error})"))?;
    }
    show::line(opening)?;
    announce_ready();
    Ok(())
}

/// A line for an event. `gone`: the output is closed, which is no reason to leave the guests alone.
fn tell(name: &str, event: &impl std::fmt::Display, gone: &mut bool) {
    *gone = *gone || show::line(show::sanitized(&format!("pool {name}: {event}"))).is_err();
}

fn end(name: &str, ending: Ending) -> Outcome {
    match ending {
        Ending::Stopped => {
            show::line(format!("pool {name}: no longer served"))?;
            Ok(ExitCode::SUCCESS)
        }
        Ending::Removed => {
            failed(format!("pool {name}: it was removed, so there is nothing to serve any more"))
        }
        Ending::Evicted => failed(format!(
            "pool {name}: this host was evicted from it. Confirm with `vshmem pool evict {name} HOST --dead`, and serve it again"
        )),
    }
}

/// In dom0: grants the pool to guests that come, and reaps those that go.
fn serve_xen(link: Box<dyn Link>, name: &str, stop: &UnixStream) -> Outcome {
    let path = link.path().to_owned();
    let mut server = XenServer::start(link, name)?;
    let opening =
        format!("pool {name}: guests are granted it as they come, and revoked as they go");
    begin(name, &path, opening)?;
    let mut gone = false;
    let ending = server.run(stop.as_fd(), &mut |event| tell(name, event, &mut gone))?;
    drop(server);
    end(name, ending)
}

fn opening(name: &str, paths: &ServerPaths, vectors: u32) -> String {
    let host = if paths.usual {
        "the host's processes are notified as well".to_owned()
    } else {
        format!(
            "the host's processes poll every 4 ms, because they expect {} in /run/vshmem/serve",
            paths.control.display()
        )
    };
    format!("pool {name}: guests connect at {} ({vectors} vectors); {host}", paths.socket.display())
}

fn cannot_catch(error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot catch signals: {error}"))
}

/// A guest takes a descriptor for its connection and one for each vector.
fn allow_many_descriptors() {
    let now = getrlimit(Resource::Nofile);
    // Without, fewer guests can connect, and get a message that says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
}

/// Tells a service manager that guests can connect (sd_notify(3)).
fn announce_ready() {
    // A manager that does not listen has its own time-out.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}
