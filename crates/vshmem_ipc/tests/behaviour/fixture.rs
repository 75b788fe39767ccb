//! A pool in memory, and members of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vshmem_ipc::{
    Backing, Caller, Client, DomainIdentity, Errno, Finding, Kind, NewPool, Operation, Pool,
    PoolSpace, Process, Receive, Severity, WAIT_WORDS_BEYOND, WaitFile, WakeScope,
};
use vshmem_mem::Map;
use vshmem_sync::load_word;
use vshmem_wire::{Geometry, MsgSlot, NODE_RANGES, NodeRange, QueueMode, RING_SLOTS, field};

pub const CREATE: i32 = 0o1000;
pub const EXCLUSIVE: i32 = 0o2000;
pub const PRIVATE: i32 = 0;

/// A caller by user id.
#[derive(Debug, Clone, Copy)]
pub struct User(pub u32);

pub const ROOT: User = User(0);

impl Caller for User {
    fn uid(&self) -> u32 {
        self.0
    }
    fn gid(&self) -> u32 {
        self.0
    }
    fn in_group(&self, gid: u32) -> bool {
        gid == self.0
    }
    fn owns_all(&self) -> bool {
        self.0 == 0
    }
    fn administers(&self) -> bool {
        self.0 == 0
    }
    fn unlimited(&self) -> bool {
        self.0 == 0
    }
    fn overrides_modes(&self) -> bool {
        self.0 == 0
    }
    fn acts_as_owner(&self) -> bool {
        self.0 == 0
    }
    fn changes_owners(&self) -> bool {
        self.0 == 0
    }
}

/// Zeroes what is dirty.
pub struct Zeroing<'a>(pub &'a Pool);

impl Backing for Zeroing<'_> {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        if dirty {
            self.0.map().zero(offset, bytes as usize).map_err(|_| Errno::NOMEM)?;
        }
        Ok(())
    }

    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        self.prepare(offset, bytes, true)
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Errno> {
        let mut pages = vec![0; bytes as usize];
        self.0.map().read(from, &mut pages).map_err(|_| Errno::NOMEM)?;
        self.0.map().write(to, &pages).map_err(|_| Errno::NOMEM)
    }
}

/// Cannot back anything.
pub struct Broke;

impl Backing for Broke {
    fn prepare(&self, _: u64, _: u64, _: bool) -> Result<(), Errno> {
        Err(Errno::NOSPC)
    }
}

pub fn small() -> Geometry {
    Geometry {
        shmmni: 16,
        semmni: 16,
        msgmni: 16,
        domains: 4,
        clients: 16,
        threads: 64,
        attaches: 64,
        undos: 32,
        slabs: 24,
        semmsl: 32000,
        semmns: 1_024_000_000,
        semopm: 500,
        semvmx: 32767,
        msgmax: 8192,
        msgmnb: 16384,
        shmmin: 1,
        shmmax: u64::MAX - (1 << 24),
        shmall: u64::MAX - (1 << 24),
        futexes: 8,
        locks: 48,
        pages: 256,
    }
}

/// As few of everything as the tests that Miri runs need: to check tables takes it minutes.
fn tiny() -> Geometry {
    Geometry {
        shmmni: 4,
        semmni: 4,
        msgmni: 4,
        domains: 2,
        clients: 4,
        threads: 8,
        attaches: 8,
        undos: 8,
        slabs: 6,
        pages: 32,
        ..small()
    }
}

pub fn pool_of(geometry: Geometry) -> Arc<Pool> {
    pool_that_prepares(geometry, 0)
}

/// A pool that keeps so many bytes of free pages clean.
pub fn pool_that_prepares(geometry: Geometry, prepare: u64) -> Arc<Pool> {
    pool_on_nodes(geometry, prepare, [NodeRange::NONE; NODE_RANGES])
}

/// What the tests' pools are made with.
pub fn new_pool(geometry: Geometry) -> NewPool {
    NewPool {
        name: "test".to_owned(),
        uuid: [7; 16],
        geometry,
        owner_uid: 0,
        mode: 0o600,
        created: 1,
        evict_after: 0,
        prepare: 0,
        backed: false,
        node_ranges: [NodeRange::NONE; NODE_RANGES],
        signing_key: 7,
    }
}

/// A pool whose data pages lie on nodes.
pub fn pool_on_nodes(
    geometry: Geometry,
    prepare: u64,
    node_ranges: [NodeRange; NODE_RANGES],
) -> Arc<Pool> {
    let bytes = geometry.layout().expect("a layout").total_bytes;
    let map = Map::anonymous(bytes as usize);
    let new = NewPool { prepare, node_ranges, ..new_pool(geometry) };
    Pool::format(&map, &new).expect("a pool");
    Arc::new(Pool::open(Arc::new(map), bytes).expect("an open pool"))
}

