//! What a peer has been sent about the others.
//!
//! There is no queue of messages: what a peer has still to be sent follows from what is and what
//! it knows. So a guest that is stopped, and reads nothing for hours, costs nothing and is not
//! mistaken for a dead one; when it continues it gets the state of that moment.

use std::collections::BTreeMap;

/// What one peer knows.
#[derive(Debug, Default)]
pub(crate) struct PeerView {
    opening: u32,
    /// Ids that it has heard of, each with how many vectors.
    peers: BTreeMap<u16, u32>,
    /// Vectors of its own that it has got.
    own: u32,
}

/// The next thing to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The version of the protocol.
    Version,
    /// Its own id.
    Id,
    /// The shared memory.
    Memory,
    /// That a peer is there: one vector of it.
    Peer(u16, u32),
    /// How it is notified itself: one vector.
    Own(u32),
    /// That a peer has gone.
    Gone(u16),
}

impl PeerView {
    /// What comes next, if anything; `others` are the ids that are there now, its own left out.
    pub fn next(&self, others: impl Iterator<Item = u16> + Clone, vectors: u32) -> Option<Next> {
        match self.opening {
            0 => return Some(Next::Version),
            1 => return Some(Next::Id),
            2 => return Some(Next::Memory),
            _ => {}
        }
        let is_there = |id: u16| others.clone().any(|other| other == id);
        if let Some(&gone) = self.peers.keys().find(|&&id| !is_there(id)) {
            return Some(Next::Gone(gone));
        }
        for other in others.clone() {
            let known = self.peers.get(&other).copied().unwrap_or(0);
            if known < vectors {
                return Some(Next::Peer(other, known));
            }
        }
        (self.own < vectors).then_some(Next::Own(self.own))
    }

    /// Notes that something has been sent.
    pub fn note(&mut self, next: Next) {
        match next {
            Next::Version | Next::Id | Next::Memory => self.opening += 1,
            Next::Peer(id, vector) => {
                self.peers.insert(id, vector + 1);
            }
            Next::Own(vector) => self.own = vector + 1,
            Next::Gone(id) => {
                self.peers.remove(&id);
            }
        }
    }

    /// Whether it was told of a peer of that id.
    pub fn knows(&self, id: u16) -> bool {
        self.peers.contains_key(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(peer_view: &mut PeerView, others: &[u16], vectors: u32) -> Vec<Next> {
        let mut said = Vec::new();
        while let Some(next) = peer_view.next(others.iter().copied(), vectors) {
            peer_view.note(next);
            said.push(next);
        }
        said
    }

    #[test]
    fn the_opening_is_in_the_order_of_the_protocol() {
        let mut peer_view = PeerView::default();
        let said = all(&mut peer_view, &[0, 4], 2);
        use Next::{Id, Memory, Own, Peer, Version};
        assert_eq!(
            said,
            [Version, Id, Memory, Peer(0, 0), Peer(0, 1), Peer(4, 0), Peer(4, 1), Own(0), Own(1)]
        );
    }

    #[test]
    fn arrivals_and_departures_are_sent_once_however_late() {
        let mut peer_view = PeerView::default();
        all(&mut peer_view, &[0], 1);
        assert_eq!(all(&mut peer_view, &[0, 5], 1), [Next::Peer(5, 0)]);
        assert!(peer_view.knows(5));
        // Several came and went while it did not listen.
        assert_eq!(all(&mut peer_view, &[0, 9], 1), [Next::Gone(5), Next::Peer(9, 0)]);
        assert_eq!(all(&mut peer_view, &[0, 9], 1), []);
        assert!(!peer_view.knows(5));
    }
}
