//! A small pool in the middle of its life, as bytes: clients of three domains, objects of all
//! kinds, and waiters in every wait queue.

use std::sync::Arc;
use std::time::Duration;

use vshmem_ipc::{Client, Pool, PosixOpen, QueueOpen, QueueSize, Wait};
use vshmem_mem::{Map, signals_handled};
use vshmem_wire::{Geometry, PAGE_BYTES};

use super::fixture::*;

/// Keys of the segment, set and queue that have one.
pub const KEY: i32 = 77;

/// Name of the POSIX object that has one.
pub const NAME: &[u8] = b"a name of some bytes";

/// How POSIX objects are opened.
pub const BOTH: PosixOpen = PosixOpen {
    read: true,
    write: true,
    create: false,
    exclusive: false,
    truncate: false,
    mode: 0o600,
};
/// And made.
pub const MAKE: PosixOpen = PosixOpen { create: true, ..BOTH };

/// How POSIX queues are opened or made.
pub const QUEUE: QueueOpen = QueueOpen {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    mode: 0o600,
    size: Ok(QueueSize::DEFAULT),
};

/// The bytes of a pool, and the ids in it.
pub struct Setup {
    bytes: Vec<u8>,
    pub segments: [i32; 2],
    /// POSIX objects: [`NAME`], and one that has been unlinked.
    pub objects: [i32; 2],
    pub sets: [i32; 2],
    pub queues: [i32; 4],
    /// POSIX queues: [`NAME`], with messages in its list, and one with messages in its ring.
    pub posix_queues: [i32; 2],
}

fn tiny() -> Geometry {
    Geometry {
        shmmni: 6,
        semmni: 6,
        msgmni: 6,
        domains: 4,
        clients: 10,
        threads: 24,
        attaches: 16,
        undos: 8,
        futexes: 3,
        locks: 8,
        slabs: 10,
        semmsl: 700,
        msgmnb: 4096,
        pages: 24,
        ..small()
    }
}

impl Setup {
    pub fn new() -> Self {
        let pool = pool_of(tiny());
        let (me, peer) = (join(&pool, 10), join(&pool, 11));
        let (far, gone) = (join_in(&pool, "b", 20), join_in(&pool, "c", 30));
        let segments = [
            me.segment(KEY, 3 * PAGE_BYTES, CREATE).unwrap(),
            me.segment(PRIVATE, PAGE_BYTES, 0).unwrap(),
        ];
        for this_client in [&me, &peer, &gone] {
            this_client.shmat(segments[0], true, false, &ROOT).unwrap();
        }
        far.shmat(segments[1], true, false, &ROOT).unwrap();
        me.segment_remove(segments[1], &ROOT).unwrap();
        let objects = name_objects(&me, &far, &gone);
        let sets = [me.semget(KEY, 3, CREATE | 0o600, &ROOT).unwrap(), me.set(40)];
        me.op(sets[0], &[undone(by(2, 5))]).unwrap();
        far.op(sets[0], &[undone(by(2, 2)), undone(by(2, -1))]).unwrap();
        gone.op(sets[1], &[undone(up(39))]).unwrap();
        let queues =
            [me.msgget(KEY, CREATE | 0o600, &ROOT).unwrap(), me.queue(), me.queue(), me.queue()];
        fill_queues([&me, &peer, &far], &queues);
        let posix_queues = make_posix_queues(&me, &far, &gone);
        let freed = me.segment(PRIVATE, 2 * PAGE_BYTES, 0).unwrap();
        me.segment_remove(freed, &ROOT).unwrap();
        me.reserve_child().unwrap();
        me.evict_domain(gone.domain()).unwrap();
        let mut bytes = Vec::new();
        std::thread::scope(|scope| {
            let long: Vec<_> = (0..12).map(down).collect();
            for (who, set, operations) in [
                (&peer, sets[0], vec![down(0)]),
                (&far, sets[0], vec![undone(down(1)), up(0)]),
                (&peer, sets[0], vec![zero(2), up(1)]),
                (&me, sets[1], long),
            ] {
                scope.spawn(move || who.op(set, &operations));
            }
            for (who, kind) in [(&peer, 5), (&far, -2), (&peer, 0)] {
                scope.spawn(move || who.receive(queues[1], kind));
            }
            scope.spawn(|| peer.send(queues[0], 9, &[9; 100]));
            scope.spawn(|| peer.receive(queues[2], 9));
            scope.spawn(|| me.mq_await_first_message(posix_queues[0], 0, &mut || {}));
            for (who, word) in [(&peer, 3), (&far, 3), (&peer, 4)] {
                let offset = address(&pool, word);
                scope.spawn(move || who.futex_wait(offset, &mut || true, None, signals_handled()));
            }
            until("all asleep", || asleep(&pool) == 13);
            bytes.resize(pool.map().bytes() as usize, 0);
            pool.map().read(0, &mut bytes).unwrap();
            me.mq_unregister(posix_queues[0]).unwrap();
            remove_all(&me, &sets, &queues);
            for word in [3, 4] {
                me.futex_wake(address(&pool, word), u32::MAX).unwrap();
            }
        });
        Self { bytes, segments, objects, sets, queues, posix_queues }
    }

