//! A small pool in the middle of its life, as bytes: clients of three domains, objects of all
//! kinds, and waiters in every wait queue.

use std::sync::Arc;
use std::time::Duration;

use vshmem_ipc::{Client, Pool};
use vshmem_mem::Map;
use vshmem_wire::{Geometry, PAGE_BYTES};

use super::fixture::*;

/// Keys of the segment, set and queue that have one.
pub const KEY: i32 = 77;

/// The bytes of a pool, and the ids in it.
pub struct Setup {
    bytes: Vec<u8>,
    pub segments: [i32; 2],
    pub sets: [i32; 2],
    pub queues: [i32; 4],
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
        let sets = [me.semget(KEY, 3, CREATE | 0o600, &ROOT).unwrap(), me.set(40)];
        me.op(sets[0], &[undone(by(2, 5))]).unwrap();
        far.op(sets[0], &[undone(by(2, 2)), undone(by(2, -1))]).unwrap();
        gone.op(sets[1], &[undone(up(39))]).unwrap();
        let queues =
            [me.msgget(KEY, CREATE | 0o600, &ROOT).unwrap(), me.queue(), me.queue(), me.queue()];
        fill_queues([&me, &peer, &far], &queues);
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
            until("all asleep", || asleep(&pool) == 9);
            bytes.resize(pool.map().bytes() as usize, 0);
            pool.map().read(0, &mut bytes).unwrap();
            for set in sets {
                me.set_remove(set, &ROOT).unwrap();
            }
            for queue in queues {
                me.queue_remove(queue, &ROOT).unwrap();
            }
        });
        Self { bytes, segments, sets, queues }
    }

    /// The pool as it was, in memory of its own.
    pub fn lay_out(&self) -> Arc<Pool> {
        let map = Map::anonymous(self.bytes.len());
        map.write(0, &self.bytes).unwrap();
        Arc::new(Pool::open(Arc::new(map), self.bytes.len() as u64).unwrap())
    }

    /// The pool as it was, once more in the same memory.
    pub fn restore(&self, pool: &Pool) {
        pool.map().write(0, &self.bytes).unwrap();
    }
}

/// A member of the pool, if it will have one.
pub fn newcomer(pool: &Arc<Pool>, name: &str, pid: u32) -> Option<Client> {
    use vshmem_ipc::WakeScope;
    Client::join(Arc::clone(pool), &domain(name), process(pid), None, WakeScope::Kernel).ok()
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
pub const SHORT: Duration = Duration::from_micros(300);
