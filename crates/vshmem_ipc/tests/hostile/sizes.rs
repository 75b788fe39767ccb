//! An object's size, once reported to a process, does not change for it, or calls fail.

use std::sync::atomic::Ordering;

use crate::fixture::*;
use vshmem_ipc::{Errno, Pool};
use vshmem_wire::{DomainSlot, Place, RawCell, SemSlot, ShmSlot, field};

fn write(pool: &Pool, at: Place<RawCell>, value: u64) {
    pool.map().store(at.word(), value, Ordering::Relaxed).unwrap();
}

#[test]
fn a_set_that_grows_does_not_overflow_its_callers_array() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(3);
    let slot = pool.layout().sem.at(0).unwrap();
    write(&pool, field!(slot, SemSlot, count), 600);
    assert_eq!(me.set_stat(id, &ROOT).map(|stat| stat.count), Err(Errno::IO));
    assert_eq!(me.semaphore_count(id), Err(Errno::IO));
    assert_eq!(me.semaphore_values(id, &ROOT, |_, _| panic!("a value")), Err(Errno::IO));
    assert_eq!(me.set_semaphores(id, &|_| panic!("a look"), &ROOT), Err(Errno::IO));
    write(&pool, field!(slot, SemSlot, count), 3);
    assert_eq!(me.semaphore_count(id), Ok(3));
}

#[test]
fn a_segment_that_changes_its_size_cannot_be_attached() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.segment(PRIVATE, 5000, 0).unwrap();
    let slot = pool.layout().shm.at(0).unwrap();
    for pages in [0, 1, 3, u64::from(u32::MAX)] {
        write(&pool, field!(slot, ShmSlot, pages), pages);
        assert_eq!(me.shmat(id, true, false, &ROOT), Err(Errno::IO), "{pages}");
        assert_eq!(other.shmat(id, true, false, &ROOT), Err(Errno::IO), "{pages}");
        // Together with the size, which the maker remembers.
        write(&pool, field!(slot, ShmSlot, size_low), pages << 12);
        assert_eq!(me.shmat(id, true, false, &ROOT), Err(Errno::IO), "{pages}");
        write(&pool, field!(slot, ShmSlot, size_low), 5000);
    }
    write(&pool, field!(slot, ShmSlot, pages), 2);
    assert_eq!(me.shmat(id, true, false, &ROOT).map(|at| at.bytes), Ok(8192));
}

#[test]
fn a_name_commands_no_terminal() {
    let pool = pool();
    let _me = join(&pool, 10);
    let slot = pool.layout().domains.at(0).unwrap();
    write(
        &pool,
        field!(slot, DomainSlot, name).first(),
        u64::from(u32::from_ne_bytes(*b"\x1b[2J")),
    );
    let name = pool.domains().unwrap()[0].name.clone();
    assert!(name.starts_with("\u{fffd}[2J"), "{name:?}");
}