pub fn pool() -> Arc<Pool> {
    pool_of(if cfg!(miri) { tiny() } else { small() })
}

/// A domain of a kernel of its own.
pub fn domain(name: &str) -> DomainIdentity {
    let mut boot_id = [1; 16];
    for (byte, letter) in boot_id.iter_mut().zip(name.bytes()) {
        *byte = letter;
    }
    DomainIdentity { boot_id, pid_namespace: 1, born: 0, name: name.to_owned(), named: false }
}

pub fn process(pid: u32) -> Process {
    Process { pid, start: u64::from(pid) + (5 << 32), uid: 0 }
}

pub fn join_in(pool: &Arc<Pool>, name: &str, pid: u32) -> Client {
    Client::join(Arc::clone(pool), &domain(name), process(pid), None, WakeScope::Kernel)
        .expect("a place in the pool")
}

/// A member in the domain "a".
pub fn join(pool: &Arc<Pool>, pid: u32) -> Client {
    join_in(pool, "a", pid)
}

/// Waits for a state. Never for a time: the bound only ends a test that has failed. Miri takes a
/// thousand times as long for everything.
pub fn until(what: &str, mut there: impl FnMut() -> bool) {
    const MOST: Duration = Duration::from_secs(if cfg!(miri) { 3600 } else { 120 });
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < MOST, "never came: {what}");
        std::thread::yield_now();
    }
}

pub fn up(number: u16) -> Operation {
    Operation { number, change: 1, no_wait: false, undo: false }
}

pub fn down(number: u16) -> Operation {
    Operation { number, change: -1, no_wait: false, undo: false }
}

pub fn zero(number: u16) -> Operation {
    Operation { number, change: 0, no_wait: false, undo: false }
}

pub fn by(number: u16, change: i16) -> Operation {
    Operation { number, change, no_wait: false, undo: false }
}

pub fn undone(operation: Operation) -> Operation {
    Operation { undo: true, ..operation }
}

pub fn now(operation: Operation) -> Operation {
    Operation { no_wait: true, ..operation }
}

/// Shorter calls, as root.
pub trait Calls {
    fn segment(&self, key: i32, size: u64, flags: i32) -> Result<i32, Errno>;
    fn set(&self, count: i32) -> i32;
    fn queue(&self) -> i32;
    fn op(&self, id: i32, operations: &[Operation]) -> Result<(), Errno>;
    fn value(&self, id: i32, number: i32) -> u32;
    fn put(&self, id: i32, number: i32, value: i32);
    fn waiters(&self, id: i32, number: i32, zero: bool) -> u32;
    fn send(&self, id: i32, kind: i64, text: &[u8]) -> Result<(), Errno>;
    fn send_now(&self, id: i32, kind: i64, text: &[u8]) -> Result<(), Errno>;
    fn receive_as(&self, id: i32, wanted: Receive) -> Result<(i64, Vec<u8>), Errno>;
    fn receive(&self, id: i32, kind: i64) -> Result<(i64, Vec<u8>), Errno>;
    fn receive_now(&self, id: i32, kind: i64) -> Result<(i64, Vec<u8>), Errno>;
}

pub fn of_type(kind: i64) -> Receive {
    Receive { mtype: kind, room: 8192, no_wait: false, cut: false, except: false, copy: false }
}

impl Calls for Client {
    fn segment(&self, key: i32, size: u64, flags: i32) -> Result<i32, Errno> {
        self.shmget(key, size, flags | 0o600, &ROOT, &Zeroing(self.pool()))
    }

    fn set(&self, count: i32) -> i32 {
        self.semget(PRIVATE, count, 0o600, &ROOT).expect("a set")
    }

    fn queue(&self) -> i32 {
        self.msgget(PRIVATE, 0o600, &ROOT).expect("a queue")
    }

    fn op(&self, id: i32, operations: &[Operation]) -> Result<(), Errno> {
        self.semop(id, operations, None, &ROOT)
    }

    fn value(&self, id: i32, number: i32) -> u32 {
        self.semaphore_value(id, number, &ROOT).expect("a value")
    }

    fn put(&self, id: i32, number: i32, value: i32) {
        self.set_semaphore(id, number, value, &ROOT).expect("SETVAL")
    }

    fn waiters(&self, id: i32, number: i32, zero: bool) -> u32 {
        self.semaphore_waiters(id, number, zero, &ROOT).expect("a count")
    }

