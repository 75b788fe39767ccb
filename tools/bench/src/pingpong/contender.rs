//! The contenders.

use serde::Serialize;

/// A way to send a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    /// System V shared memory inside one kernel: what nothing across domains can beat by much.
    Sysv,
    /// The same program on a pool, across domains.
    Vshmem,
    /// TCP between the same domains.
    Tcp,
    /// UDP between the same domains.
    Udp,
}

impl Contender {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sysv, Self::Vshmem, Self::Tcp, Self::Udp];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sysv => "sysv",
            Self::Vshmem => "vshmem",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    pub(super) fn transport(self) -> &'static str {
        match self {
            Self::Sysv | Self::Vshmem => "shm",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    pub(super) fn is_net(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }

    /// Whether it carries a payload of that many bytes in one message. A datagram has an upper
    /// bound, and a lower one because it begins with its round.
    pub(super) fn carries(self, size: u64) -> bool {
        match self {
            Self::Sysv | Self::Vshmem => true,
            Self::Tcp => size >= 1,
            Self::Udp => (8..=65_507).contains(&size),
        }
    }
}
