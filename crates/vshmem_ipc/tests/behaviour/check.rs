//! The check itself: it finds what is wrong, and survives garbage.

use crate::fixture::*;
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;
use vshmem_ipc::{Client, Pool, Severity};
use vshmem_mem::Ordering;
use vshmem_wire::{
    ExtentSlot, MsgSlot, Place, RawCell, SemSlot, ShmSlot, SlabMeta, UnitMeta, field,
};

/// A pool with a bit of everything in it.
fn busy() -> (std::sync::Arc<Pool>, Client) {
    let pool = pool();
    let me = join(&pool, 10);
    let segment = me.segment(1, 5000, CREATE).unwrap();
    me.shmat(segment, true, false, &ROOT).unwrap();
    me.segment(2, 4096, CREATE).unwrap();
    let set = me.semget(3, 5, CREATE | 0o600, &ROOT).unwrap();
    me.op(set, &[undone(up(2)), up(1)]).unwrap();
    let queue = me.msgget(4, CREATE | 0o600, &ROOT).unwrap();
    for n in 0..4 {
        me.send(queue, n + 2, &[7; 200]).unwrap();
    }
    // The lowest of several types is found in the list; the other queue uses its ring.
    assert_eq!(me.receive(queue, -3).unwrap().0, 2);
    let other = me.queue();
    for n in 0..2 {
        me.send(other, n + 1, &[8; 90]).unwrap();
    }
    (pool, me)
}

#[test]
fn a_busy_pool_is_sound() {
    let (pool, _me) = busy();
    sound(&pool);
}

#[test]
fn a_client_of_a_dead_domain_is_unfinished() {
    let (pool, _me) = busy();
    // Domain 0 says that it is dead, and its client is still there.
    let state = pool.layout().domains.offset();
    let word = pool.map().load(state, Ordering::Relaxed).unwrap();
    pool.map().store(state, (word & !0xffff_ffff) | 2, Ordering::Relaxed).unwrap();
    let findings = pool.check().unwrap();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].severity, Severity::Unfinished);
}

#[test]
fn most_single_changes_of_a_table_are_noticed() {
    let (pool, _me) = busy();
    let layout = pool.layout();
    let [first, second] = [0, 1].map(|index| layout.msg.at(index).unwrap());
    let (segment, set) = (layout.shm.at(0).unwrap(), layout.sem.at(0).unwrap());
    let (attach, undo) = (layout.attaches.at(0).unwrap(), layout.undos.at(0).unwrap());
    let extent = layout.extents.at(0).unwrap();
    let cells = [
        ("first free page bin", Place::<RawCell>::at(layout.registry.offset()).nth(24)),
        ("pages of a segment", field!(segment, ShmSlot, pages)),
        ("attaches of a segment", field!(segment, ShmSlot, attached)),
        ("count of a set", field!(set, SemSlot, count)),
        ("undo list of a set", field!(set, SemSlot, undos)),
        ("waiters of a set", field!(set, SemSlot, waiting)),
        ("bytes of a queue", field!(first, MsgSlot, bytes)),
        ("count of a queue", field!(first, MsgSlot, count)),
        ("first message", field!(first, MsgSlot, head)),
        ("last message", field!(first, MsgSlot, tail_or_reserve)),
        ("message in a ring", field!(second, MsgSlot, ring).first()),
        ("list beside a ring", field!(second, MsgSlot, head)),
        ("mode of a queue", field!(first, MsgSlot, mode)),
        ("place of a long ring", field!(first, MsgSlot, long_ring)),
        ("state of a segment", field!(segment, ShmSlot, header.state)),
        ("key of a set", field!(set, SemSlot, header.key)),
        ("attach record", Place::at(attach.offset())),
        ("undo record", Place::at(undo.offset())),
        ("length of the first extent", field!(extent, ExtentSlot, pages)),
        ("class of a slab", field!(layout.slab_meta.at(0).unwrap(), SlabMeta, class)),
        ("owner of a unit", field!(layout.unit_meta.at(0).unwrap(), UnitMeta, owner)),
    ];
    for (name, at) in cells {
        let word = pool.map().load(at.word(), Ordering::Relaxed).unwrap();
        pool.map().store(at.word(), word ^ 0x13, Ordering::Relaxed).unwrap();
        let findings = pool.check().unwrap();
        // The hint of the undo record is elsewhere: it may be a record that is not in use.
        if name != "undo record" {
            assert!(!findings.is_empty(), "not noticed: {name}");
        }
        pool.map().store(at.word(), word, Ordering::Relaxed).unwrap();
        sound(&pool);
    }
}

