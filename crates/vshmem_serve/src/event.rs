//! What happens, one line each.

use std::fmt;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A guest has connected.
    Connected {
        /// Its id.
        id: u16,
        /// Its QEMU.
        pid: u32,
        /// The user that runs it.
        uid: u32,
    },
    /// A connection was refused: its user may not use the pool.
    Refused {
        /// The process.
        pid: u32,
        /// Its user.
        uid: u32,
        /// How many so far.
        times: u64,
    },
    /// A connection was refused: there are as many peers as the pool has domains.
    Full {
        /// How many there may be.
        most: usize,
        /// How many were refused so far.
        times: u64,
    },
    /// A connection could not be taken.
    Failed {
        /// Why.
        error: String,
    },
    /// A domain has announced that it is reached through a guest.
    Domain {
        /// The guest.
        id: u16,
        /// The domain's name.
        name: String,
    },
    /// A guest has gone.
    Gone {
        /// Its id.
        id: u16,
    },
    /// A guest has sent bytes, and was disconnected.
    Garbage {
        /// Its id.
        id: u16,
    },
    /// A domain was declared dead.
    Dead {
        /// The domain's name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// A guest of an earlier server goes on without doorbells.
    Stranded {
        /// Its id.
        id: u16,
        /// Its QEMU; 0 when that is not known for certain.
        pid: u32,
    },
    /// A domain has announced an address that no guest has.
    Unreachable {
        /// The domain's name.
        name: String,
    },
    /// Datagrams that are invalid have come.
    Nonsense {
        /// How many so far.
        times: u64,
    },
    /// The record could not be written.
    Unrecorded {
        /// Why.
        error: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { id, pid, uid } => {
                write!(f, "guest {id}: connected (process {pid} of user {uid})")
            }
            Self::Refused { pid, uid, times } => write!(
                f,
                "refused: process {pid} of user {uid} may not use the pool ({times} times in all)"
            ),
            Self::Full { most, times } => write!(
                f,
                "refused: there are {most} peers already, as many as the pool has domains ({times} times in all)"
            ),
            Self::Failed { error } => write!(f, "a connection could not be taken: {error}"),
            Self::Domain { id, name } => write!(f, "guest {id}: is domain {name}"),
            Self::Gone { id } => write!(f, "guest {id}: gone"),
            Self::Garbage { id } => write!(
                f,
                "guest {id}: disconnected, because it has sent something; it can no longer be notified"
            ),
            Self::Dead { name, why } => write!(f, "domain {name}: dead ({why})"),
            Self::Stranded { id, pid: 0 } => write!(
                f,
                "guest {id}: may still run from an earlier server, without doorbells; report its end with `vshmem pool evict`"
            ),
            Self::Stranded { id, pid } => write!(
                f,
                "guest {id}: still runs from an earlier server (process {pid}), without doorbells until it is restarted"
            ),
            Self::Unreachable { name } => write!(
                f,
                "domain {name}: its doorbell does not belong to this server; its waiters poll"
            ),
            Self::Nonsense { times } => {
                write!(f, "an invalid request on the control socket ({times} in all)")
            }
            Self::Unrecorded { error } => {
                write!(
                    f,
                    "cannot write the record, so a restarted server would not know the guests: {error}"
                )
            }
        }
    }
}
