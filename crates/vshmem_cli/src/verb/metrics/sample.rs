//! The samples of one pool.

use std::collections::{BTreeMap, HashMap};

use vshmem_ipc::{Kind, ObjectActivity, ObjectDetails, Particulars, Pool};
use vshmem_wire::DomainState;

use super::exposition::{Exposition, Family, Type};
use crate::failure::{Failure, unreadable};
use crate::pool::Participants;
use crate::verb::ls::limits;
use crate::verb::ls::view::View;
use crate::verb::top::{noun, noun_of};

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: Type::Counter }
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: Type::Gauge }
}

const READABLE: Family =
    gauge("vshmem_pool_readable", "1 for a pool that could be read, 0 for one that could not.");
const SIZE: Family = gauge("vshmem_pool_bytes", "Bytes that segments of the pool can have in all.");
const USED: Family = gauge("vshmem_pool_used_bytes", "Bytes that segments of the pool have.");
const LIMIT: Family =
    gauge("vshmem_pool_limit", "A limit of the pool, as `pool create --limit` names it.");
const LIMIT_USED: Family = gauge("vshmem_pool_limit_used", "How much of the limit is used.");
const OBJECTS: Family = gauge("vshmem_pool_objects", "Objects in the pool.");
const WAITS: Family =
    counter("vshmem_pool_waits_total", "Times that a thread has entered a wait queue.");
const WAKEUPS: Family =
    counter("vshmem_pool_wakeups_total", "Times that another thread has ended such a wait.");
const LEFT: Family = gauge(
    "vshmem_pool_left_programs",
    "Programs that have left the pool: the library was not loaded into them.",
);
const ALIVE: Family = gauge(
    "vshmem_domain_alive",
    "1 for a domain that takes part, 0 for one that is dead or evicted.",
);
const CLIENTS: Family =
    gauge("vshmem_domain_clients", "Processes of the domain that use the pool.");
const DOMAIN_WAITING: Family =
    gauge("vshmem_domain_waiting_threads", "Threads of the domain that wait.");
const OPERATIONS: Family = counter(
    "vshmem_semaphore_operations_total",
    "Operations on the semaphore set, one for each semaphore of an array.",
);
const SENT: Family = counter("vshmem_queue_messages_total", "Messages sent to the queue.");
const ATTACHES: Family = counter(
    "vshmem_segment_attaches_total",
    "Attaches and detaches of segments in this slot of the pool.",
);
const QUEUED: Family = gauge("vshmem_queue_messages", "Messages in the queue.");
const QUEUED_BYTES: Family = gauge("vshmem_queue_bytes", "Bytes of the messages in the queue.");
const MEAN: Family = gauge(
    "vshmem_queue_message_bytes_mean",
    "Mean bytes of the messages of the queue that can be seen.",
);
const SEGMENT_BYTES: Family = gauge("vshmem_segment_bytes", "Bytes of the segment.");
const ATTACHED: Family = gauge("vshmem_segment_attached", "Attaches of the segment.");
const WAITING: Family = gauge("vshmem_object_waiting_threads", "Threads that wait at the object.");

/// Whether a pool could be read.
pub fn readable(name: &str, is_readable: bool, to: &mut Exposition) {
    to.add(READABLE, &[("pool", name)], f64::from(u8::from(is_readable)));
}