    /// The pool as it was, in memory of its own.
    pub fn lay_out(&self) -> Arc<Pool> {
        let map = Map::anonymous(self.bytes.len());
        map.write(0, &self.bytes).unwrap();
        Arc::new(Pool::open(Arc::new(map), self.bytes.len() as u64).unwrap())
    }

    /// The pool as it was, once more in the same memory: pages that differ are written.
    pub fn restore(&self, pool: &Pool) {
        let mut page = [0; PAGE_BYTES as usize];
        for (nth, before) in self.bytes.chunks(page.len()).enumerate() {
            let at = nth as u64 * PAGE_BYTES;
            let now = &mut page[..before.len()];
            pool.map().read(at, now).unwrap();
            if now != before {
                pool.map().write(at, before).unwrap();
            }
        }
    }
}

/// Where a word of a segment may lie.
pub fn address(pool: &Pool, word: u64) -> u64 {
    pool.layout().data.offset() + word * 8
}

/// A member of the pool, if it will have one.
pub fn newcomer(pool: &Arc<Pool>, name: &str, pid: u32) -> Option<Client> {
    use vshmem_ipc::WakeScope;
    Client::join(Arc::clone(pool), &domain(name), process(pid), None, WakeScope::Kernel).ok()
}

/// One that all have open and one has attached, and one that lives by that alone.
fn name_objects(me: &Client, far: &Client, gone: &Client) -> [i32; 2] {
    let backing = &Zeroing(me.pool());
    let open = |who: &Client, name: &[u8]| who.posix_shm_open(name, MAKE, &ROOT, backing).unwrap();
    let objects = [open(me, NAME), open(far, b"gone")];
    me.posix_shm_set_size(objects[0], PAGE_BYTES + 100, backing).unwrap();
    far.posix_shm_set_size(objects[1], 100, backing).unwrap();
    for who in [far, gone] {
        open(who, NAME);
    }
    far.posix_shm_attach(objects[0]).unwrap();
    far.posix_shm_unlink(b"gone", &ROOT).unwrap();
    objects
}

/// One that all have open, and one that has been unlinked.
fn make_posix_queues(me: &Client, far: &Client, gone: &Client) -> [i32; 2] {
    let open = |who: &Client, name: &[u8]| who.mq_open(name, &QUEUE, &ROOT).unwrap();
    let queues = [open(me, NAME), open(far, b"gone")];
    for who in [far, gone] {
        open(who, NAME);
    }
    for priority in [1, 0, 7, 1] {
        far.mq_send(queues[0], &[3; 60], priority, Wait::Never).unwrap();
        me.mq_send(queues[1], &[4; 60], 0, Wait::Never).unwrap();
    }
    far.mq_unlink(b"gone", &ROOT).unwrap();
    queues
}

/// Those who wait at them go on.
fn remove_all(me: &Client, sets: &[i32], queues: &[i32]) {
    for set in sets {
        me.set_remove(*set, &ROOT).unwrap();
    }
    for queue in queues {
        me.queue_remove(*queue, &ROOT).unwrap();
    }
}

fn fill_queues([me, peer, far]: [&Client; 3], queues: &[i32; 4]) {
    me.queue_change(queues[0], 0, 0, 0o600, 256, &ROOT).unwrap();
    for kind in 1..=4 {
        me.send(queues[0], kind, &[kind as u8; 60]).unwrap();
    }
    peer.send(queues[2], 3, b"three").unwrap();
    // In the ring: messages of two domains, and chunks that are kept for the next.
    for (sender, kind) in [(me, 6), (far, 3), (peer, 2), (far, 1), (me, 3)] {
        sender.send(queues[3], kind, &[kind as u8; 90]).unwrap();
    }
    peer.receive(queues[3], 0).unwrap();
    me.receive(queues[3], 0).unwrap();
}

/// How long those wait that no other thread wakes.
pub const SHORT: Duration = Duration::from_nanos(if cfg!(fuzzing) { 1 } else { 300_000 });
