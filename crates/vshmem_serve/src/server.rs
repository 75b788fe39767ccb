//! The server itself: one thread, one loop.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, SocketType};
use vshmem_ipc::{DomainRow, Member};
use vshmem_link::Link;
use vshmem_session::{Duty, Post, Session, SessionError};
use vshmem_wire::DomainState;

use crate::admission::{Admission, Caller};
use crate::bell::Bells;
use crate::event::Event;
use crate::listener::{BindError, Bound};
use crate::peer::{Heard, Peer};
use crate::record::{Record, RecordedPeer};
use crate::stranded::{Stranded, has_mapped};
use crate::{MOST_VECTORS, Places};

/// Between two looks at the domain table.
const ROUND: Duration = Duration::from_secs(1);
/// Connections and datagrams that are dealt with before something else has its turn.
const BATCH: usize = 64;

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

/// Why a pool cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It is not a file of this host.
    #[error(
        "pool {name}: {} is lent to this guest; only the host can serve the pool behind it", place.display()
    )]
    NotOurs {
        /// The pool.
        name: String,
        /// Its device.
        place: PathBuf,
    },
    /// It is one for device-dax.
    #[error(
        "pool {name}: it was made with --dax, so a label lies in front of it, which ivshmem guests would take for the pool. Lend it as an nvdimm (`vshmem pool show {name} --as qemu`), or create one without --dax"
    )]
    Labelled {
        /// The pool.
        name: String,
    },
    /// A PCI device cannot show it.
    #[error(
        "pool {name}: its file has {bytes} bytes, and a PCI device can only show a power of two. Create it again with a --size such as {}M", bytes.next_power_of_two() >> 20
    )]
    Size {
        /// The pool.
        name: String,
        /// Bytes.
        bytes: u64,
    },
    /// There is a server already.
    #[error(
        "pool {name}: it has a server already, and can have one only. End that one first, or use its socket: `vshmem pool show {name} --as qemu`"
    )]
    Taken {
        /// The pool.
        name: String,
    },
    /// Too many vectors, or none.
    #[error("--vectors {0}: a guest has from 1 to {MOST_VECTORS}")]
    Vectors(u32),
    /// There is no room for the sockets.
    #[error(
        "pool {name}: cannot make files in /run/vshmem/serve: {error}. Run this as root, or choose a place of your own with --socket PATH"
    )]
    NoPlace {
        /// The pool.
        name: String,
        /// What came back.
        error: std::io::Error,
    },
    /// A socket cannot be made.
    #[error("pool {name}: cannot listen at {}: {why}. Choose another place with --socket PATH", place.display())]
    Listen {
        /// The pool.
        name: String,
        /// The socket.
        place: PathBuf,
        /// Why.
        why: String,
    },
    /// Something of the kernel's.
    #[error("pool {name}: cannot {tried}: {error}")]
    Failed {
        /// The pool.
        name: String,
        /// What was tried.
        tried: &'static str,
        /// What came back.
        error: std::io::Error,
    },
    /// The pool cannot be joined.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The pool's tables do not make sense.
    #[error(
        "pool {name}: its tables do not make sense ({errno}). `vshmem pool check {name}` says more"
    )]
    Unreadable {
        /// The pool.
        name: String,
        /// What came back.
        errno: Errno,
    },
}

/// Why a server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was told to.
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

/// A pool's server.
#[derive(Debug)]
pub struct Server {
    name: String,
    places: Places,
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
    bells: Arc<Bells>,
    peers: BTreeMap<u16, Peer>,
    stranded: Vec<Stranded>,
    next: u16,
    /// No connections are taken until the next round: there were no descriptors.
    pausing: bool,
    strangers: u64,
    turned_away: u64,
    nonsense: u64,
    /// The record lags behind.
    unsaved: bool,
    events: Vec<Event>,
    _post: Post,
}

