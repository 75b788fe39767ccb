use crate::fixture::*;
use vshmem_ipc::Errno;

#[test]
fn a_death_takes_back_what_was_marked_for_undo() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(3);
    me.put(id, 0, 5);
    me.op(id, &[undone(by(0, -2)), up(1), undone(up(2))]).unwrap();
    me.op(id, &[undone(by(0, -1))]).unwrap();
    last.reap(me.client_id()).unwrap();
    let values: Vec<u32> = (0..3).map(|n| last.value(id, n)).collect();
    assert_eq!(values, [5, 1, 0]);
    assert_eq!(last.semaphore_pid(id, 0, &ROOT), Ok(10));
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn adjustments_clamp_at_both_ends() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(2);
    me.op(id, &[undone(by(0, 100))]).unwrap();
    last.op(id, &[by(0, -60)]).unwrap();
    me.put(id, 1, 100);
    me.op(id, &[undone(by(1, -100))]).unwrap();
    last.op(id, &[by(1, 32_700)]).unwrap();
    last.reap(me.client_id()).unwrap();
    assert_eq!((last.value(id, 0), last.value(id, 1)), (0, 32767));
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn setval_and_setall_forget_adjustments() {
    let pool = pool();
    let (me, other, last) = (join(&pool, 10), join(&pool, 11), join(&pool, 12));
    let id = me.set(2);
    for who in [&me, &other] {
        who.op(id, &[undone(by(0, 7)), undone(by(1, 9))]).unwrap();
    }
    last.put(id, 0, 3);
    last.reap(me.client_id()).unwrap();
    assert_eq!((last.value(id, 0), last.value(id, 1)), (3, 9));
    last.set_semaphores(id, &|_| 4, &ROOT).unwrap();
    last.reap(other.client_id()).unwrap();
    assert_eq!((last.value(id, 0), last.value(id, 1)), (4, 4));
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn an_undo_serves_waiters() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join_in(&pool, "b", 11));
    let id = me.set(1);
    me.put(id, 0, 1);
    me.op(id, &[undone(down(0))]).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| last.op(id, &[down(0)]));
        until("a waiter", || last.waiters(id, 0, false) == 1);
        last.reap(me.client_id()).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn an_adjustment_out_of_range_refuses_the_operation() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(1);
    me.op(id, &[undone(by(0, 32767))]).unwrap();
    me.op(id, &[by(0, -32767)]).unwrap();
    me.op(id, &[undone(up(0))]).unwrap();
    me.op(id, &[down(0)]).unwrap();
    assert_eq!(me.op(id, &[undone(up(0))]), Err(Errno::RANGE));
    assert_eq!(me.value(id, 0), 0);
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn many_semaphores_are_undone() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(100);
    let all: Vec<_> = (0..100).map(|n| undone(by(n, 2))).collect();
    me.op(id, &all).unwrap();
    last.op(id, &[up(17)]).unwrap();
    sound(&pool);
    last.reap(me.client_id()).unwrap();
    let mut sum = 0;
    last.semaphore_values(id, &ROOT, |_, value| sum += value).unwrap();
    assert_eq!(sum, 1);
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn threads_of_a_process_share_one_record() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    for _ in 0..50 {
        let id = last.set(4);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let me = &me;
                scope.spawn(move || {
                    for _ in 0..20 {
                        me.op(id, &[undone(up(n))]).unwrap();
                    }
                });
            }
        });
        sound(&pool);
        last.set_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &last);
}

#[test]
fn removal_frees_the_records_of_all_clients() {
    let pool = pool();
    let all_clients: Vec<_> = (0..8).map(|n| join(&pool, 10 + n)).collect();
    for _ in 0..20 {
        let id = all_clients[0].set(5);
        for this_client in &all_clients {
            this_client.op(id, &[undone(up(3)), undone(up(4))]).unwrap();
        }
        sound(&pool);
        all_clients[1].set_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &all_clients[0]);
}

#[test]
fn a_release_at_exit_applies_adjustments_once() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = last.set(1);
    me.op(id, &[undone(by(0, 4)), by(0, 3)]).unwrap();
    me.release_at_exit().unwrap();
    assert_eq!(last.value(id, 0), 3);
    last.reap(me.client_id()).unwrap();
    assert_eq!(last.value(id, 0), 3);
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn getpid_names_the_last_operator_while_an_adjustment_is_prepared() {
    let pool = pool();
    let (me, other, last) = (join(&pool, 10), join(&pool, 11), join(&pool, 12));
    let id = me.set(1);
    for _ in 0..2 {
        me.op(id, &[undone(up(0))]).unwrap();
        assert_eq!(last.semaphore_pid(id, 0, &ROOT), Ok(10));
        other.op(id, &[undone(up(0))]).unwrap();
        assert_eq!(last.semaphore_pid(id, 0, &ROOT), Ok(11));
        last.op(id, &[up(0)]).unwrap();
        assert_eq!(last.semaphore_pid(id, 0, &ROOT), Ok(12));
    }
    last.reap(me.client_id()).unwrap();
    last.reap(other.client_id()).unwrap();
    assert_eq!(last.value(id, 0), 2);
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn a_setval_forgets_what_is_only_prepared() {
    let pool = pool();
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(1);
    me.op(id, &[undone(up(0))]).unwrap();
    me.op(id, &[undone(up(0))]).unwrap();
    last.put(id, 0, 5);
    last.reap(me.client_id()).unwrap();
    assert_eq!(last.value(id, 0), 5);
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}
