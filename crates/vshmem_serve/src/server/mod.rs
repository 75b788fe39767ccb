//! The server itself: one thread, one loop.

mod domains;
mod error;
mod guests;
mod succession;

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketType;
use vshmem_ipc::Client;
use vshmem_link::{Link, uuid_digits};
use vshmem_session::{Role, RoleLock, Session};

use crate::admission::Admission;
use crate::directory::Entry;
use crate::doorbell::{Doorbells, MOST_VECTORS};
use crate::event::Event;
use crate::listener::{BindError, Bound};
use crate::peer::Peer;
use crate::server_paths::ServerPaths;
use crate::stranded::Stranded;

pub use error::ServeError;

/// Between two looks at the domain table.
const ROUND: Duration = Duration::from_secs(1);

/// What is to be served.
#[derive(Debug)]
pub struct Request {
    /// The pool's name.
    pub name: String,
    /// Where guests connect; `None`: the usual place.
    pub socket: Option<PathBuf>,
    /// Doorbells per guest.
    pub vectors: u32,
}

/// Why a server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to.
    Stopped,
    /// The pool's file is gone, or is another one.
    Removed,
    /// The host itself was evicted from the pool.
    Evicted,
}

/// Something to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Stop,
    Host,
    Control,
    Listener,
    Peer(u16),
    Stranded(u16),
}

/// Says of what was tried for which pool that it has failed.
fn failing(
    name: &str,
) -> impl Fn(&'static str) -> Box<dyn FnOnce(std::io::Error) -> ServeError> + use<> {
    let name = name.to_owned();
    move |tried| {
        let name = name.clone();
        Box::new(move |error| ServeError::Failed { name, tried, error })
    }
}

/// The pool's file, if guests can have it as a PCI device.
fn open_memory(link: &dyn Link, name: &str) -> Result<(File, Metadata), ServeError> {
    let path = link.path();
    let (failed, name) = (failing(name), name.to_owned());
    if link.file().is_none() {
        return Err(ServeError::NotOurs { name, path: path.to_owned() });
    }
    let memory = File::options().read(true).write(true).open(path);
    let memory = memory.map_err(failed("open its file"))?;
    let meta = memory.metadata().map_err(failed("look at its file"))?;
    if meta.len() != link.bytes() {
        return Err(ServeError::Labelled { name });
    }
    if !meta.len().is_power_of_two() {
        return Err(ServeError::Size { name, bytes: meta.len() });
    }
    Ok((memory, meta))
}

fn listen(
    name: &str,
    path: &Path,
    kind: SocketType,
    admission: Admission,
) -> Result<Bound, ServeError> {
    Bound::new(path, kind, admission).map_err(|error: BindError| ServeError::Listen {
        name: name.to_owned(),
        path: path.to_owned(),
        why: error.to_string(),
    })
}

/// A pool's server.
#[derive(Debug)]
pub struct Server {
    name: String,
    paths: ServerPaths,
    record_at: Entry,
    vectors: u32,
    /// Peers at most, the host included.
    most: usize,
    admission: Admission,
    memory: File,
    pool: PathBuf,
    session: Option<Session>,
    listener: Bound,
    control: Bound,
    host: u16,
    doorbells: Arc<Doorbells>,
    peers: BTreeMap<u16, Peer>,
    stranded: Vec<Stranded>,
    next: u16,
    /// No connections are taken until the next round: there were no descriptors.
    pausing: bool,
    refused: u64,
    turned_away: u64,
    nonsense: u64,
    /// The record lags behind.
    unsaved: bool,
    events: Vec<Event>,
    role_lock: RoleLock,
}

impl Server {
    /// Takes the post and opens the sockets. Guests may connect from now on; they are dealt with
    /// in [`Server::run`].
    ///
    /// # Errors
    /// Says what failed; nothing is left behind.
    pub fn start(link: Box<dyn Link>, request: &Request) -> Result<Self, ServeError> {
        let name = request.name.clone();
        if !(1..=MOST_VECTORS).contains(&request.vectors) {
            return Err(ServeError::Vectors(request.vectors));
        }
        let pool = link.path().to_owned();
        let failed = failing(&name);
        let (memory, meta) = open_memory(link.as_ref(), &name)?;
        let role_lock = RoleLock::take(Role::Server, &pool).map_err(failed("lock its file"))?;
        let Some(role_lock) = role_lock else { return Err(ServeError::Taken { name }) };
        let paths = ServerPaths::choose(&name, request.socket.as_deref())
            .map_err(|error| ServeError::NoPlace { name: name.clone(), error })?;
        let admission = Admission::of(&meta);
        let bind = |path: &Path, kind| listen(&name, path, kind, admission);
        // First: where the directory is missing, it says which.
        let control = bind(&paths.control, SocketType::DGRAM)?;
        let record_at = Entry::of(&paths.record)
            .map_err(|errno| failed("open the directory of its record")(errno.into()))?;
        let session = Session::join(link)?;
        let superblock = session.client().pool().superblock();
        let most = superblock.geometry.domains as usize;
        let identity = uuid_digits(&superblock.uuid);
        let doorbells = Doorbells::new(request.vectors)
            .map_err(|errno| failed("make event descriptors")(errno.into()))?;
        let listener = bind(&paths.socket, SocketType::STREAM)?;
        let mut server = Self {
            name: name.clone(),
            vectors: request.vectors,
            most,
            admission,
            memory,
            pool,
            session: Some(session),
            listener,
            control,
            // A guest cannot tell an id of 0 from a device without interrupts.
            host: 0,
            next: 1,
            doorbells: Arc::new(doorbells),
            peers: BTreeMap::new(),
            stranded: Vec::new(),
            pausing: false,
            refused: 0,
            turned_away: 0,
            nonsense: 0,
            unsaved: false,
            events: Vec::new(),
            role_lock,
            paths,
            record_at,
        };
        server.succeed(&identity).map_err(server.unreadable())?;
        server.save();
        server.match_domains().map_err(server.unreadable())?;
        Ok(server)
    }

