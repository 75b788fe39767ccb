//! The agent's part: holds the event channels, forwards notifications in both directions.
//!
//! Of two members the one with the lower id offers a port and writes its number where the other may
//! read it (`keys::port`); the other connects to it. When one of them starts anew, the other sees
//! the number change, or the same port is free to be connected to again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Error;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::announcement::Announcement;
use super::channel::Channels;
use super::doorbell::socket_of;
use super::keys;
use super::store::Store;

/// XenStore reports new members. Should that be missed: how long until the next look for members
/// that are not connected yet, at first and at most. Each look costs the daemon in dom0 several
/// requests, and a member without an agent is normal.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Requests that are read before they are carried out.
const BATCH: usize = 64;

/// A running ringer. It ends when this is dropped.
#[derive(Debug)]
pub struct Forwarder {
    stop: Arc<OwnedFd>,
    notices: Arc<OwnedFd>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Forwarder {
    /// Starts it.
    ///
    /// # Errors
    /// EACCES where XenStore or event channels are not for this user.
    pub fn start(announcement: &Announcement) -> std::io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = Arc::new(eventfd(0, flags)?);
        let notices = Arc::new(eventfd(0, flags)?);
        let mut work = Work {
            store: Store::open()?,
            channels: Channels::open()?,
            requests: Requests::bind(announcement)?,
            pool: announcement.name.clone(),
            own: announcement.own,
            lines: BTreeMap::new(),
            watched: BTreeSet::new(),
            stop: Arc::clone(&stop),
            notices: Arc::clone(&notices),
        };
        work.prepare()?;
        let thread = std::thread::Builder::new().name("ringer".into()).spawn(move || work.run())?;
        Ok(Self { stop, notices, thread: Some(thread) })
    }

