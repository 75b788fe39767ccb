//! Whether the memory behind a guest's device is still the host's.
//!
//! A guest that is migrated, or restored from a snapshot, with a pool on an nvdimm or virtio-pmem device goes on with a
//! copy of it. It is told nothing: its boot id, its clocks and its processes are what they were. What it can see is
//! that nobody else writes any more. One silent peer proves nothing (it may be paused, or dead); so two witnesses are
//! needed that were heard before and have not taken their leave: the host, which attends to the pool once a second while
//! `vshmem pool serve` or a process of the host runs on it, and every other domain with an agent. Time is counted in rounds
//! of this agent, which stop when the guest does: a guest that is frozen and goes on where it was finds new words there.

/// Rounds, of about a second each, after which silence is taken for good.
pub const ROUNDS: u32 = 30;

/// What one round shows of a domain that is not this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub index: u32,
    pub epoch: u32,
    pub lease: u32,
}

/// What has been heard so far.
#[derive(Debug, Default)]
pub struct Witness {
    beat: Option<u64>,
    peers: Vec<Peer>,
    /// The host's beat has changed since it was first seen.
    host_heard: bool,
    /// So has the lease of one of the peers that are there.
    peer_heard: bool,
    silent: u32,
}

impl Witness {
    /// Takes note of a round: the host's beat, if it attends, and the peers with an agent. True when this domain is alone
    /// with a copy.
    pub fn is_alone(&mut self, beat: Option<u64>, peers: Vec<Peer>) -> bool {
        let lease_moved = peers.iter().any(|now| {
            let same = |then: &&Peer| (then.index, then.epoch) == (now.index, now.epoch);
            self.peers.iter().find(same).is_some_and(|then| then.lease != now.lease)
        });
        let beat_moved = beat != self.beat;
        let nobody = beat.is_none() || peers.is_empty();
        self.host_heard = !nobody && (self.host_heard || (beat_moved && self.beat.is_some()));
        self.peer_heard = !nobody && (self.peer_heard || lease_moved);
        if nobody || beat_moved || lease_moved {
            self.silent = 0;
        } else if self.host_heard && self.peer_heard {
            self.silent += 1;
        }
        (self.beat, self.peers) = (beat, peers);
        self.silent >= ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(lease: u32) -> Vec<Peer> {
        vec![Peer { index: 1, epoch: 1, lease }]
    }

    /// A witness that has heard the host and a peer.
    fn with_company() -> Witness {
        let mut witness = Witness::default();
        for round in 1..4_u32 {
            assert!(!witness.is_alone(Some(round.into()), peer(round)));
        }
        witness
    }

    fn rounds(witness: &mut Witness, beat: Option<u64>, lease: u32) -> bool {
        (0..2 * ROUNDS).any(|_| witness.is_alone(beat, peer(lease)))
    }

    #[test]
    fn a_copy_in_which_nobody_writes_any_more_is_noticed() {
        assert!(rounds(&mut with_company(), Some(3), 3));
    }

    #[test]
    fn a_guest_that_is_frozen_and_goes_on_in_place_is_not_alone() {
        let mut witness = with_company();
        for round in 10..200_u32 {
            // Each time it wakes up, others have gone on for long.
            assert!(!witness.is_alone(Some(u64::from(round) * 1000), peer(round * 1000)));
        }
    }

    #[test]
    fn a_killed_server_alone_proves_nothing() {
        let mut witness = with_company();
        assert!((4..200).all(|round| !witness.is_alone(Some(3), peer(round))));
    }

    #[test]
    fn paused_peers_alone_prove_nothing() {
        let mut witness = with_company();
        assert!((4..200).all(|round| !witness.is_alone(Some(round), peer(3))));
    }

    #[test]
    fn who_has_taken_leave_is_not_silent() {
        assert!(!rounds(&mut with_company(), None, 3));
        let mut witness = with_company();
        assert!((0..200).all(|_| !witness.is_alone(Some(3), Vec::new())));
    }

    #[test]
    fn who_was_never_heard_is_not_missed() {
        assert!(!rounds(&mut Witness::default(), Some(7), 7));
    }
}
