//! Locks that seem to be held or committed by a client, with intent records of all kinds behind
//! them.

use std::sync::atomic::Ordering;

use crate::operations::{ALL, Stage};
use crate::setup::{Setup, newcomer};
use crate::watchdog::Watchdog;
use vshmem_ipc::Pool;
use vshmem_sync::{load_state, load_word};
use vshmem_wire::{
    CELL_BYTES, FutexBucket, INTENT_ENTRIES, IntentHead, Layout, MsgSlot, Place, RawCell, Registry,
    SemSlot, ThreadSlot, WaitState, field,
};

const HELD: u64 = 1;
const COMMITTED: u64 = 2;
const NONE: u64 = 3;

fn locks(layout: &Layout) -> [Place<RawCell>; 4] {
    [
        field!(layout.registry, Registry, lock),
        field!(layout.sem.at(0).unwrap(), SemSlot, header.lock),
        field!(layout.msg.at(1).unwrap(), MsgSlot, header.lock),
        field!(layout.futexes.at(0).unwrap(), FutexBucket, lock),
    ]
}

fn write(pool: &Pool, at: Place<u64>, value: u64) {
    pool.map().store(at, value, Ordering::Relaxed).unwrap();
}

/// Makes thread slot 7 the holder of a lock, with a record of `count` entries for `offset`.
fn forge(pool: &Pool, lock: Place<RawCell>, state: u64, count: u64, offset: u64, more: u64) {
    let slot = pool.layout().threads.at(7).unwrap();
    let tag = u64::MAX;
    write(pool, lock.tag(), tag);
    write(pool, lock.word(), 7 << 2 | state);
    write(pool, field!(slot, ThreadSlot, intent_lock), lock.offset());
    let head = IntentHead { tag, entries: count }.pack();
    write(pool, field!(slot, ThreadSlot, intent_head), head);
    write(pool, field!(slot, ThreadSlot, more_intents), more);
    for nth in 0..INTENT_ENTRIES as u64 {
        let entry = field!(slot, ThreadSlot, intents).element(nth).offset();
        let offset = offset.wrapping_add(nth * CELL_BYTES);
        let seen = pool.map().load_cell(offset).unwrap_or_default();
        let words = [offset, seen.word, seen.tag, u64::MAX - nth];
        for (at, word) in (entry..).step_by(8).zip(words) {
            write(pool, Place::at(at), word);
        }
    }
}

#[test]
fn forged_records_are_carried_out_inside_the_pool_or_not_at_all() {
    let setup = Setup::new();
    let pool = setup.lay_out();
    let watchdog = Watchdog::new(1);
    let layout = *pool.layout();
    let mut nth = 0;
    for lock in locks(&layout) {
        for state in [HELD, COMMITTED, NONE] {
            for (count, offset, more) in [
                (0, 0, 0),
                (40, layout.sem.offset(), 0),
                (40, 0, 0),
                (40, 3, 0),
                (40, layout.data.offset() - 16, 0),
                (45, layout.threads.offset(), u64::MAX),
                (45, layout.msg.offset(), layout.data.end() - 8),
                (100_000, layout.heap.offset(), layout.heap.offset()),
                (0xffff_ffff, layout.unit_meta.offset(), 5),
                (0xffff_ffff, u64::MAX - 7, layout.threads.offset()),
            ] {
                nth += 1;
                setup.restore(&pool);
                let me = newcomer(&pool, "a", 10).unwrap();
                let far = newcomer(&pool, "b", 21).unwrap();
                let before = pool.map().load(0u64, Ordering::Relaxed).unwrap();
                forge(&pool, lock, state, count, offset, more);
                assert!(pool.check().is_ok(), "{lock:?} in {state}, {count} and {more:#x}");
                let stage = Stage { setup: &setup, pool: &pool, me: &me, far: &far, nth };
                for (call, run) in ALL {
                    let name =
                        || format!("{call}, lock {lock:?} in {state}, {count} at {offset:#x}");
                    watchdog.call(0, name, || run(&stage));
                }
                assert_eq!(pool.map().load(0u64, Ordering::Relaxed).unwrap(), before);
            }
        }
    }
}