    /// Readable when this domain was notified, until eight bytes are read.
    pub fn notices(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(self.notices.as_ref(), 0)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = rustix::io::write(self.stop.as_ref(), &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The socket, which is gone when this is.
#[derive(Debug)]
struct Requests {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Requests {
    fn bind(announcement: &Announcement) -> std::io::Result<Self> {
        let path = socket_of(&announcement.name);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        // Left by an agent that was killed: there is one agent at a time.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path)?;
        let bound = Self { socket, path };
        std::os::unix::fs::chown(&bound.path, None, Some(announcement.group))?;
        let mode = std::fs::Permissions::from_mode(announcement.mode);
        std::fs::set_permissions(&bound.path, mode)?;
        bound.socket.set_nonblocking(true)?;
        Ok(bound)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// An event channel to another member.
#[derive(Debug, Clone, Copy)]
struct Line {
    port: u32,
    /// The other's port, where this one has connected.
    far: Option<u32>,
}

struct Work {
    store: Store,
    channels: Channels,
    requests: Requests,
    pool: String,
    own: u16,
    lines: BTreeMap<u16, Line>,
    /// Other members' keys that are watched.
    watched: BTreeSet<String>,
    stop: Arc<OwnedFd>,
    notices: Arc<OwnedFd>,
}

/// The ids in a list, as dom0 writes it.
fn members(text: &str) -> Vec<u16> {
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The domain that a request names, `ring ID`.
fn wanted(request: &[u8]) -> Option<u16> {
    std::str::from_utf8(request.strip_prefix(b"ring ")?).ok()?.parse().ok()
}

impl Work {
    fn members_key(&self) -> String {
        format!("{}/members", keys::membership(None, &self.pool))
    }

    fn prepare(&mut self) -> std::io::Result<()> {
        self.store.remove(&keys::ports(None, &self.pool))?;
        let key = self.members_key();
        self.store.watch(&key)
    }

    /// Brings the lines up to what XenStore says; whether there is one to every other member.
    fn connect(&mut self) -> std::io::Result<bool> {
        let text = self.store.read(&self.members_key())?.unwrap_or_default();
        let others: Vec<u16> = members(&text).into_iter().filter(|id| *id != self.own).collect();
        let channels = &self.channels;
        self.lines.retain(|id, line| {
            let stays = others.contains(id);
            if !stays {
                channels.close(line.port);
            }
            stays
        });
        for id in &others {
            // One that cannot be reached is not notified, and looks for itself.
            let _ = if self.own < *id { self.offer(*id) } else { self.call(*id) };
        }
        Ok(others.iter().all(|id| self.lines.contains_key(id)))
    }

    fn offer(&mut self, id: u16) -> std::io::Result<()> {
        if self.lines.contains_key(&id) {
            return Ok(());
        }
        let port = self.channels.offer(id)?;
        self.lines.insert(id, Line { port, far: None });
        let key = keys::port(None, &self.pool, id);
        self.store.write(&key, &port.to_string())?;
        self.store.share(&key, self.own, &[id])
    }

    fn call(&mut self, id: u16) -> std::io::Result<()> {
        let key = keys::port(Some(id), &self.pool, self.own);
        if !self.watched.contains(&key) {
            self.store.watch(&key)?;
            self.watched.insert(key.clone());
        }
        // What may not be read yet is not there yet.
        let offered = self.store.number(&key).unwrap_or_default();
        let known = self.lines.get(&id).and_then(|line| line.far);
        if offered == known {
            return Ok(());
        }
        if let Some(line) = self.lines.remove(&id) {
            self.channels.close(line.port);
        }
        if let Some(far) = offered {
            let port = self.channels.connect(id, far)?;
            self.lines.insert(id, Line { port, far: Some(far) });
        }
        Ok(())
    }

    fn run(mut self) {
        // XenStore reports each watched path once at the start, too.
        let (mut complete, mut pause) = (false, RETRY.0);
        loop {
            // What came while an answer was awaited has been read already.
            let reported_before = self.store.has_changes();
            let wait = if reported_before { Duration::ZERO } else { pause };
            let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: 0 };
            let mut looks = [
                PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.channels.descriptor(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.requests.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.store.descriptor(), PollFlags::IN),
            ];
            let polled =
                poll(&mut looks, if complete && !reported_before { None } else { Some(&timeout) });
            let ready = looks.map(|look| !look.revents().is_empty());
            if ready[0] || matches!(polled, Err(errno) if errno != Errno::INTR) {
                break;
            }
            if ready[1] && self.pass_in().is_err() {
                break;
            }
            if ready[2] {
                self.pass_out();
            }
            let overdue = matches!(polled, Ok(0)) && !reported_before;
            if ready[3] || reported_before || overdue {
                pause = if overdue { (pause * 2).min(RETRY.1) } else { RETRY.0 };
                match self.store.take_changes().and_then(|_| self.connect()) {
                    Ok(now) => complete = now,
                    Err(_) => break,
                }
            }
        }
        let _ = self.store.remove(&keys::ports(None, &self.pool));
    }

    fn pass_in(&mut self) -> Result<(), Error> {
        if self.channels.take()? {
            // Full: it is readable anyhow.
            let _ = rustix::io::write(self.notices.as_ref(), &1u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Carries out what was asked for, each domain once.
    fn pass_out(&mut self) {
        let mut to_notify = Vec::new();
        let mut word = [0; 64];
        for _ in 0..BATCH {
            let Ok(used) = self.requests.socket.recv(&mut word) else { break };
            if let Some(id) = wanted(&word[..used])
                && !to_notify.contains(&id)
            {
                to_notify.push(id);
            }
        }
        for id in to_notify {
            if let Some(line) = self.lines.get(&id) {
                // No agent is at the other end: its waiters look for themselves.
                let _ = self.channels.notify(line.port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_lists_are_read_strictly() {
        assert_eq!(wanted(b"ring 3"), Some(3));
        assert_eq!(wanted(b"ring 70000"), None);
        assert_eq!(wanted(b"ring"), None);
        assert_eq!(wanted(b"ring 3 "), None);
        assert_eq!(members("0 1 7"), [0, 1, 7]);
        assert_eq!(members(" x 2 "), [2]);
    }
}
