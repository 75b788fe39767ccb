//! What `ls` shows of each object, domain and client: the fields of `--json`, and the cells of its
//! tables.

use serde::Serialize;
use vshmem_ipc::Pool;
use vshmem_link::Link;
use vshmem_session::nodes_of;

use super::limits::LimitLine;
use crate::node_bytes::NodeBytes;

/// What `vshmem ls` prints; a table that was not asked for is absent.
#[derive(Debug, Serialize)]
pub struct Contents {
    pub pool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<Vec<SegmentLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posix_shm: Option<Vec<PosixShmLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<QueueLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posix_queues: Option<Vec<PosixQueueLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semaphores: Option<Vec<SemaphoreLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<Vec<DomainLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<ClientLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<Vec<LockLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Vec<LeftLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<LimitLine>>,
}

impl Contents {
    /// Looks on which nodes the pages of the segments lie.
    pub fn find_nodes(&mut self, link: &dyn Link, pool: &Pool) {
        /// Pages of all segments that are looked at.
        const MOST_PAGES: usize = 1 << 16;
        let Some(segments) = &mut self.segments else { return };
        let most = (MOST_PAGES / segments.len().max(1)).max(16);
        for segment in segments {
            let found = nodes_of(link, pool, segment.offset, segment.bytes, most);
            segment.nodes = found.as_ref().map(NodeBytes::of);
        }
    }
}

/// What ipcs shows of every object.
#[derive(Debug, Serialize)]
pub struct Common {
    pub key: String,
    pub id: i32,
    pub owner: String,
    pub uid: u32,
    pub perms: String,
}

/// A segment of System V.
#[derive(Debug, Serialize)]
pub struct SegmentLine {
    #[serde(flatten)]
    pub common: Common,
    /// Where it begins in the pool.
    #[serde(skip)]
    pub offset: u64,
    pub bytes: u64,
    pub nattch: u32,
    pub status: Vec<&'static str>,
    /// The domain that made it.
    pub domain: Option<String>,
    pub creator: Option<String>,
    pub last: Option<String>,
    /// Where its pages lie, on a host that has several nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeBytes>,
}

/// What every POSIX object shows.
#[derive(Debug, Serialize)]
pub struct PosixCommon {
    /// With its slash; none when it has been unlinked.
    pub name: Option<String>,
    pub id: i32,
    pub owner: String,
    pub uid: u32,
    pub perms: String,
}

/// A shared memory object of POSIX.
#[derive(Debug, Serialize)]
pub struct PosixShmLine {
    #[serde(flatten)]
    pub common: PosixCommon,
    pub bytes: u64,
    pub nattch: u32,
    /// Open descriptors.
    pub nopen: u32,
    /// The domain that made it.
    pub domain: Option<String>,
    pub creator: Option<String>,
    pub last: Option<String>,
}

/// A message queue of System V.
#[derive(Debug, Serialize)]
pub struct QueueLine {
    #[serde(flatten)]
    pub common: Common,
    pub used_bytes: u32,
    pub messages: u32,
    pub limit: u32,
    pub sender: Option<String>,
    pub receiver: Option<String>,
    pub waiters: Vec<String>,
}

/// A message queue of POSIX.
#[derive(Debug, Serialize)]
pub struct PosixQueueLine {
    #[serde(flatten)]
    pub common: PosixCommon,
    pub used_bytes: u32,
    pub messages: u32,
    /// Messages at most.
    pub maxmsg: u32,
    /// Bytes of a message at most.
    pub msgsize: u32,
    /// Open descriptors.
    pub nopen: u32,
    pub sender: Option<String>,
    pub receiver: Option<String>,
    pub waiters: Vec<String>,
}

/// A semaphore set.
#[derive(Debug, Serialize)]
pub struct SemaphoreLine {
    #[serde(flatten)]
    pub common: Common,
    pub nsems: u32,
    pub last: Option<String>,
    pub waiters: Vec<String>,
}

/// A domain that has joined the pool.
#[derive(Debug, Serialize)]
pub struct DomainLine {
    pub index: u32,
    pub name: String,
    pub state: &'static str,
    pub epoch: u32,
    /// Seconds since the agent last renewed the lease.
    pub lease_age: Option<u64>,
    pub clients: usize,
    pub agent: Option<u32>,
    pub here: bool,
}

/// A process that has joined the pool.
#[derive(Debug, Serialize)]
pub struct ClientLine {
    pub index: u32,
    pub process: String,
    pub domain: String,
    pub pid: u32,
    pub user: String,
    pub uid: u32,
    pub command: Option<String>,
    pub state: &'static str,
    pub attaches: u32,
    pub sleeping: u32,
}

/// A lock that is held.
#[derive(Debug, Serialize)]
pub struct LockLine {
    pub lock: String,
    pub holder: Option<String>,
    pub committed: bool,
}

/// A program that has left the pool.
#[derive(Debug, Serialize)]
pub struct LeftLine {
    pub program: String,
    pub why: String,
    pub user: String,
    pub uid: u32,
    pub pid: u32,
}