#[test]
fn a_holder_that_does_not_exist_holds_nothing_up() {
    let setup = Setup::new();
    let pool = setup.lay_out();
    for state in [HELD, COMMITTED, NONE] {
        setup.restore(&pool);
        let me = newcomer(&pool, "a", 12).unwrap();
        for lock in locks(pool.layout()) {
            write(&pool, lock.word(), 0x3fff_ffff << 2 | state);
        }
        use crate::fixture::{Calls, PRIVATE, up};
        assert!(me.segment(PRIVATE, 1, 0).is_ok());
        assert!(me.op(setup.sets[0], &[up(2)]).is_ok());
        assert!(me.receive_now(setup.queues[1], 0).is_err());
    }
}

/// A fork copies its client's list. A record there that cannot be is no change by another thread,
/// after which it would begin anew.
#[test]
fn a_fork_is_refused_at_once_for_a_record_that_cannot_be() {
    use crate::fixture::ROOT;
    use vshmem_wire::{ATTACHED_QUEUE, AttachSlot};
    let setup = Setup::new();
    let pool = setup.lay_out();
    type Field = fn(Place<AttachSlot>) -> Place<RawCell>;
    let at = |record: u64| pool.layout().attaches.at(record as u32).unwrap();
    let client: Field = |at| field!(at, AttachSlot, client);
    let held: Field = |at| field!(at, AttachSlot, segment);
    let no_queue = u64::from(ATTACHED_QUEUE);
    for (what, field, word) in [
        ("client", client, 0),
        ("held", held, 0),
        ("held", held, no_queue),
        ("held", held, no_queue | 7),
        ("held", held, 7),
        ("held", held, !0),
    ] {
        setup.restore(&pool);
        let me = newcomer(&pool, "a", 12).unwrap();
        me.shmat(setup.segments[0], true, false, &ROOT).unwrap();
        let mine = (0..pool.layout().attaches.count)
            .find(|&record| load_word(pool.map(), client(at(record))) == Ok(me.client_id().word()));
        write(&pool, field(at(mine.unwrap())).word(), word);
        let changes =
            || pool.map().load_cell(field!(pool.layout().registry, Registry, lock)).unwrap().tag;
        let before = changes();
        assert!(me.reserve_child().is_err(), "{what} {word:#x}");
        assert!(changes() - before < 60, "{what} {word:#x}: it has begun anew");
    }
}

/// Otherwise the next owner of its slot would be handed what is sent to this queue.
#[test]
fn a_dead_receiver_leaves_its_queue_whatever_its_slot_says_that_it_waits_for() {
    use crate::fixture::{Calls, asleep, join, pool, sound, until};
    for said in [0, 6, 77] {
        let pool = pool();
        let (me, dead) = (join(&pool, 10), join(&pool, 11));
        let id = me.queue();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| dead.receive(id, 5));
            until("asleep", || asleep(&pool) == 1);
            let slot = (0..pool.layout().threads.count as u32)
                .map(|slot| pool.layout().threads.at(slot).unwrap())
                .find(|slot| {
                    let wait = load_state(pool.map(), field!(*slot, ThreadSlot, wait));
                    wait == Ok(Some(WaitState::Waiting))
                })
                .unwrap();
            write(&pool, field!(slot, ThreadSlot, kind).cell().word(), said);
            me.reap(dead.client_id()).unwrap();
            sound(&pool);
            assert!(receiver.join().unwrap().is_err());
        });
        me.send(id, 5, b"text").unwrap();
        assert_eq!(me.receive_now(id, 5), Ok((5, b"text".to_vec())), "{said}");
    }
}