    fn send(&self, id: i32, kind: i64, text: &[u8]) -> Result<(), Errno> {
        if self.msgsnd_at_once(id, kind, text, &ROOT) {
            return Ok(());
        }
        self.msgsnd(id, kind, text, false, &ROOT)
    }

    fn send_now(&self, id: i32, kind: i64, text: &[u8]) -> Result<(), Errno> {
        self.msgsnd(id, kind, text, true, &ROOT)
    }

    fn receive_as(&self, id: i32, wanted: Receive) -> Result<(i64, Vec<u8>), Errno> {
        let mut got = (0, Vec::new());
        self.msgrcv(id, wanted, &ROOT, &mut |kind, size, copy| {
            let mut text = vec![0; size];
            copy(&mut text);
            got = (kind, text);
            Ok(size)
        })?;
        Ok(got)
    }

    fn receive(&self, id: i32, kind: i64) -> Result<(i64, Vec<u8>), Errno> {
        let mut got = (0, Vec::new());
        let deliver = |kind: i64, text: &[u8]| got = (kind, text.to_vec());
        if self.msgrcv_at_once(id, of_type(kind), &ROOT, |_| true, deliver).is_some() {
            return Ok(got);
        }
        self.receive_as(id, of_type(kind))
    }

    fn receive_now(&self, id: i32, kind: i64) -> Result<(i64, Vec<u8>), Errno> {
        self.receive_as(id, Receive { no_wait: true, ..of_type(kind) })
    }
}

/// Threads that sleep anywhere in the pool.
pub fn asleep(pool: &Pool) -> usize {
    pool.waiters().expect("a list").len()
}

pub fn room(pool: &Pool) -> PoolSpace {
    pool.space().expect("a count")
}

/// Asserts that the pool has nothing to complain about, once those who are in the middle of a
/// change have come to its end: who is listed as a waiter may be still at it.
pub fn sound(pool: &Pool) {
    let mut findings: Vec<Finding> = Vec::new();
    until("the end of every change", || {
        findings = pool.check().expect("a look");
        findings.iter().all(|finding| finding.severity != Severity::Unfinished)
    });
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Asserts that nothing is left: `last` reaps all others, and then itself.
pub fn empty(pool: &Arc<Pool>, last: &Client) {
    sound(pool);
    for row in pool.clients().expect("a list") {
        if row.index != last.client_slot() {
            last.reap(row.id).expect("reaping");
        }
    }
    last.reap(last.client_id()).expect("reaping");
    sound(pool);
    let room = room(pool);
    assert_eq!(room.pages_used, 0, "{room:?}");
    assert_eq!(room.free_extents, 1, "{room:?}");
    assert_eq!(room.largest_free, pool.geometry().pages, "{room:?}");
    assert_eq!(room.chunks_in_objects, 0, "{room:?}");
    assert_eq!(room.chunks_held, 0, "{room:?}");
    assert_eq!(room.threads, 0, "{room:?}");
}

/// A guest: a domain with wait words of its own.
pub struct Guest {
    pub pool: Arc<Pool>,
    pub name: &'static str,
    pub words: Arc<Map>,
}

impl Guest {
    pub fn new(pool: &Arc<Pool>, name: &'static str) -> Self {
        let words = small().threads + WAIT_WORDS_BEYOND;
        Self { pool: Arc::clone(pool), name, words: Arc::new(Map::anonymous(words as usize * 4)) }
    }

    pub fn join(&self, pid: u32) -> Client {
        let words = Some(WaitFile::of_one_user(Arc::clone(&self.words)));
        Client::join(self.pool.clone(), &domain(self.name), process(pid), words, WakeScope::Domain)
            .expect("a place in the pool")
    }
}

/// Whether a queue uses its long ring.
pub fn uses_long_ring(client: &Client, id: i32) -> bool {
    let pool = client.pool();
    let rows = pool.objects(Kind::Queue).expect("a list");
    let row = rows.into_iter().find(|row| client.id_of(*row) == Ok(id)).expect("a queue");
    let slot = pool.layout().msg.at(row.index).expect("a slot");
    let mode = load_word(pool.map(), field!(slot, MsgSlot, mode)).expect("a word");
    mode & 3 == QueueMode::LongRing as u64
}

/// Sends to an empty queue more than its ring has slots for and receives that, until the queue uses
/// its long ring.
pub fn lengthen_ring(client: &Client, id: i32) {
    for _ in 0..50_000 {
        if uses_long_ring(client, id) {
            return;
        }
        for _ in 0..=RING_SLOTS {
            client.send(id, 1, b"deep").expect("a message sent");
        }
        for _ in 0..=RING_SLOTS {
            client.receive(id, 0).expect("a message");
        }
    }
    panic!("queue {id} does not come to use its long ring");
}
