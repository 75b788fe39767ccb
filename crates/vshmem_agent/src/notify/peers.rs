//! The socket of an agent: what comes from its peers, and what goes to them.
//!
//! Only addresses of the operator's file are sent to. What comes from anywhere else is dropped and
//! counted. A datagram is one byte and says "look again", and by coming, that its sender is there;
//! so it may be lost, repeated or forged.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{Shutdown, shutdown};
use vshmem_session::TokenBucket;
use vshmem_wire::fnv1a_32;

use super::config::{NotifyConfig, NotifyError};

/// Datagrams a second to each peer, and from all senders together; more are late, as if they were
/// lost.
const RATE: u32 = 5000;
/// At once.
const BURST: u32 = 500;
/// The kernel keeps no more than some dozens of datagrams, so that a flood does not have to be
/// read.
const WAITING_BYTES: usize = 16 << 10;
/// What a datagram holds. Its value means nothing.
const LOOK_AGAIN: [u8; 1] = [b'!'];

/// One peer.
#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    state: Mutex<PeerState>,
}

#[derive(Debug)]
struct PeerState {
    to_send: TokenBucket,
    /// It has been heard since the last round.
    is_heard: bool,
    /// The round by which it had last been heard.
    heard: Option<Instant>,
}

/// What has come and gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Sent to peers.
    pub sent: u64,
    /// Put off, as the rate was used up.
    pub put_off: u64,
    /// From peers.
    pub received: u64,
    /// From others, or of another length than one: dropped.
    pub foreign: u64,
    /// How often too many came: they were not read until a moment later.
    pub floods: u64,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    put_off: AtomicU64,
    received: AtomicU64,
    foreign: AtomicU64,
    floods: AtomicU64,
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Something from a peer.
    Peer {
        /// Which one, by its number in the configuration.
        number: usize,
        /// It had not been heard lately.
        is_news: bool,
    },
    /// Something that is dropped.
    Foreign,
    /// Nothing, and nothing is there.
    Nothing,
    /// So much that it has not been read: to be looked at a moment later.
    Flood,
    /// The socket has been closed.
    Closed,
}

/// What became of a wish to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Done,
    /// Not before that time.
    Later(Duration),
    /// No peer of the configuration has that digest, or the kernel does not send.
    Not,
}

/// An agent among its peers.
#[derive(Debug)]
pub struct Peers {
    socket: UdpSocket,
    own: SocketAddr,
    peers: Vec<Peer>,
    incoming: Mutex<TokenBucket>,
    is_closed: AtomicBool,
    counters: Counters,
}

