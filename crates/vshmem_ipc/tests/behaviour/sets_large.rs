use crate::fixture::*;
use vshmem_ipc::Errno;
use vshmem_wire::Geometry;

fn roomy() -> Geometry {
    Geometry { slabs: 96, ..small() }
}

#[test]
fn a_set_of_32000_can_be_set_and_read_at_once() {
    let pool = pool_of(roomy());
    let me = join(&pool, 10);
    let id = me.set(32_000);
    me.set_semaphores(id, &|n| (n % 32_768) as u16, &ROOT).unwrap();
    let mut right = 0;
    me.semaphore_values(id, &ROOT, |n, value| right += usize::from(usize::from(value) == n))
        .unwrap();
    assert_eq!(right, 32_000);
    me.op(id, &[up(31_999), down(31_998)]).unwrap();
    assert_eq!((me.value(id, 31_999), me.value(id, 31_998)), (32_000, 31_997));
    sound(&pool);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn setall_of_a_large_set_forgets_a_large_record() {
    let pool = pool_of(roomy());
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(32_000);
    for from in (0..32_000).step_by(500) {
        let call: Vec<_> = (from..from + 500).map(|n| undone(up(n))).collect();
        me.op(id, &call).unwrap();
    }
    last.set_semaphores(id, &|_| 9, &ROOT).unwrap();
    last.reap(me.client_id()).unwrap();
    let mut sum = 0u64;
    last.semaphore_values(id, &ROOT, |_, value| sum += u64::from(value)).unwrap();
    assert_eq!(sum, 9 * 32_000);
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn a_large_record_is_applied_at_death() {
    let pool = pool_of(roomy());
    let (me, last) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(32_000);
    for from in (0..32_000).step_by(500) {
        let call: Vec<_> = (from..from + 500).map(|n| undone(by(n, 3))).collect();
        me.op(id, &call).unwrap();
    }
    last.reap(me.client_id()).unwrap();
    let mut sum = 0u64;
    last.semaphore_values(id, &ROOT, |_, value| sum += u64::from(value)).unwrap();
    assert_eq!(sum, 0);
    last.set_remove(id, &ROOT).unwrap();
    empty(&pool, &last);
}

#[test]
fn five_hundred_operations_are_one_step() {
    let pool = pool_of(roomy());
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(500);
    for undo in [false, true] {
        let mark = |o| if undo { undone(o) } else { o };
        let rise: Vec<_> = (0..500).map(|n| mark(up(n))).collect();
        let fall: Vec<_> = (0..500).rev().map(|n| mark(down(n))).collect();
        me.op(id, &rise).unwrap();
        let mut blocked = fall.clone();
        blocked[499] = now(by(0, -2));
        assert_eq!(me.op(id, &blocked), Err(Errno::AGAIN));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let twice: Vec<_> = (0..500).map(|n| mark(by(n, -2))).collect();
                me.op(id, &twice)
            });
            until("a waiter", || other.waiters(id, 0, false) == 1);
            other.op(id, &rise.iter().map(|o| by(o.number, 1)).collect::<Vec<_>>()).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(()));
        });
    }
    let mut sum = 0u64;
    other.semaphore_values(id, &ROOT, |_, value| sum += u64::from(value)).unwrap();
    assert_eq!(sum, 0);
    sound(&pool);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn two_that_set_a_large_set_at_once_both_get_through() {
    let pool = pool_of(roomy());
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(32_000);
    std::thread::scope(|scope| {
        for (who, value) in [(&me, 1u16), (&other, 2)] {
            scope.spawn(move || {
                for _ in 0..10 {
                    who.set_semaphores(id, &|_| value, &ROOT).unwrap();
                }
            });
        }
        for _ in 0..10 {
            let mut seen = Vec::with_capacity(32_000);
            // The last reading counts: a reading that was disturbed is begun again.
            me.semaphore_values(id, &ROOT, |n, value| {
                seen.truncate(n);
                seen.push(value);
            })
            .unwrap();
            assert!(seen.iter().all(|value| *value == seen[0]));
        }
    });
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}
