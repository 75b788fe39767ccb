//! Locks that seem to be held or committed by a client, with intent records of all kinds behind
//! them.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use crate::operations::{ALL, Stage};
use crate::setup::{Setup, newcomer};
use crate::watchdog::Watchdog;
use vshmem_ipc::Pool;
use vshmem_sync::field;
use vshmem_wire::{
    CELL_BYTES, INTENT_ENTRIES, IntentEntry, IntentHead, Layout, ThreadSlot, tag_at,
};

const HELD: u64 = 1;
const COMMITTED: u64 = 2;
const NONE: u64 = 3;

fn locks(layout: &Layout) -> [u64; 4] {
    let address = layout.futexes.at(0).unwrap();
    [layout.registry, layout.sem.at(0).unwrap(), layout.msg.at(1).unwrap(), address]
}

fn write(pool: &Pool, at: u64, value: u64) {
    pool.map().store(at, value, Ordering::Relaxed).unwrap();
}

/// Makes thread slot 7 the holder of a lock, with a record of `count` entries for `offset`.
fn forge(pool: &Pool, lock: u64, state: u64, count: u64, offset: u64, more: u64) {
    let slot = pool.layout().threads.at(7).unwrap();
    let tag = u64::MAX;
    write(pool, lock.tag(), tag);
    write(pool, lock, 7 << 2 | state);
    write(pool, field!(slot, ThreadSlot, intent_lock), lock);
    let head = IntentHead { tag, entries: count }.pack();
    write(pool, field!(slot, ThreadSlot, intent_head), head);
    write(pool, field!(slot, ThreadSlot, more_intents), more);
    for nth in 0..INTENT_ENTRIES as u64 {
        let entry = field!(slot, ThreadSlot, intents) + nth * size_of::<IntentEntry>() as u64;
        let offset = offset.wrapping_add(nth * CELL_BYTES);
        let seen = pool.map().load_cell(offset).unwrap_or_default();
        let words = [offset, seen.word, seen.tag, u64::MAX - nth];
        for (at, word) in (entry..).step_by(8).zip(words) {
            write(pool, at, word);
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
                (40, layout.sem.offset, 0),
                (40, 0, 0),
                (40, 3, 0),
                (40, layout.data.offset - 16, 0),
                (45, layout.threads.offset, u64::MAX),
                (45, layout.msg.offset, layout.data.end() - 8),
                (100_000, layout.heap.offset, layout.heap.offset),
                (0xffff_ffff, layout.unit_meta.offset, 5),
                (0xffff_ffff, u64::MAX - 7, layout.threads.offset),
            ] {
                nth += 1;
                setup.restore(&pool);
                let me = newcomer(&pool, "a", 10).unwrap();
                let far = newcomer(&pool, "b", 21).unwrap();
                let before = pool.map().load(0, Ordering::Relaxed).unwrap();
                forge(&pool, lock, state, count, offset, more);
                let stage = Stage { setup: &setup, pool: &pool, me: &me, far: &far, nth };
                for (call, run) in ALL {
                    let name =
                        || format!("{call}, lock {lock:#x} in {state}, {count} at {offset:#x}");
                    watchdog.call(0, name, || run(&stage));
                }
                assert_eq!(pool.map().load(0, Ordering::Relaxed).unwrap(), before);
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
            write(&pool, lock, 0x3fff_ffff << 2 | state);
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
    let load = |at: u64| pool.map().load(at, Ordering::Relaxed).unwrap();
    let at = |record: u64| pool.layout().attaches.at(record as u32).unwrap();
    let (client, held) =
        (offset_of!(AttachSlot, client) as u64, offset_of!(AttachSlot, segment) as u64);
    let no_queue = u64::from(ATTACHED_QUEUE);
    for (field, word) in
        [(client, 0), (held, 0), (held, no_queue), (held, no_queue | 7), (held, 7), (held, !0)]
    {
        setup.restore(&pool);
        let me = newcomer(&pool, "a", 12).unwrap();
        me.shmat(setup.segments[0], true, false, &ROOT).unwrap();
        let mine = (0..pool.layout().attaches.count)
            .find(|&record| load(at(record) + client) == me.client_id().word());
        write(&pool, at(mine.unwrap()) + field, word);
        let changes = || pool.map().load_cell(pool.layout().registry).unwrap().tag;
        let before = changes();
        assert!(me.reserve_child().is_err(), "{field} {word:#x}");
        assert!(changes() - before < 60, "{field} {word:#x}: it has begun anew");
    }
}
