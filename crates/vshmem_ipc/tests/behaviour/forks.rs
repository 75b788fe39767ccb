use crate::fixture::*;
use vshmem_ipc::Errno;

#[test]
fn a_child_inherits_attaches_and_no_adjustments() {
    let pool = pool();
    let (parent, last) = (join(&pool, 10), join(&pool, 11));
    let (a, b) = (parent.segment(PRIVATE, 1, 0).unwrap(), parent.segment(PRIVATE, 1, 0).unwrap());
    let set = parent.set(1);
    parent.shmat(a, true, false, &ROOT).unwrap();
    parent.shmat(a, true, false, &ROOT).unwrap();
    parent.shmat(b, true, false, &ROOT).unwrap();
    parent.op(set, &[undone(up(0))]).unwrap();
    let kept = parent.reserve_child().unwrap();
    sound(&pool);
    assert_eq!(last.segment_stat(a, &ROOT).unwrap().attached, 4);
    // The child's own copy of the member: here, the same one under a new name.
    let child = join(&pool, 12);
    last.bury(child.client()).unwrap();
    child.become_child(Some(kept), process(13), None).unwrap();
    sound(&pool);
    child.shmdt(a).unwrap();
    assert_eq!(last.segment_stat(a, &ROOT).unwrap().attached, 3);
    last.bury(child.client()).unwrap();
    assert_eq!(last.segment_stat(a, &ROOT).unwrap().attached, 2);
    assert_eq!(last.segment_stat(b, &ROOT).unwrap().attached, 1);
    assert_eq!(last.value(set, 0), 1);
    last.bury(parent.client()).unwrap();
    assert_eq!(last.value(set, 0), 0);
    last.segment_remove(a, &ROOT).unwrap();
    last.segment_remove(b, &ROOT).unwrap();
    last.set_remove(set, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn a_cancelled_fork_gives_the_slot_back() {
    let pool = pool();
    let parent = join(&pool, 10);
    let a = parent.segment(PRIVATE, 1, 0).unwrap();
    parent.shmat(a, true, false, &ROOT).unwrap();
    for _ in 0..40 {
        let kept = parent.reserve_child().unwrap();
        parent.cancel_child(kept);
    }
    assert_eq!(parent.segment_stat(a, &ROOT).unwrap().attached, 1);
    parent.shmdt(a).unwrap();
    parent.segment_remove(a, &ROOT).unwrap();
    empty(&pool, &parent);
}

#[test]
fn a_full_table_of_clients_is_eagain_for_fork() {
    let pool = pool();
    let parent = join(&pool, 10);
    let kept: Vec<_> = (0..15).map(|_| parent.reserve_child().unwrap()).collect();
    assert_eq!(parent.reserve_child(), Err(Errno::AGAIN));
    for slot in kept {
        parent.cancel_child(slot);
    }
    empty(&pool, &parent);
}