/// What stands in the pool for an address, so that others can find the address in their own
/// configuration: FNV-1a of its text.
fn digest_of(address: &SocketAddr) -> u32 {
    fnv1a_32(address.to_string().as_bytes()).max(1)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peers {
    /// Listens as the configuration says.
    ///
    /// # Errors
    /// When that address cannot be had.
    pub fn open(config: &NotifyConfig) -> Result<Self, NotifyError> {
        let (file, address) = (config.file.clone(), config.listen);
        let socket =
            UdpSocket::bind(address).map_err(|error| NotifyError::Bind { file, address, error })?;
        // A larger buffer than wanted does no harm.
        let _ = set_socket_recv_buffer_size(&socket, WAITING_BYTES);
        let now = Instant::now();
        let peer = |address: &SocketAddr| Peer {
            address: *address,
            state: Mutex::new(PeerState {
                to_send: TokenBucket::new(RATE, BURST, now),
                is_heard: false,
                heard: None,
            }),
        };
        Ok(Self {
            own: socket.local_addr().unwrap_or(address),
            socket,
            peers: config.peers.iter().map(peer).collect(),
            incoming: Mutex::new(TokenBucket::new(RATE, BURST, now)),
            is_closed: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    /// Digest of the own address.
    #[must_use]
    pub fn own_digest(&self) -> u32 {
        digest_of(&self.own)
    }

    /// Waits for a datagram.
    pub fn receive(&self) -> Received {
        self.receive_if(true)
    }

    /// Takes a datagram that is there already, whatever the rate: there are some dozens at most.
    pub fn receive_waiting(&self) -> Received {
        self.receive_if(false)
    }

    fn receive_if(&self, wait: bool) -> Received {
        let mut bytes = [0; 2];
        let flags =
            if wait { rustix::net::RecvFlags::empty() } else { rustix::net::RecvFlags::DONTWAIT };
        let got = rustix::net::recvfrom(&self.socket, &mut bytes[..], flags);
        if self.is_closed.load(Ordering::Acquire) {
            return Received::Closed;
        }
        let (length, from) = match got {
            Ok((_, length, from)) => {
                (length, from.and_then(|from| SocketAddr::try_from(from).ok()))
            }
            Err(rustix::io::Errno::AGAIN) => return Received::Nothing,
            // Something about a datagram that was sent; nothing to look at.
            Err(_) => (0, None),
        };
        let number = self.peers.iter().position(|peer| Some(peer.address) == from);
        let received = match number.filter(|_| length == LOOK_AGAIN.len()) {
            Some(number) => {
                add_one(&self.counters.received);
                Received::Peer { number, is_news: self.note_heard(number) }
            }
            None => {
                add_one(&self.counters.foreign);
                Received::Foreign
            }
        };
        if wait && lock(&self.incoming).take_by(Instant::now).is_err() {
            add_one(&self.counters.floods);
            return Received::Flood;
        }
        received
    }

    fn note_heard(&self, number: usize) -> bool {
        let mut state = lock(&self.peers[number].state);
        let is_news = !state.is_heard && state.heard.is_none();
        state.is_heard = true;
        is_news
    }

    /// Sends to the peer whose address has that digest.
    pub fn send(&self, digest: u32) -> Sent {
        match self.peers.iter().find(|peer| digest_of(&peer.address) == digest) {
            Some(peer) => self.send_to(peer),
            None => Sent::Not,
        }
    }

    fn send_to(&self, peer: &Peer) -> Sent {
        if let Err(wait) = lock(&peer.state).to_send.take_by(Instant::now) {
            add_one(&self.counters.put_off);
            return Sent::Later(wait);
        }
        match self.socket.send_to(&LOOK_AGAIN, peer.address) {
            Ok(_) => {
                add_one(&self.counters.sent);
                Sent::Done
            }
            // A network that is down: the peer will notice that it hears nothing.
            Err(_) => Sent::Not,
        }
    }

    /// Lets all peers, or one of them, know that this agent is there.
    pub fn greet(&self, only: Option<usize>) {
        for (number, peer) in self.peers.iter().enumerate() {
            if only.is_none_or(|only| only == number) {
                self.send_to(peer);
            }
        }
    }

    /// Digests of the peers that have been heard since the last time that this was asked, or up to
    /// so long ago. The others count as not heard from now on. To be asked about once a second.
    #[must_use]
    pub fn heard_within(&self, time: Duration) -> Vec<u32> {
        let mut heard = Vec::new();
        for peer in &self.peers {
            let mut state = lock(&peer.state);
            if std::mem::take(&mut state.is_heard) {
                state.heard = Some(Instant::now());
            } else if state.heard.is_some_and(|since| since.elapsed() >= time) {
                state.heard = None;
            }
            if state.heard.is_some() {
                heard.push(digest_of(&peer.address));
            }
        }
        heard
    }

    /// Ends [`Peers::receive`], now and for good.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        // Wakes the thread that waits, although it says that there is no connection (ENOTCONN).
        let _ = shutdown(self.socket.as_fd(), Shutdown::Both);
    }

    /// What has come and gone so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { sent, put_off, received, foreign, floods } = &self.counters;
        Counts {
            sent: read(sent),
            put_off: read(put_off),
            received: read(received),
            foreign: read(foreign),
            floods: read(floods),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn local() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    fn among(peers: Vec<SocketAddr>) -> Peers {
        let listen = "127.0.0.1:0".parse().unwrap();
        Peers::open(&NotifyConfig { file: PathBuf::from("test"), pool: Vec::new(), listen, peers })
            .unwrap()
    }

    #[test]
    fn peers_hear_each_other_and_others_are_dropped_and_counted() {
        let ((peer, peer_at), (unknown, _)) = (local(), local());
        let agent = among(vec![peer_at]);
        assert!(agent.heard_within(Duration::from_secs(60)).is_empty());
        unknown.send_to(b"!", agent.own).unwrap();
        assert_eq!(agent.receive(), Received::Foreign);
        peer.send_to(b"too long", agent.own).unwrap();
        assert_eq!(agent.receive(), Received::Foreign);
        for is_news in [true, false] {
            peer.send_to(b"x", agent.own).unwrap();
            assert_eq!(agent.receive(), Received::Peer { number: 0, is_news });
        }
        for _ in 0..2 {
            assert_eq!(agent.heard_within(Duration::from_secs(60)), [digest_of(&peer_at)]);
        }
        assert!(agent.heard_within(Duration::ZERO).is_empty());
        peer.send_to(b"x", agent.own).unwrap();
        assert_eq!(agent.receive(), Received::Peer { number: 0, is_news: true }, "silent since");
        assert_eq!(agent.receive_waiting(), Received::Nothing);
        let counts = Counts { received: 3, foreign: 2, ..Counts::default() };
        assert_eq!(agent.counts(), counts);
    }

    #[test]
    fn only_who_is_configured_is_sent_to() {
        let ((peer, peer_at), (_, other_at)) = (local(), local());
        let agent = among(vec![peer_at]);
        assert_eq!(agent.send(digest_of(&other_at)), Sent::Not);
        assert_eq!(agent.send(0), Sent::Not);
        assert_eq!(agent.send(digest_of(&peer_at)), Sent::Done);
        let mut bytes = [0; 8];
        assert_eq!(peer.recv_from(&mut bytes).unwrap(), (1, agent.own));
        assert_eq!(agent.counts().sent, 1);
    }

    #[test]
    fn what_goes_to_a_peer_is_limited() {
        let (_peer, peer_at) = local();
        let agent = among(vec![peer_at]);
        let digest = digest_of(&peer_at);
        let mut sent = 0;
        while agent.send(digest) == Sent::Done {
            sent += 1;
        }
        assert!(sent >= BURST, "{sent}");
        assert!(
            matches!(agent.send(digest), Sent::Later(wait) if wait <= Duration::from_secs(1) / RATE)
        );
        assert!(agent.counts().put_off > 0);
    }

    #[test]
    fn a_flood_is_noticed_and_then_read_without_waiting() {
        let ((peer, peer_at), (unknown, _)) = (local(), local());
        let agent = among(vec![peer_at]);
        loop {
            unknown.send_to(b"!", agent.own).unwrap();
            match agent.receive() {
                Received::Foreign => {}
                other => break assert_eq!(other, Received::Flood),
            }
        }
        assert_eq!(agent.counts().floods, 1);
        peer.send_to(b"!", agent.own).unwrap();
        assert_eq!(agent.receive_waiting(), Received::Peer { number: 0, is_news: true });
    }

    #[test]
    fn closing_ends_a_wait() {
        let (_peer, peer_at) = local();
        let agent = among(vec![peer_at]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| agent.receive());
            while !waiting.is_finished() {
                agent.close();
                std::thread::yield_now();
            }
            assert_eq!(waiting.join().unwrap(), Received::Closed);
        });
    }

    #[test]
    fn an_address_that_is_taken_is_refused_with_its_file() {
        let (_socket, taken) = local();
        let config = NotifyConfig {
            file: PathBuf::from("/etc/vshmem/notify.d/job7"),
            pool: Vec::new(),
            listen: taken,
            peers: vec![taken],
        };
        let error = Peers::open(&config).unwrap_err().to_string();
        assert!(error.contains("job7") && error.contains(&taken.to_string()), "{error}");
    }

    #[test]
    fn a_digest_is_the_same_everywhere() {
        assert_eq!(digest_of(&"10.77.0.1:7117".parse().unwrap()), 0x143c_6933);
    }
}
