//! What `top` tells of one interval, and what it prints with `--json`.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use vshmem_ipc::{Awaited, FoundBy, Kind, ObjectDetails, Particulars, Pool, ThreadActivity};

use super::rates::Rates;
use super::reading::Reading;
use super::sort::Sort;
use crate::verb::ls::limits::{self, LimitLine};
use crate::verb::ls::view::View;

/// What `vshmem top` prints for one interval. All rates are per second.
#[derive(Debug, Serialize)]
pub struct Report {
    pub pool: String,
    /// Seconds since 1970.
    pub time: f64,
    /// Length of the interval.
    pub seconds: f64,
    pub total: Total,
    pub domains: Vec<Domain>,
    pub clients: Vec<Client>,
    pub objects: Vec<Object>,
    pub waiting: Vec<Waiting>,
    pub limits: Vec<LimitLine>,
}

/// All of the pool, per second.
#[derive(Debug, Default, Serialize)]
pub struct Total {
    pub operations: f64,
    pub messages: f64,
    pub bytes: f64,
    pub attaches: f64,
    pub waits: f64,
    pub wakeups: f64,
}

/// A domain.
#[derive(Debug, Serialize)]
pub struct Domain {
    pub index: u32,
    pub name: String,
    pub state: &'static str,
    pub clients: usize,
    pub here: bool,
    pub waiting: u32,
    /// Per second, as all of these.
    pub waits: f64,
    pub wakeups: f64,
}

/// A process.
#[derive(Debug, Serialize)]
pub struct Client {
    pub process: String,
    pub domain: String,
    pub pid: u32,
    pub user: String,
    pub command: Option<String>,
    pub state: &'static str,
    pub attaches: u32,
    pub waiting: u32,
    pub waits: f64,
    pub wakeups: f64,
}

/// A segment, a semaphore set or a queue.
#[derive(Debug, Serialize)]
pub struct Object {
    pub kind: &'static str,
    pub key: String,
    pub id: i32,
    pub owner: String,
    /// Since it was made; of a segment, since its slot was first used.
    pub count: u64,
    /// Operations, messages, or attaches and detaches.
    pub rate: f64,
    /// Of a queue, as estimated.
    pub bytes: Option<f64>,
    /// What it holds: messages, attaches, semaphores.
    pub holds: u64,
    pub waiting: u32,
}

/// A process that sleeps in a call.
#[derive(Debug, Serialize)]
pub struct Waiting {
    pub process: String,
    pub kind: &'static str,
    pub id: i32,
    /// What has to come.
    pub awaits: String,
    /// Who operated, sent or received there last.
    pub last: Option<String>,
}

impl Report {
    /// What has happened between two readings.
    pub fn between(before: &Reading, now: &Reading, pool: &Pool, sort: Sort) -> Self {
        let rates = Rates::between(before, now);
        let mut report = Self {
            pool: pool.name(),
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |at| at.as_secs_f64()),
            seconds: rates.seconds(),
            total: total(now, &rates),
            domains: domains(now, &rates),
            clients: clients(now, &rates),
            objects: objects(now, &rates),
            waiting: waiting(now),
            limits: limits::of(pool).unwrap_or_default(),
        };
        report.sort_by(sort);
        report
    }

    fn sort_by(&mut self, sort: Sort) {
        // Stable: what is alike stays in the order of the tables.
        match sort {
            Sort::Rate => {
                self.objects.sort_by(|one, other| other.rate.total_cmp(&one.rate));
                self.clients.sort_by(|one, other| other.waits.total_cmp(&one.waits));
                self.domains.sort_by(|one, other| other.waits.total_cmp(&one.waits));
            }
            Sort::Bytes => {
                let bytes = |row: &Object| row.bytes.unwrap_or(0.0);
                self.objects.sort_by(|one, other| bytes(other).total_cmp(&bytes(one)));
            }
            Sort::Waiting => {
                self.objects.sort_by_key(|row| std::cmp::Reverse(row.waiting));
                self.clients.sort_by_key(|row| std::cmp::Reverse(row.waiting));
                self.domains.sort_by_key(|row| std::cmp::Reverse(row.waiting));
            }
            Sort::Id => {
                self.objects.sort_by_key(|row| (row.kind, row.id));
                self.clients.sort_by(|one, other| one.process.cmp(&other.process));
                self.domains.sort_by(|one, other| one.name.cmp(&other.name));
            }
        }
    }
}

fn total(now: &Reading, rates: &Rates<'_>) -> Total {
    let mut total = Total::default();
    for object in &now.objects {
        let done = rates.done(object) as f64;
        match object.kind {
            Kind::Segment => total.attaches += done,
            Kind::Semaphore => total.operations += done,
            Kind::Queue => {
                total.messages += done;
                total.bytes += done * rates.mean_bytes(object.id).unwrap_or(0.0);
            }
        }
    }
    for thread in &now.threads {
        let (waits, wakeups) = rates.waits(thread);
        total.waits += f64::from(waits);
        total.wakeups += f64::from(wakeups);
    }
    let Total { operations, messages, bytes, attaches, waits, wakeups } = total;
    Total {
        operations: rates.per_second(operations),
        messages: rates.per_second(messages),
        bytes: rates.per_second(bytes),
        attaches: rates.per_second(attaches),
        waits: rates.per_second(waits),
        wakeups: rates.per_second(wakeups),
    }
}

/// Waits and wake-ups, and threads that wait now, of some threads.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    waits: f64,
    wakeups: f64,
    waiting: u32,
}

