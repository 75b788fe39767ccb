//! Calls that fail late: what they have changed all the same, and what not.

use crate::fixture::*;
use vshmem_ipc::{Beginning, Client, Errno, Kind, PosixOpen, QueueOpen, QueueSize, Receive};
use vshmem_sync::load_word;
use vshmem_wire::{
    Area, Geometry, MsgSlot, Place, QueueMode, RawCell, SemSlot, SemWord, UNIT_BYTES, field,
};

const MAKE: PosixOpen = PosixOpen {
    read: true,
    write: true,
    create: true,
    exclusive: true,
    truncate: false,
    mode: 0o600,
};

/// Where the slot of an object lies.
fn slot_of<T>(client: &Client, kind: Kind, area: Area<T>, id: i32) -> Place<T> {
    let rows = client.pool().objects(kind).expect("a list");
    let row = rows.into_iter().find(|row| client.id_of(*row) == Ok(id)).expect("the object");
    area.at(row.index).expect("a slot")
}

fn load(client: &Client, at: Place<RawCell>) -> u64 {
    load_word(client.pool().map(), at).expect("a word of the pool")
}

/// Under the lock the semaphores are closed to operations without it.
#[test]
fn operations_that_are_refused_under_the_lock_leave_the_way_without_it_open() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(6);
    let slot = slot_of(&me, Kind::Semaphore, pool.layout().sem, id);
    let unit = load(&me, field!(slot, SemSlot, words));
    let words: Place<RawCell> = Place::at(pool.layout().heap.offset() + unit * UNIT_BYTES);
    let is_open = |number: u64| !SemWord::unpack(load(&me, words.nth(number))).slow;
    me.op(id, &[up(5)]).unwrap();
    for (refused, why) in [(now(zero(5)), Errno::AGAIN), (by(5, i16::MAX), Errno::RANGE)] {
        let array: Vec<_> = (0..5).map(up).chain([refused]).collect();
        assert_eq!(me.op(id, &array), Err(why));
        assert!((0..6).all(is_open), "{why}");
        assert_eq!(me.value(id, 0), 0);
    }
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

/// MSG_COPY looks for its message in the list: what was in the ring is there from then on.
#[test]
fn a_message_that_is_not_found_has_brought_the_others_into_the_list() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    let slot = slot_of(&me, Kind::Queue, pool.layout().msg, id);
    let mode = || load(&me, field!(slot, MsgSlot, mode)) & 3;
    for n in 0..3u8 {
        me.send(id, 7, &[n; 300]).unwrap();
    }
    assert_eq!(mode(), QueueMode::Ring as u64);
    let ninth = Receive { copy: true, no_wait: true, ..of_type(9) };
    assert_eq!(me.receive_as(id, ninth), Err(Errno::NOMSG));
    assert_eq!(mode(), QueueMode::List as u64);
    for n in 0..3u8 {
        assert_eq!(me.receive_now(id, 0).unwrap(), (7, vec![n; 300]));
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

/// The object is attached for the time in which zeros are written over what is cut off.
#[test]
fn an_object_that_cannot_be_cut_is_as_long_as_before_and_not_attached() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.posix_shm_open(b"data", MAKE, &ROOT, &Zeroing(&pool)).unwrap();
    me.posix_shm_set_size(id, 10_000, &Zeroing(&pool)).unwrap();
    assert_eq!(me.posix_shm_set_size(id, 5000, &Broke), Err(Errno::NOSPC));
    let stat = me.posix_shm_stat(id).unwrap();
    assert_eq!((stat.size, stat.attached), (10_000, 0));
    sound(&pool);
    me.posix_shm_unlink(b"data", &ROOT).unwrap();
    me.posix_shm_close(id).unwrap();
    empty(&pool, &me);
}

/// That there is no attach record left is found out when all of the object is staged.
#[test]
fn what_cannot_be_attached_is_not_made() {
    let pool = pool_of(Geometry { attaches: 1, ..small() });
    let me = join(&pool, 10);
    let backing = Zeroing(&pool);
    let id = me.segment(PRIVATE, 1, 0).unwrap();
    me.shmat(id, true, false, &ROOT).unwrap();
    let before = room(&pool).pages_used;
    assert_eq!(me.hold_memory(4096, 0, &ROOT, &backing), Err(Errno::NOMEM));
    assert_eq!(me.posix_shm_open(b"data", MAKE, &ROOT, &backing), Err(Errno::NFILE));
    let beginning = Beginning { bytes: 4096, fill: &|_| Ok(()) };
    let made = me.posix_shm_open_filled(b"data", MAKE, beginning, &ROOT, &backing);
    assert_eq!(made, Err(Errno::NFILE));
    let size = Ok(QueueSize::DEFAULT);
    let how =
        QueueOpen { read: true, write: true, create: true, exclusive: true, mode: 0o600, size };
    assert_eq!(me.mq_open(b"queue", &how, &ROOT), Err(Errno::NFILE));
    assert_eq!(pool.objects(Kind::Segment).unwrap().len(), 1);
    assert_eq!(pool.objects(Kind::Queue).unwrap().len(), 0);
    assert_eq!(room(&pool).pages_used, before);
    me.shmdt(id).unwrap();
    me.segment_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}
