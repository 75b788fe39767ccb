//! What `vshmem ls` shows: JSON by its fields, tables by `cells`.

use serde::Serialize;

use crate::show;
use crate::table::Table;

/// What is in a pool.
#[derive(Debug, Serialize)]
pub struct Contents {
    pub pool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<Vec<SegmentLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<QueueLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semaphores: Option<Vec<SemaphoreLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<Vec<DomainLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<ClientLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<Vec<LockLine>>,
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

/// A segment.
#[derive(Debug, Serialize)]
pub struct SegmentLine {
    #[serde(flatten)]
    pub common: Common,
    pub bytes: u64,
    pub nattch: u32,
    pub status: Vec<&'static str>,
    /// The domain that made it.
    pub domain: Option<String>,
    pub creator: Option<String>,
    pub last: Option<String>,
}

/// A message queue.
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

/// A semaphore set.
#[derive(Debug, Serialize)]
pub struct SemaphoreLine {
    #[serde(flatten)]
    pub common: Common,
    pub nsems: u32,
    pub last: Option<String>,
    pub waiters: Vec<String>,
}

/// A domain.
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

/// A client.
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

/// An internal lock that is held.
#[derive(Debug, Serialize)]
pub struct LockLine {
    pub lock: String,
    pub holder: Option<String>,
    pub committed: bool,
}

impl Contents {
    /// As tables of text.
    pub fn tables(self) -> String {
        let tables = [
            table("Segments", &SEGMENTS, self.segments, SegmentLine::cells),
            table("Message queues", &QUEUES, self.queues, QueueLine::cells),
            table("Semaphore sets", &SEMAPHORES, self.semaphores, SemaphoreLine::cells),
            table("Domains", &DOMAINS, self.domains, DomainLine::cells),
            table("Clients", &CLIENTS, self.clients, ClientLine::cells),
            table("Locks held", &LOCKS, self.locks, LockLine::cells),
        ];
        let texts: Vec<String> = tables.iter().flatten().map(Table::to_string).collect();
        format!("Pool {}\n\n{}", show::clean(&self.pool), texts.join("\n"))
    }
}

fn table<L>(
    title: &str,
    columns: &[&str],
    lines: Option<Vec<L>>,
    cells: fn(L) -> Vec<String>,
) -> Option<Table> {
    let mut table = Table::new(title, columns);
    for line in lines? {
        table.row(cells(line));
    }
    Some(table)
}

const SEGMENTS: [&str; 9] =
    ["KEY", "ID", "OWNER", "PERMS", "BYTES", "NATTCH", "STATUS", "CREATOR", "LAST"];
const QUEUES: [&str; 9] =
    ["KEY", "ID", "OWNER", "PERMS", "USED-BYTES", "MESSAGES", "SENDER", "RECEIVER", "WAITERS"];
const SEMAPHORES: [&str; 7] = ["KEY", "ID", "OWNER", "PERMS", "NSEMS", "LAST", "WAITERS"];
const DOMAINS: [&str; 7] = ["NR", "NAME", "STATE", "EPOCH", "LEASE-AGE", "CLIENTS", "AGENT"];
const CLIENTS: [&str; 6] = ["PROCESS", "USER", "COMMAND", "STATE", "ATTACHES", "SLEEPING"];
const LOCKS: [&str; 3] = ["LOCK", "HOLDER", "CHANGE"];

impl Common {
    fn cells(self, rest: impl IntoIterator<Item = String>) -> Vec<String> {
        let first = [self.key, self.id.to_string(), self.owner, self.perms];
        first.into_iter().chain(rest).collect()
    }
}

impl SegmentLine {
    fn cells(self) -> Vec<String> {
        self.common.cells([
            self.bytes.to_string(),
            self.nattch.to_string(),
            self.status.join(","),
            self.creator.unwrap_or_default(),
            self.last.unwrap_or_default(),
        ])
    }
}

impl QueueLine {
    fn cells(self) -> Vec<String> {
        self.common.cells([
            self.used_bytes.to_string(),
            self.messages.to_string(),
            self.sender.unwrap_or_default(),
            self.receiver.unwrap_or_default(),
            self.waiters.join(","),
        ])
    }
}

impl SemaphoreLine {
    fn cells(self) -> Vec<String> {
        self.common.cells([
            self.nsems.to_string(),
            self.last.unwrap_or_default(),
            self.waiters.join(","),
        ])
    }
}

impl DomainLine {
    fn cells(self) -> Vec<String> {
        vec![
            self.index.to_string(),
            if self.here { format!("{} (here)", self.name) } else { self.name },
            self.state.into(),
            self.epoch.to_string(),
            self.lease_age.map(|age| format!("{age}s")).unwrap_or_default(),
            self.clients.to_string(),
            self.agent.map(|pid| pid.to_string()).unwrap_or_default(),
        ]
    }
}

impl ClientLine {
    fn cells(self) -> Vec<String> {
        vec![
            self.process,
            self.user,
            self.command.unwrap_or_default(),
            self.state.into(),
            self.attaches.to_string(),
            self.sleeping.to_string(),
        ]
    }
}

impl LockLine {
    fn cells(self) -> Vec<String> {
        let change = if self.committed { "being carried out" } else { "not yet committed" };
        vec![self.lock, self.holder.unwrap_or_default(), change.into()]
    }
}
