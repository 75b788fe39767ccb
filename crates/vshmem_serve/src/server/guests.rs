//! Guests and processes of the host at the server's sockets: who comes, what they say, who goes.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags};

use super::Server;
use super::succession::recorded;
use crate::admission::Caller;
use crate::doorbell::Doorbells;
use crate::event::Event;
use crate::peer::{Heard, Peer};
use crate::stranded::{Stranded, has_mapped};

/// Connections and datagrams that are dealt with before something else has its turn.
const BATCH: usize = 64;

impl Server {
    /// Notifies whom processes of the host want notified.
    pub(super) fn take_requests(&mut self) {
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
                        peer.doorbells.notify();
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

    pub(super) fn take_connections(&mut self) {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(self.listener.socket(), flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return self.pause(errno),
            };
            let Ok(caller) = Caller::of(socket.as_fd()) else { continue };
            // Without an answer it has no further groups.
            let groups = vshmem_link::peer_groups(socket.as_fd()).unwrap_or_default();
            if !self.admission.admits(caller, &groups) {
                self.refused += 1;
                if self.refused.is_power_of_two() {
                    let (pid, uid) = (caller.pid, caller.uid);
                    self.events.push(Event::Refused { pid, uid, times: self.refused });
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
            let doorbells = match Doorbells::new(self.vectors) {
                Ok(doorbells) => Arc::new(doorbells),
                Err(errno) => return self.pause(errno),
            };
            self.events.push(Event::Connected { id, pid: caller.pid, uid: caller.uid });
            self.peers.insert(id, Peer::new(id, caller, socket, doorbells));
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

    /// An id that no peer has, and that no peer was told of.
    pub(super) fn fresh_id(&mut self) -> Option<u16> {
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

    /// Sends each peer what it has not been sent yet.
    pub(super) fn tell_all(&mut self) {
        let mut all = vec![(self.host, Arc::clone(&self.doorbells))];
        all.extend(self.peers.values().map(|peer| (peer.id, Arc::clone(&peer.doorbells))));
        for peer in self.peers.values_mut() {
            // A connection that is broken shows as closed in the next look.
            let _ = peer.tell(self.memory.as_fd(), self.vectors, &all);
        }
    }

    pub(super) fn hear(&mut self, id: u16) {
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
        self.reap(id, &peer.domains, "its virtual machine has ended");
        self.save();
        self.tell_all();
    }

    /// Ends the connection of a peer that is no guest of QEMU's. Its process may well go on in the
    /// pool, so no domain is dead.
    fn throw_out(&mut self, id: u16) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        self.events.push(Event::Garbage { id });
        peer.is_process = peer.is_process || has_mapped(peer.caller.pid, &self.memory);
        self.stranded.extend(Stranded::watch(recorded(&peer)));
        self.save();
        self.tell_all();
        if self.match_domains().is_err() {
            // The next round says so.
        }
    }
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
