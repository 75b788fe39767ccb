use crate::fixture::*;
use vshmem_ipc::{Errno, is_pool_id};
use vshmem_mem::Ordering;

#[test]
fn a_segment_is_made_found_attached_and_removed() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.segment(42, 10_000, CREATE).unwrap();
    assert!(is_pool_id(id));
    assert_eq!(me.segment(42, 10_000, 0), Ok(id));
    assert_eq!(me.segment(42, 0, 0), Ok(id));
    let stat = me.segment_stat(id, &ROOT).unwrap();
    assert_eq!((stat.size, stat.attached, stat.creator), (10_000, 0, 10));
    let place = me.shmat(id, true, false, &ROOT).unwrap();
    assert_eq!(place.bytes, 12_288);
    assert_eq!(me.segment_stat(id, &ROOT).unwrap().attached, 1);
    me.shmdt(id).unwrap();
    assert_eq!(me.shmdt(id), Err(Errno::INVAL));
    me.segment_remove(id, &ROOT).unwrap();
    assert_eq!(me.segment_stat(id, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.segment(42, 0, 0), Err(Errno::NOENT));
    empty(&pool, &me);
}

#[test]
fn sizes_and_exclusion_are_checked_as_shmget_does() {
    let pool = pool();
    let me = join(&pool, 10);
    assert_eq!(me.segment(5, 0, CREATE), Err(Errno::INVAL));
    let id = me.segment(5, 4096, CREATE).unwrap();
    assert_eq!(me.segment(5, 4097, 0), Err(Errno::INVAL));
    assert_eq!(me.segment(5, 4096, CREATE | EXCLUSIVE), Err(Errno::EXIST));
    assert_eq!(me.segment(5, 1, CREATE), Ok(id));
    assert_eq!(me.segment(PRIVATE, 1 << 40, CREATE), Err(Errno::NOSPC));
    me.segment_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_removed_segment_lives_until_its_last_detach() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.segment(7, 4096, CREATE).unwrap();
    me.shmat(id, true, false, &ROOT).unwrap();
    me.segment_remove(id, &ROOT).unwrap();
    assert_eq!(me.segment(7, 0, 0), Err(Errno::NOENT));
    let again = other.segment(7, 4096, CREATE).unwrap();
    assert_ne!(again, id);
    other.shmat(id, false, false, &ROOT).unwrap();
    assert_eq!(me.segment_stat(id, &ROOT).unwrap().permission.mode & 0o1000, 0o1000);
    me.shmdt(id).unwrap();
    sound(&pool);
    assert_eq!(me.segment_stat(id, &ROOT).unwrap().attached, 1);
    other.shmdt(id).unwrap();
    assert_eq!(me.segment_stat(id, &ROOT), Err(Errno::INVAL));
    me.segment_remove(again, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn attaches_are_counted_per_mapping() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.segment(PRIVATE, 1, 0).unwrap();
    for _ in 0..3 {
        me.shmat(id, true, false, &ROOT).unwrap();
    }
    me.attach_again(id).unwrap();
    assert_eq!(me.segment_stat(id, &ROOT).unwrap().attached, 4);
    me.shmdt(id).unwrap();
    assert_eq!(me.segment_stat(id, &ROOT).unwrap().attached, 3);
    me.detach_all().unwrap();
    assert_eq!(me.segment_stat(id, &ROOT).unwrap().attached, 0);
    me.segment_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn attaches_are_given_up_for_an_exec_and_taken_again_and_removed_segments_stay() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let segment = || me.segment(PRIVATE, 1, 0).unwrap();
    let (first, removed, twice, shared) = (segment(), segment(), segment(), segment());
    for id in [first, removed, twice, twice, shared, removed] {
        me.shmat(id, true, false, &ROOT).unwrap();
    }
    other.shmat(shared, true, false, &ROOT).unwrap();
    assert!(!me.keeps_removed_segments());
    for id in [removed, shared] {
        me.segment_remove(id, &ROOT).unwrap();
    }
    assert!(me.keeps_removed_segments());
    let attached = |id| me.segment_stat(id, &ROOT).unwrap().attached;
    let suspended = me.suspend_attaches().unwrap();
    assert_eq!([first, removed, twice, shared].map(attached), [0, 2, 0, 1]);
    // While exec fails others go on.
    other.shmdt(shared).unwrap();
    let mut gone = Vec::new();
    me.resume_attaches(suspended, |id| gone.push(id));
    assert_eq!(gone, [shared]);
    assert_eq!([first, removed, twice].map(attached), [1, 2, 2]);
    sound(&pool);
    // The next program finds what its predecessor has kept, and gives it up.
    let _ = me.suspend_attaches().unwrap();
    let me = join(&pool, 10);
    assert!(me.segment_stat(removed, &ROOT).is_err());
    for id in [first, twice] {
        me.segment_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn new_segments_read_as_zeros_even_in_used_pages() {
    let pool = pool();
    let me = join(&pool, 10);
    let bytes = 256 * 4096;
    for _ in 0..2 {
        let id = me.segment(PRIVATE, bytes, 0).unwrap();
        let place = me.shmat(id, true, false, &ROOT).unwrap();
        for at in (0..place.bytes).step_by(512) {
            assert_eq!(pool.map().load(place.offset + at, Ordering::Relaxed), Ok(0));
            pool.map().store(place.offset + at, 0xdead_beef, Ordering::Relaxed).unwrap();
        }
        me.shmdt(id).unwrap();
        me.segment_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn what_cannot_be_backed_leaves_nothing_behind() {
    let pool = pool();
    let me = join(&pool, 10);
    assert_eq!(me.shmget(3, 4096, CREATE | 0o600, &ROOT, &Broke), Err(Errno::NOSPC));
    assert_eq!(me.segment(3, 0, 0), Err(Errno::NOENT));
    empty(&pool, &me);
}

#[test]
fn modes_and_owners_are_respected() {
    let pool = pool();
    let me = join(&pool, 10);
    let (owner, joining_client) = (User(1000), User(1001));
    let id = me.shmget(9, 4096, CREATE | 0o640, &owner, &Zeroing(&pool)).unwrap();
    assert_eq!(me.shmat(id, false, false, &joining_client), Err(Errno::ACCESS));
    assert_eq!(me.shmget(9, 0, 0o400, &joining_client, &Zeroing(&pool)), Err(Errno::ACCESS));
    assert_eq!(me.segment_remove(id, &joining_client), Err(Errno::PERM));
    assert_eq!(me.segment_change(id, 1, 1, 0o666, &joining_client), Err(Errno::PERM));
    me.segment_change(id, 1000, 1000, 0o604, &owner).unwrap();
    me.shmat(id, false, false, &joining_client).unwrap();
    assert_eq!(me.shmat(id, true, false, &joining_client), Err(Errno::ACCESS));
    me.segment_lock(id, true, None, &owner).unwrap();
    assert_eq!(me.segment_stat(id, &owner).unwrap().permission.mode, 0o2604);
    me.shmdt(id).unwrap();
    me.segment_remove(id, &owner).unwrap();
    empty(&pool, &me);
}

#[test]
fn two_at_once_make_one_segment_of_a_key() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    for key in 1..if cfg!(miri) { 10 } else { 200 } {
        let (mine, theirs) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| other.segment(key, 4096, CREATE).unwrap());
            (me.segment(key, 4096, CREATE).unwrap(), theirs.join().unwrap())
        });
        assert_eq!(mine, theirs);
        me.segment_remove(mine, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn shm_info_counts_segments_and_pages() {
    let pool = pool();
    let me = join(&pool, 10);
    let a = me.segment(PRIVATE, 4096, 0).unwrap();
    let b = me.segment(PRIVATE, 8192, 0).unwrap();
    let info = me.shm_info().unwrap();
    assert_eq!((info.segments, info.pages, info.highest), (2, 3, 1));
    assert_eq!(me.segment_at_index(1, false, &ROOT).unwrap().id, b);
    me.segment_remove(a, &ROOT).unwrap();
    me.segment_remove(b, &ROOT).unwrap();
    assert_eq!(me.segment_at_index(1, false, &ROOT), Err(Errno::INVAL));
    empty(&pool, &me);
}

#[test]
fn held_memory_is_freed_with_its_last_attach_after_any_death() {
    let pool = pool();
    let (me, maker, user) = (join(&pool, 10), join(&pool, 11), join(&pool, 12));
    let backing = Zeroing(&pool);
    let held = maker.hold_memory(5000, 0, &ROOT, &backing).unwrap();
    assert_eq!(held.bytes, 8192);
    let place = user.shmat(held.id, true, false, &ROOT).unwrap();
    assert_eq!((place.offset, place.bytes), (held.offset, held.bytes));
    assert_eq!(user.segment_stat(held.id, &ROOT).unwrap().attached, 2);
    me.reap(maker.client_id()).unwrap();
    sound(&pool);
    assert_eq!(user.segment_stat(held.id, &ROOT).unwrap().attached, 1);
    me.reap(user.client_id()).unwrap();
    assert_eq!(me.segment_stat(held.id, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.hold_memory(0, 0, &ROOT, &backing), Err(Errno::INVAL));
    assert_eq!(me.hold_memory(1 << 40, 0, &ROOT, &backing), Err(Errno::NOSPC));
    empty(&pool, &me);
}

#[test]
fn a_client_id_is_valid_until_its_process_is_reaped_and_never_again() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let (name, slot) = (other.client_id(), other.client_slot());
    assert!(me.may_act(name) && me.may_act(me.client_id()));
    me.reap(name).unwrap();
    assert!(!me.may_act(name));
    let next = join(&pool, 12);
    assert_eq!(next.client_slot(), slot);
    assert!(me.may_act(next.client_id()) && !me.may_act(name));
}