/// Those of each group of threads, in one pass: a pool may have thousands of threads and clients.
fn waits_by(
    now: &Reading,
    rates: &Rates<'_>,
    group_of: impl Fn(&ThreadActivity) -> Option<u32>,
) -> HashMap<u32, Waits> {
    let mut groups: HashMap<u32, Waits> = HashMap::new();
    for thread in &now.threads {
        let Some(group) = group_of(thread) else { continue };
        let (waits, wakeups) = rates.waits(thread);
        let sum = groups.entry(group).or_default();
        sum.waits += f64::from(waits);
        sum.wakeups += f64::from(wakeups);
        sum.waiting += u32::from(thread.wait.is_some());
    }
    groups
}

/// Client slot of the thread's owner.
fn client_slot(thread: &ThreadActivity) -> Option<u32> {
    thread.client.and_then(vshmem_wire::ClientId::slot)
}

fn domains(now: &Reading, rates: &Rates<'_>) -> Vec<Domain> {
    let participants = &now.view.participants;
    let domains: HashMap<u32, u32> =
        participants.clients.iter().map(|row| (row.index, row.domain)).collect();
    let groups = waits_by(now, rates, |thread| domains.get(&client_slot(thread)?).copied());
    let row = |domain: &vshmem_ipc::DomainRow| {
        let line = now.view.domain(domain);
        let Waits { waits, wakeups, waiting } =
            groups.get(&domain.index).copied().unwrap_or_default();
        let (waits, wakeups) = (rates.per_second(waits), rates.per_second(wakeups));
        Domain {
            index: line.index,
            name: line.name,
            state: line.state,
            clients: line.clients,
            here: line.here,
            waiting,
            waits,
            wakeups,
        }
    };
    participants.domains.iter().map(row).collect()
}

fn clients(now: &Reading, rates: &Rates<'_>) -> Vec<Client> {
    let groups = waits_by(now, rates, client_slot);
    let row = |client: &vshmem_ipc::ClientRow| {
        let line = now.view.client(client);
        let Waits { waits, wakeups, waiting } =
            groups.get(&client.index).copied().unwrap_or_default();
        let (waits, wakeups) = (rates.per_second(waits), rates.per_second(wakeups));
        Client {
            process: line.process,
            domain: line.domain,
            pid: line.pid,
            user: line.user,
            command: line.command,
            state: line.state,
            attaches: line.attaches,
            waiting,
            waits,
            wakeups,
        }
    };
    now.view.participants.clients.iter().map(row).collect()
}

fn objects(now: &Reading, rates: &Rates<'_>) -> Vec<Object> {
    let key = |kind: Kind, id: i32| (kind as u32, id);
    let entries: HashMap<_, &ObjectDetails> =
        now.entries.iter().map(|entry| (key(entry.kind, entry.id), entry)).collect();
    let mut waiting_at: HashMap<_, u32> = HashMap::new();
    for wait in now.threads.iter().filter_map(|thread| thread.wait.as_ref()) {
        *waiting_at.entry(key(wait.kind, wait.id)).or_default() += 1;
    }
    let mut rows = Vec::new();
    for activity in &now.objects {
        let object = key(activity.kind, activity.id);
        // One that has been made or removed between the two tables is for the next time.
        let Some(entry) = entries.get(&object) else { continue };
        let common = View::common(entry);
        let done = rates.done(activity) as f64;
        let bytes = match activity.kind {
            Kind::Queue => rates.mean_bytes(activity.id).map(|mean| rates.per_second(done * mean)),
            _ => None,
        };
        rows.push(Object {
            kind: noun_of(entry),
            key: common.key,
            id: activity.id,
            owner: common.owner,
            count: activity.count,
            rate: rates.per_second(done),
            bytes,
            holds: match entry.particulars {
                Particulars::Segment { attached, .. } => attached.into(),
                Particulars::Semaphore { count, .. } | Particulars::Queue { count, .. } => {
                    count.into()
                }
            },
            waiting: waiting_at.get(&object).copied().unwrap_or_default(),
        });
    }
    rows
}

fn waiting(now: &Reading) -> Vec<Waiting> {
    let participants = &now.view.participants;
    let row = |thread: &ThreadActivity| {
        let wait = thread.wait?;
        Some(Waiting {
            process: participants.client(client_slot(thread)?),
            kind: noun(wait.kind),
            id: wait.id,
            awaits: match wait.awaited {
                Awaited::Semaphore { number, zero: true } => format!("semaphore {number} is 0"),
                Awaited::Semaphore { number, zero: false } => format!("semaphore {number} rises"),
                Awaited::Message => "a message".to_owned(),
                Awaited::Room => "room for a message".to_owned(),
                Awaited::Address { offset } => format!("the lock at {offset:#x}"),
            },
            last: wait.last.map(|last| participants.process(last.domain, last.pid)),
        })
    };
    now.threads.iter().filter_map(row).collect()
}

/// What an object is in a word: a POSIX one as `vshmem run --share` calls it.
pub fn noun_of(entry: &ObjectDetails) -> &'static str {
    match (entry.kind, &entry.found_by) {
        (kind, FoundBy::Key) => noun(kind),
        (Kind::Queue, _) => "mq",
        _ => "posix-shm",
    }
}

/// A kind of object in a word.
pub fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Segment => "segment",
        Kind::Semaphore => "semaphore",
        Kind::Queue => "queue",
    }
}
