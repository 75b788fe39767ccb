//! Bytes as a sequence: what peers, processes of the host and members of the pool do to a server.
//! What the fuzzer invents, and what the tests make up.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vshmem_serve::{Request, Server, ServerPaths};
use vshmem_session::{CreateRequest, create, find, identify};

/// Connections of a sequence at most.
const PEERS: usize = 8;
/// Steps of a sequence at most.
const STEPS: usize = 200;

/// A pool that every sequence finds as it was made.
pub struct Stage {
    name: String,
    path: PathBuf,
    /// Its tables.
    tables: Vec<u8>,
    /// Where its domain table lies.
    domains: std::ops::Range<u64>,
    paths: ServerPaths,
}

impl Stage {
    /// # Panics
    /// When there is no room for a small pool.
    pub fn new(suffix: &str) -> Self {
        let name = format!("hostile-serve-{}-{suffix}", std::process::id());
        let path = create(&CreateRequest {
            name: name.clone(),
            bytes: 8 << 20,
            mode: 0o600,
            group: None,
            huge_page: None,
            placement: None,
            limits: vec![("domains".into(), 6)],
            evict_after: 0,
            backed: false,
            dax: false,
            prepare: 0,
            uuid: None,
        })
        .expect("a pool");
        let (_, layout) = identify(find(&name).expect("the pool").as_ref()).expect("a superblock");
        let mut tables = vec![0; layout.data.offset() as usize];
        File::open(&path).and_then(|file| file.read_exact_at(&mut tables, 0)).expect("its tables");
        let domains = layout.domains.offset()..layout.domains.end();
        let socket = std::env::temp_dir().join(format!("{name}.sock"));
        let paths = ServerPaths::choose(&name, Some(&socket)).expect("a place for sockets");
        Self { name, path, tables, domains, paths }
    }

    fn start(&self) -> Option<Server> {
        let request = Request {
            name: self.name.clone(),
            socket: Some(self.paths.socket.clone()),
            vectors: 1,
        };
        // A pool that has been written over may be refused.
        Server::start(find(&self.name).ok()?, &request).ok()
    }

    /// Plays a sequence. It must come to its end.
    ///
    /// # Panics
    /// When this machine does not let it be played.
    pub fn play(&self, bytes: &[u8]) {
        let pool = File::options().write(true).open(&self.path).expect("the pool");
        pool.write_all_at(&self.tables, 0).expect("the tables as they were");
        let _ = std::fs::remove_file(&self.paths.record);
        let mut words = Words(bytes);
        let mut peers: Vec<UnixStream> = Vec::new();
        let Some(mut server) = self.start() else { return };
        for _ in 0..STEPS {
            let Some(what) = words.byte() else { break };
            match what % 10 {
                0 if peers.len() < PEERS => {
                    if let Ok(peer) = UnixStream::connect(&self.paths.socket) {
                        peer.set_nonblocking(true).expect("a socket");
                        peers.push(peer);
                    }
                }
                1 => words
                    .one_of(&mut peers, |peer, _| drop(peer.shutdown(std::net::Shutdown::Both))),
                2 => words.one_of(&mut peers, |peer, words| drop(peer.write(words.some()))),
                3 => words.one_of(&mut peers, |peer, words| flood(peer, words.some())),
                4 => words.one_of(&mut peers, |peer, _| drop(peer.read(&mut [0; 4096]))),
                5 => {
                    if let Ok(control) = UnixDatagram::unbound() {
                        let _ = control.set_nonblocking(true);
                        let _ = control.send_to(words.some(), &self.paths.control);
                    }
                }
                6 => {
                    let among = self.domains.end - self.domains.start;
                    self.scribble(&pool, self.domains.start, among, &mut words);
                }
                7 => self.scribble(&pool, 0, self.tables.len() as u64, &mut words),
                8 => {
                    drop(server);
                    peers.clear();
                    // What an earlier one has left, or was meant to.
                    if words.byte().is_some_and(|byte| byte % 2 == 0) {
                        let _ = std::fs::write(&self.paths.record, words.some());
                    }
                    match self.start() {
                        Some(next) => server = next,
                        None => return,
                    }
                }
                _ => {
                    if !matches!(server.step(), Ok(None)) {
                        return;
                    }
                }
            }
        }
        let _ = server.step();
    }

    /// Writes a word over one of so many bytes of the pool, as a member may.
    fn scribble(&self, pool: &File, start: u64, bytes: u64, words: &mut Words<'_>) {
        let at = start + words.number() % (bytes / 8) * 8;
        let value = words.number();
        let _ = pool.write_all_at(&value.to_ne_bytes(), at);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for path in [&self.path, &self.paths.socket, &self.paths.control, &self.paths.record] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Text with descriptors.
fn flood(peer: &UnixStream, text: &[u8]) {
    let null = File::open("/dev/null").expect("/dev/null");
    let many = [null.as_fd(); 20];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&many));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = sendmsg(peer, &[IoSlice::new(text)], &mut control, flags);
}

/// What is left of a sequence.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A few bytes, as many as the next one says.
    fn some(&mut self) -> &'a [u8] {
        let wanted = self.byte().unwrap_or(0) as usize;
        let (some, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        some
    }

    /// Often small, as what means something is.
    fn number(&mut self) -> u64 {
        let bytes = self.byte().unwrap_or(0) % 9;
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte().unwrap_or(0)))
    }

    fn one_of(&mut self, peers: &mut [UnixStream], act: impl FnOnce(&mut UnixStream, &mut Self)) {
        let which = usize::from(self.byte().unwrap_or(0));
        if !peers.is_empty() {
            act(&mut peers[which % peers.len()], self);
        }
    }
}