    /// Where its sockets are.
    #[must_use]
    pub fn paths(&self) -> &ServerPaths {
        &self.paths
    }

    fn unreadable(&self) -> impl Fn(Errno) -> ServeError + use<> {
        let name = self.name.clone();
        move |errno| ServeError::Unreadable { name: name.clone(), errno }
    }

    /// Serves until `stop` becomes readable, or there is nothing to serve any more.
    ///
    /// # Errors
    /// When the pool is corrupt.
    pub fn run(
        &mut self,
        stop: BorrowedFd<'_>,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Ending, ServeError> {
        let mut next_round = Instant::now() + ROUND;
        loop {
            for event in self.events.drain(..) {
                tell(&event);
            }
            let left = next_round.saturating_duration_since(Instant::now());
            let ready = self.wait(Some(stop), left);
            if ready.contains(&Source::Stop) {
                return Ok(Ending::Stopped);
            }
            for source in ready {
                self.handle_event(source);
            }
            if Instant::now() >= next_round {
                next_round = Instant::now() + ROUND;
                if let Some(ending) = self.round()? {
                    return Ok(ending);
                }
            }
        }
    }

    /// What is done about once a second.
    fn round(&mut self) -> Result<Option<Ending>, ServeError> {
        self.pausing = false;
        if self.role_lock.is_orphaned(&self.pool) {
            return Ok(Some(Ending::Removed));
        }
        match self.client().map(Client::is_active_member).transpose() {
            Ok(Some(true)) => {}
            Ok(_) => return Ok(Some(Ending::Evicted)),
            Err(errno) => return Err(self.unreadable()(errno)),
        }
        self.match_domains().map_err(self.unreadable())?;
        self.tell_all();
        Ok(None)
    }

    /// Deals with what is ready, and then does what is done once a second: [`Server::run`] step by
    /// step, for tests.
    ///
    /// # Errors
    /// As [`Server::run`].
    #[doc(hidden)]
    pub fn step(&mut self) -> Result<Option<Ending>, ServeError> {
        self.events.clear();
        for source in self.wait(None, Duration::ZERO) {
            self.handle_event(source);
        }
        self.round()
    }

    fn client(&self) -> Option<&Client> {
        self.session.as_ref().map(Session::client)
    }

    /// What is ready within a time, notifications first.
    fn wait(&self, stop: Option<BorrowedFd<'_>>, within: Duration) -> Vec<Source> {
        let mut sources = Vec::new();
        sources.extend(stop.map(|stop| (Source::Stop, stop, PollFlags::IN)));
        sources
            .extend(self.doorbells.all().map(|doorbell| (Source::Host, doorbell, PollFlags::IN)));
        sources.push((Source::Control, self.control.socket(), PollFlags::IN));
        for peer in self.peers.values() {
            let room = if peer.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
            sources.push((Source::Peer(peer.id), peer.socket(), PollFlags::IN | room));
        }
        for stranded in &self.stranded {
            let source = Source::Stranded(stranded.peer.id);
            sources.push((source, stranded.process.as_fd(), PollFlags::IN));
        }
        if !self.pausing {
            sources.push((Source::Listener, self.listener.socket(), PollFlags::IN));
        }
        let mut looks: Vec<PollFd<'_>> = sources
            .iter()
            .map(|(_, file, flags)| PollFd::from_borrowed_fd(*file, *flags))
            .collect();
        let timeout =
            Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
        // An error (EINTR, ENOMEM) is as good as nothing to report.
        if poll(&mut looks, Some(&timeout)).is_err() {
            return Vec::new();
        }
        let mut ready: Vec<Source> = looks
            .iter()
            .zip(&sources)
            .filter(|(look, _)| !look.revents().is_empty())
            .map(|(_, (source, ..))| *source)
            .collect();
        ready.dedup();
        ready
    }

    fn handle_event(&mut self, source: Source) {
        match source {
            Source::Stop => {}
            Source::Host => {
                if self.doorbells.heard() {
                    self.deliver();
                }
            }
            Source::Control => self.take_requests(),
            Source::Listener => self.take_connections(),
            Source::Peer(id) => self.hear(id),
            Source::Stranded(id) => self.reap_stranded(id),
        }
    }

    fn deliver(&self) {
        if let Some(this_client) = self.client() {
            this_client.deliver_wakeups();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The record stays while there are guests: the next server has to know them.
        if self.peers.is_empty() && self.stranded.is_empty() {
            self.record_at.remove(|_| true);
        }
        if let Some(session) = self.session.take() {
            let this_client = session.client();
            let _ = this_client.pool().stop_heartbeat();
            if this_client.is_active_member() == Ok(true) {
                let _ = this_client.lose_doorbells();
            }
            let _ = session.leave();
        }
    }
}