/// Adds the samples of a pool, under this name.
pub fn add(pool: &Pool, name: &str, to: &mut Exposition) -> Result<(), Failure> {
    let view = View { participants: Participants::of(pool)?, waiters: Vec::new() };
    let threads = pool.thread_activities().map_err(unreadable(name))?;
    let usage = pool.usage().map_err(unreadable(name))?;
    let labels = [("pool", name)];
    to.add(SIZE, &labels, pool.geometry().pages as f64 * vshmem_wire::PAGE_BYTES as f64);
    to.add(USED, &labels, usage.bytes as f64);
    for kind in [Kind::Segment, Kind::Semaphore, Kind::Queue] {
        let labels = [("pool", name), ("kind", noun(kind))];
        to.add(OBJECTS, &labels, usage.objects[kind as usize].into());
    }
    for line in limits::of(pool)? {
        let labels = [("pool", name), ("limit", line.name)];
        to.add(LIMIT, &labels, line.limit as f64);
        to.add(LIMIT_USED, &labels, line.used as f64);
    }
    to.add(WAITS, &labels, threads.iter().map(|thread| f64::from(thread.waits)).sum());
    to.add(WAKEUPS, &labels, threads.iter().map(|thread| f64::from(thread.wakeups)).sum());
    let mut left: BTreeMap<String, u32> = BTreeMap::new();
    for program in vshmem_link::left_programs(&pool.superblock().uuid) {
        *left.entry(program.why).or_default() += 1;
    }
    for (why, count) in &left {
        to.add(LEFT, &[("pool", name), ("why", why.as_str())], f64::from(*count));
    }
    let waiting: Vec<_> = threads.iter().filter(|thread| thread.wait.is_some()).collect();
    for domain in &view.participants.domains {
        let line = view.domain(domain);
        let slot = domain.index.to_string();
        // Several domains may have had the same name.
        let labels = [("pool", name), ("domain", line.name.as_str()), ("slot", slot.as_str())];
        to.add(ALIVE, &labels, f64::from(u8::from(domain.state == DomainState::Alive)));
        to.add(CLIENTS, &labels, line.clients as f64);
        let clients = &view.participants.clients;
        let is_of = |slot: Option<u32>| {
            clients.iter().any(|row| Some(row.index) == slot && row.domain == domain.index)
        };
        let slots =
            waiting.iter().map(|thread| thread.client.and_then(vshmem_wire::ClientId::slot));
        to.add(DOMAIN_WAITING, &labels, slots.filter(|slot| is_of(*slot)).count() as f64);
    }
    // Counted once: with as many objects as a pool may have, each with each takes minutes.
    let activities = pool.object_activities().map_err(unreadable(name))?;
    let activities: HashMap<(u32, i32), &ObjectActivity> =
        activities.iter().map(|row| ((row.kind as u32, row.id), row)).collect();
    let mut waiting_at: HashMap<(u32, i32), usize> = HashMap::new();
    for wait in threads.iter().filter_map(|thread| thread.wait.as_ref()) {
        *waiting_at.entry((wait.kind as u32, wait.id)).or_default() += 1;
    }
    for kind in [Kind::Segment, Kind::Semaphore, Kind::Queue] {
        for entry in &pool.entries(kind).map_err(unreadable(name))? {
            let key = (kind as u32, entry.id);
            if let Some(activity) = activities.get(&key) {
                let waiting = waiting_at.get(&key).copied().unwrap_or_default();
                object(to, name, entry, activity, waiting);
            }
        }
    }
    Ok(())
}

fn object(
    to: &mut Exposition,
    pool: &str,
    entry: &ObjectDetails,
    activity: &ObjectActivity,
    waiting: usize,
) {
    let (id, key) = (entry.id.to_string(), View::common(entry).key);
    let labels =
        [("pool", pool), ("kind", noun_of(entry)), ("id", id.as_str()), ("key", key.as_str())];
    let count = activity.count as f64;
    match entry.particulars {
        Particulars::Segment { bytes, attached, .. } => {
            to.add(ATTACHES, &labels, count);
            to.add(SEGMENT_BYTES, &labels, bytes as f64);
            to.add(ATTACHED, &labels, attached.into());
        }
        Particulars::Semaphore { .. } => to.add(OPERATIONS, &labels, count),
        Particulars::Queue { bytes, count: queued, .. } => {
            to.add(SENT, &labels, count);
            to.add(QUEUED, &labels, queued.into());
            to.add(QUEUED_BYTES, &labels, bytes.into());
            if activity.messages_seen > 0 {
                let mean = activity.bytes_seen as f64 / f64::from(activity.messages_seen);
                to.add(MEAN, &labels, mean);
            }
        }
    }
    to.add(WAITING, &labels, waiting as f64);
}