impl Server {
    /// Takes the post and opens the sockets. Guests may connect from now on; they are dealt with
    /// in [`Server::run`].
    ///
    /// # Errors
    /// Says what stood in the way; nothing is left behind.
    pub fn start(link: Box<dyn Link>, request: &Request) -> Result<Self, ServeError> {
        let name = request.name.clone();
        if !(1..=MOST_VECTORS).contains(&request.vectors) {
            return Err(ServeError::Vectors(request.vectors));
        }
        let pool = link.place().to_owned();
        if link.kind() != "local" {
            return Err(ServeError::NotOurs { name, place: pool });
        }
        let failed = |tried| {
            let name = name.clone();
            move |error| ServeError::Failed { name, tried, error }
        };
        let memory = File::options().read(true).write(true).open(&pool);
        let memory = memory.map_err(failed("open its file"))?;
        let meta = memory.metadata().map_err(failed("look at its file"))?;
        if meta.len() != link.bytes() {
            return Err(ServeError::Labelled { name });
        }
        if !meta.len().is_power_of_two() {
            return Err(ServeError::Size { name, bytes: meta.len() });
        }
        let post = Post::take(Duty::Server, &pool).map_err(failed("lock its file"))?;
        let Some(post) = post else { return Err(ServeError::Taken { name }) };
        let places = Places::choose(&name, request.socket.as_deref())
            .map_err(|error| ServeError::NoPlace { name: name.clone(), error })?;
        let admission = Admission::of(&meta);
        let bind = |place: &Path, kind| {
            Bound::new(place, kind, admission).map_err(|error: BindError| ServeError::Listen {
                name: name.clone(),
                place: place.to_owned(),
                why: error.to_string(),
            })
        };
        let control = bind(&places.control, SocketType::DGRAM)?;
        let session = Session::join(link)?;
        let superblock = session.member().pool().superblock();
        let most = superblock.geometry.domains as usize;
        let identity: String = superblock.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let bells = Bells::new(request.vectors)
            .map_err(|errno| failed("make event descriptors")(errno.into()))?;
        let listener = bind(&places.socket, SocketType::STREAM)?;
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
            bells: Arc::new(bells),
            peers: BTreeMap::new(),
            stranded: Vec::new(),
            pausing: false,
            strangers: 0,
            turned_away: 0,
            nonsense: 0,
            unsaved: false,
            events: Vec::new(),
            _post: post,
            places,
        };
        server.succeed(&identity).map_err(server.unreadable())?;
        server.save();
        server.look_around().map_err(server.unreadable())?;
        Ok(server)
    }

    /// Where its sockets are.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    fn unreadable(&self) -> impl Fn(Errno) -> ServeError + use<> {
        let name = self.name.clone();
        move |errno| ServeError::Unreadable { name: name.clone(), errno }
    }

    /// Takes over from an earlier server: its guests go on, and nobody can ring them any more.
    fn succeed(&mut self, identity: &str) -> Result<(), Errno> {
        let Some(session) = &self.session else { return Ok(()) };
        let member = session.member();
        let rows = member.pool().domains()?;
        let record = Record::read(&self.places.record).filter(|record| record.pool == identity);
        // Ids that are known somewhere are not given again.
        let used = rows.iter().filter_map(|row| row.address);
        let used = used.filter_map(|address| u16::try_from(address).ok()).max();
        if let Some(record) = &record {
            self.next = record.next;
        }
        if let Some(used) = used {
            self.next = self.next.max(used.wrapping_add(1)).max(1);
        }
        let peers = record.map(|record| record.peers).unwrap_or_default();
        let succeeds = !peers.is_empty() || used.is_some();
        for mut peer in peers.into_iter().take(self.most) {
            let announced = rows.iter().filter(|row| row.address == Some(u32::from(peer.id)));
            peer.domains.extend(announced.map(|row| (row.index, row.epoch)));
            let (id, pid) = (peer.id, peer.pid);
            if let Some(stranded) = Stranded::watch(peer.clone()) {
                self.events.push(Event::Stranded { id, pid });
                self.stranded.push(stranded);
            } else if pid == 0 {
                self.events.push(Event::Stranded { id, pid });
            } else {
                // It has ended while nobody was looking.
                self.bury(id, &peer.domains, "its virtual machine has ended");
            }
        }
        if succeeds {
            // They still hold the doorbells of the former host.
            self.host = self.fresh_id().unwrap_or(0);
        }
        match &self.session {
            Some(session) => session.member().lose_bells(),
            None => Ok(()),
        }
    }

    /// Serves until `stop` becomes readable, or there is nothing to serve any more.
    ///
    /// # Errors
    /// When the pool does not make sense.
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
            let ready = self.wait(stop, left);
            if ready.contains(&Source::Stop) {
                return Ok(Ending::Stopped);
            }
            for source in ready {
                self.attend(source);
            }
            if Instant::now() >= next_round {
                next_round = Instant::now() + ROUND;
                self.pausing = false;
                if self.is_orphaned() {
                    return Ok(Ending::Removed);
                }
                match self.member().map(Member::in_good_standing).transpose() {
                    Ok(Some(true)) => {}
                    Ok(_) => return Ok(Ending::Evicted),
                    Err(errno) => return Err(self.unreadable()(errno)),
                }
                self.look_around().map_err(self.unreadable())?;
                self.tell_all();
            }
        }
    }

    fn member(&self) -> Option<&Member> {
        self.session.as_ref().map(Session::member)
    }

    /// What is ready within a time, rings first.
    fn wait(&self, stop: BorrowedFd<'_>, within: Duration) -> Vec<Source> {
        let mut sources = vec![(Source::Stop, stop, PollFlags::IN)];
        sources.extend(self.bells.all().map(|bell| (Source::Host, bell, PollFlags::IN)));
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

    fn attend(&mut self, source: Source) {
        match source {
            Source::Stop => {}
            Source::Host => {
                if self.bells.heard() {
                    self.deliver();
                }
            }
            Source::Control => self.take_requests(),
            Source::Listener => self.take_connections(),
            Source::Peer(id) => self.hear(id),
            Source::Stranded(id) => self.bury_stranded(id),
        }
    }

    fn deliver(&self) {
        if let Some(member) = self.member() {
            member.deliver_rings();
        }
    }

    /// Rings whom processes of the host want rung.
    fn take_requests(&mut self) {
        for _ in 0..BATCH {
            let mut word = [0; 32];
            let taken = rustix::net::recv(
                self.control.socket(),
                &mut word[..],
                RecvFlags::DONTWAIT | RecvFlags::TRUNC,
            );
            let Ok((used, length)) = taken else { return };
            let text = if length <= word.len() { &word[..used] } else { &[] };
            match address_in(text) {
                Some(address) => {
                    // One that is not there has just gone.
                    if let Some(peer) =
                        u16::try_from(address).ok().and_then(|id| self.peers.get(&id))
                    {
                        peer.bells.ring();
                    } else if address == u32::from(self.host) {
                        self.deliver();
                    }
                }
                None => {
                    self.nonsense += 1;
                    if self.nonsense.is_power_of_two() {
                        self.events.push(Event::Nonsense { times: self.nonsense });
                    }
                }
            }
        }
    }

    fn take_connections(&mut self) {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(self.listener.socket(), flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return self.pause(errno),
            };
            let Ok(caller) = Caller::of(socket.as_fd()) else { continue };
            if !self.admission.admits(caller) {
                self.strangers += 1;
                if self.strangers.is_power_of_two() {
                    let (pid, uid) = (caller.pid, caller.uid);
                    self.events.push(Event::Stranger { pid, uid, times: self.strangers });
                }
                continue;
            }
            let id = if self.peers.len() + self.stranded.len() + 1 < self.most {
                self.fresh_id()
            } else {
                None
            };
            let Some(id) = id else {
                self.turned_away += 1;
                if self.turned_away.is_power_of_two() {
                    self.events.push(Event::Full { most: self.most, times: self.turned_away });
                }
                continue;
            };
            let bells = match Bells::new(self.vectors) {
                Ok(bells) => Arc::new(bells),
                Err(errno) => return self.pause(errno),
            };
            self.events.push(Event::Connected { id, pid: caller.pid, uid: caller.uid });
            self.peers.insert(id, Peer::new(id, caller, socket, bells));
            // The record first: a guest that knows its id is one that a successor has to know.
            self.save();
            self.tell_all();
        }
    }

    /// Takes no more connections for a while.
    fn pause(&mut self, errno: Errno) {
        self.pausing = true;
        self.events.push(Event::Failed { error: errno.to_string() });
    }

    /// An id that nobody has or believes somebody else to have.
    fn fresh_id(&mut self) -> Option<u16> {
        for _ in 0..=u16::MAX {
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            let free = id != 0
                && id != self.host
                && !self.peers.contains_key(&id)
                && !self.peers.values().any(|peer| peer.knows(id))
                && !self.stranded.iter().any(|stranded| stranded.peer.id == id);
            if free {
                return Some(id);
            }
        }
        None
    }

    /// Tells everybody what they do not know yet.
    fn tell_all(&mut self) {
        let mut all = vec![(self.host, Arc::clone(&self.bells))];
        all.extend(self.peers.values().map(|peer| (peer.id, Arc::clone(&peer.bells))));
        for peer in self.peers.values_mut() {
            // A connection that is broken shows as closed in the next look.
            let _ = peer.tell(self.memory.as_fd(), self.vectors, &all);
        }
    }

    fn hear(&mut self, id: u16) {
        match self.peers.get(&id).map(Peer::hear) {
            Some(Heard::Nothing) => self.tell_all(),
            Some(Heard::Gone) => self.part_with(id),
            Some(Heard::Garbage) => self.throw_out(id),
            None => {}
        }
    }

    /// A guest has gone: what it was in the pool is dead.
    fn part_with(&mut self, id: u16) {
        let Some(peer) = self.peers.remove(&id) else { return };
        self.events.push(Event::Gone { id });
        self.bury(id, &peer.domains, "its virtual machine has ended");
        self.save();
        self.tell_all();
    }

    /// Ends the connection of a peer that is no guest of QEMU's. Its process may well go on in the
    /// pool, so nobody is dead.
    fn throw_out(&mut self, id: u16) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.events.push(Event::Garbage { id });
        peer.is_process = peer.is_process || has_mapped(peer.caller.pid, &self.memory);
        self.stranded.extend(Stranded::watch(recorded(&peer)));
        self.save();
        self.tell_all();
        if self.look_around().is_err() {
            // The next round says so.
        }
    }

    fn bury_stranded(&mut self, id: u16) {
        let found = self.stranded.iter().position(|stranded| stranded.peer.id == id);
        let Some(stranded) = found.map(|index| self.stranded.swap_remove(index)) else { return };
        self.events.push(Event::Gone { id });
        self.bury(id, &stranded.peer.domains, "its virtual machine has ended");
        self.save();
    }

    /// Declares the domains of a guest dead: those that have its address, and those that had.
    fn bury(&mut self, id: u16, seen: &BTreeMap<u32, u32>, why: &'static str) {
        let rows = self.member().map(|member| member.pool().domains());
        // Tables that cannot be read end the next round.
        let Some(Ok(rows)) = rows else { return };
        for row in rows {
            let addressed = row.address == Some(u32::from(id));
            if addressed || seen.get(&row.index) == Some(&row.epoch) {
                self.declare_dead(&row, why);
            }
        }
    }

    fn declare_dead(&mut self, row: &DomainRow, why: &'static str) {
        let Some(member) = self.member() else { return };
        let settled = row.state == DomainState::Dead && row.clients == 0;
        if settled || is_local(row, member) {
            return;
        }
        if member.bury_domain(row.index).is_ok() {
            self.events.push(Event::Dead { name: row.name.clone(), why });
        }
    }

    /// Brings pool and peers together: which domain is which guest, and who can be rung.
    fn look_around(&mut self) -> Result<(), Errno> {
        let Some(member) = self.member() else { return Ok(()) };
        let rows: Vec<DomainRow> = member.pool().domains()?;
        let mut changed = false;
        for row in rows.iter().filter(|row| row.state == DomainState::Alive) {
            let Some(member) = self.member() else { return Ok(()) };
            if is_local(row, member) {
                // Rings for the host are delivered here, to containers as well.
                let bell = self.places.usual.then_some(u32::from(self.host));
                changed |= row.address != bell && member.publish_for(row.index, bell)?;
                continue;
            }
            let Some(address) = row.address else { continue };
            let id = u16::try_from(address).ok();
            if let Some(id) = id.filter(|id| self.peers.contains_key(id)) {
                self.introduce(id, row, &rows);
                continue;
            }
            let stranded = self.stranded.iter_mut().find(|one| Some(one.peer.id) == id);
            if let Some(stranded) = stranded {
                stranded.peer.domains.insert(row.index, row.epoch);
            }
            let Some(member) = self.member() else { return Ok(()) };
            if member.lose_bell(row.index)? {
                changed = true;
                self.events.push(Event::Unreachable { name: row.name.clone() });
            }
        }
        if changed && let Some(member) = self.member() {
            member.ring_everybody();
        }
        if self.unsaved {
            self.save();
        }
        Ok(())
    }

    /// Notes that a domain is reached through a guest. One of another boot is a guest that has
    /// been reset, and what it was before is dead.
    fn introduce(&mut self, id: u16, row: &DomainRow, rows: &[DomainRow]) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.is_process = peer.is_process || has_mapped(peer.caller.pid, &self.memory);
        if peer.domains.insert(row.index, row.epoch) == Some(row.epoch) {
            return;
        }
        self.events.push(Event::Domain { id, name: row.name.clone() });
        let before = peer.boot.replace(row.boot);
        self.unsaved = true;
        if before.is_none() || before == Some(row.boot) {
            return;
        }
        let former: Vec<&DomainRow> = rows
            .iter()
            .filter(|other| Some(other.boot) == before)
            .filter(|other| peer.domains.get(&other.index) == Some(&other.epoch))
            .collect();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        for other in &former {
            peer.domains.remove(&other.index);
        }
        for other in former {
            self.declare_dead(other, "its virtual machine was reset");
        }
    }

    fn is_orphaned(&self) -> bool {
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        self.memory.metadata().map(identity).ok()
            != std::fs::metadata(&self.pool).map(identity).ok()
    }

    fn record(&self) -> Option<Record> {
        let uuid = self.member()?.pool().superblock().uuid;
        let gone = self.stranded.iter().map(|stranded| stranded.peer.clone());
        Some(Record {
            pool: uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
            socket: self.places.socket.clone(),
            vectors: self.vectors,
            host: self.host,
            next: self.next,
            peers: self.peers.values().map(recorded).chain(gone).collect(),
        })
    }

    fn save(&mut self) {
        let Some(record) = self.record() else { return };
        self.unsaved = false;
        if let Err(error) = record.write(&self.places.record) {
            self.events.push(Event::Unrecorded { error: error.to_string() });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The record stays while there are guests: the next server has to know them.
        if self.peers.is_empty() && self.stranded.is_empty() {
            let _ = std::fs::remove_file(&self.places.record);
        }
        if let Some(session) = self.session.take() {
            let member = session.member();
            if member.in_good_standing() == Ok(true) {
                let _ = member.lose_bells();
            }
            let _ = session.leave();
        }
    }
}

fn recorded(peer: &Peer) -> RecordedPeer {
    RecordedPeer {
        id: peer.id,
        pid: if peer.is_process { peer.caller.pid } else { 0 },
        start: peer.start,
        domains: peer.domains.clone(),
    }
}

/// Whether a domain is of this kernel.
fn is_local(row: &DomainRow, member: &Member) -> bool {
    member.boot().is_ok_and(|boot| boot == row.boot)
}

/// The address in a request, `ring ADDRESS`.
fn address_in(request: &[u8]) -> Option<u32> {
    let digits = request.strip_prefix(b"ring ")?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn requests_are_read_strictly() {
        assert_eq!(address_in(b"ring 0"), Some(0));
        assert_eq!(address_in(b"ring 65535"), Some(65535));
        for wrong in
            [&b""[..], b"ring", b"ring ", b"ring -1", b"ring 1 ", b"ring +1", b"ring 4294967296"]
        {
            assert_eq!(address_in(wrong), None);
        }
    }
}