#[test]
fn clients_that_come_and_go_are_nothing_wrong() {
    const CHECKS: u32 = 400;
    let (pool, _me) = busy();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for pid in [20, 21] {
            let (pool, over) = (&pool, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let client = join(pool, pid);
                    let segment = client.segment(PRIVATE, 4096, 0).unwrap();
                    client.shmat(segment, true, false, &ROOT).unwrap();
                    client.segment_remove(segment, &ROOT).unwrap();
                    client.leave().unwrap();
                }
            });
        }
        let findings: Vec<_> = (0..CHECKS).flat_map(|_| pool.check().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        // A thread without a CPU for so long as a check takes is unfinished indeed.
        let is_wrong = |finding: &vshmem_ipc::Finding| finding.severity == Severity::Wrong;
        assert!(!findings.iter().any(is_wrong), "{findings:#?}");
    });
    sound(&pool);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn garbage_gives_findings_and_no_panic(changes in prop::collection::vec(
        (any::<u64>(), prop_oneof![0u64..70, any::<u64>()]), 1..200))
    {
        let (pool, me) = busy();
        let words = pool.layout().data.offset() / 8;
        for (at, value) in changes {
            // The superblock is checked when a pool is opened, and never read again.
            let at = (at % (words - 512) + 512) * 8;
            pool.map().store(at, value, Ordering::Relaxed).unwrap();
        }
        pool.check().unwrap();
        let _ = pool.space();
        let _ = me.repair();

        pool.check().unwrap();
    }

    #[test]
    fn garbage_in_tables_in_use_is_survived_by_every_call(changes in prop::collection::vec(
        (0usize..12, 0u64..192, prop_oneof![0u64..70, any::<u64>()]), 1..12))
    {
        let (pool, me) = busy();
        let layout = pool.layout();
        let areas = [
            layout.registry.offset(), layout.shm.offset(), layout.sem.offset(), layout.msg.offset(),
            layout.attaches.offset(), layout.undos.offset(), layout.slab_meta.offset(),
            layout.unit_meta.offset(), layout.extents.offset(), layout.clients.offset(),
            layout.threads.offset(), layout.heap.offset(),
        ];
        for (area, word, value) in changes {
            pool.map().store(areas[area] + word * 8, value, Ordering::Relaxed).unwrap();
        }
        pool.check().unwrap();
        for index in 0..3 {
            if let Ok(stat) = me.segment_at_index(index, true, &ROOT) {
                let _ = me.shmat(stat.id, true, false, &ROOT);
                let _ = me.shmdt(stat.id);
                let _ = me.segment_remove(stat.id, &ROOT);
            }
            if let Ok(stat) = me.set_at_index(index, true, &ROOT) {
                let _ = me.op(stat.id, &[now(down(0))]);
                let _ = me.op(stat.id, &[now(undone(up(1))), up(2)]);
                let _ = me.set_semaphores(stat.id, &|_| 1, &ROOT);
                let _ = me.set_remove(stat.id, &ROOT);
            }
            if let Ok(stat) = me.queue_at_index(index, true, &ROOT) {
                let _ = me.receive_now(stat.id, -3);
                let _ = me.send_now(stat.id, 1, &[1; 100]);
                let _ = me.queue_remove(stat.id, &ROOT);
            }
        }
        let _ = me.segment(9, 9000, CREATE);
        let _ = me.semget(9, 90, CREATE, &ROOT);

        let _ = me.repair();
        let _ = me.reap(me.client_id());
        pool.check().unwrap();
    }
}
