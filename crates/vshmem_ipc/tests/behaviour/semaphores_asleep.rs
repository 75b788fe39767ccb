use std::time::Duration;

use crate::fixture::*;
use vshmem_ipc::Errno;

#[test]
fn a_waiter_is_released_by_another_thread_and_another_client() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.set(1);
    for _ in 0..if cfg!(miri) { 3 } else { 50 } {
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| me.op(id, &[down(0)]));
            until("a waiter", || other.waiters(id, 0, false) == 1);
            sound(&pool);
            other.op(id, &[up(0)]).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(()));
        });
        assert_eq!(me.value(id, 0), 0);
        assert_eq!(me.semaphore_pid(id, 0, &ROOT), Ok(10));
    }
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn waiting_for_zero_is_counted_and_served() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(2);
    me.put(id, 1, 2);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| me.op(id, &[zero(1), up(0)]));
        until("a waiter", || me.waiters(id, 1, true) == 1);
        assert_eq!(me.waiters(id, 1, false), 0);
        me.op(id, &[down(1)]).unwrap();
        assert_eq!(me.waiters(id, 1, true), 1);
        me.op(id, &[down(1)]).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    assert_eq!(me.value(id, 0), 1);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_timeout_ends_a_wait_and_leaves_no_trace() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(1);
    for span in [Duration::ZERO, Duration::from_millis(5)] {
        assert_eq!(me.semop(id, &[down(0)], Some(span), &ROOT), Err(Errno::AGAIN));
    }
    assert_eq!(me.waiters(id, 0, false), 0);
    me.op(id, &[up(0)]).unwrap();
    me.op(id, &[down(0)]).unwrap();
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn removal_sends_every_waiter_away_with_eidrm() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 10));
    let id = me.set(2);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..20)
            .map(|n| {
                let who = if n % 2 == 0 { &me } else { &other };
                scope.spawn(move || who.op(id, &[undone(down(n as u16 % 2))]))
            })
            .collect();
        until("all asleep", || asleep(&pool) == 20);
        assert_eq!(me.waiters(id, 0, false), 10);
        sound(&pool);
        me.set_remove(id, &ROOT).unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Errno::IDRM));
        }
    });
    empty(&pool, &me);
}

#[test]
fn setval_and_setall_serve_waiters() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(2);
    std::thread::scope(|scope| {
        let a = scope.spawn(|| me.op(id, &[by(0, -3)]));
        let b = scope.spawn(|| me.op(id, &[by(1, -4), zero(0)]));
        until("two waiters", || asleep(&pool) == 2);
        me.put(id, 0, 2);
        assert_eq!(asleep(&pool), 2);
        me.put(id, 0, 3);
        assert_eq!(a.join().unwrap(), Ok(()));
        me.set_semaphores(id, &|n| [0, 4][n], &ROOT).unwrap();
        assert_eq!(b.join().unwrap(), Ok(()));
    });
    assert_eq!((me.value(id, 0), me.value(id, 1)), (0, 0));
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn who_is_served_helps_those_who_came_before() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(3);
    // The second in the wait queue raises what the first wants lower; then lowers what the first
    // wants zero, then makes it so after a part of it was done.
    let cases: [(&[_], [_; 2], i32); 3] = [
        (&[by(1, -2)], [down(0), by(1, 2)], 0),
        (&[zero(1)], [down(0), down(1)], 1),
        (&[by(1, -1), zero(1)], [down(0), down(1)], 2),
    ];
    for (first, second, value) in cases {
        me.put(id, 1, value);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| me.op(id, first));
            until("the first", || asleep(&pool) == 1);
            let other = scope.spawn(|| me.op(id, &second));
            until("the second", || asleep(&pool) == 2);
            me.op(id, &[up(0)]).unwrap();
            assert_eq!((one.join().unwrap(), other.join().unwrap()), (Ok(()), Ok(())));
        });
        assert_eq!((me.value(id, 0), me.value(id, 1)), (0, 0));
    }
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn waiters_with_many_operations_try_again_themselves() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(40);
    let all: Vec<_> = (0..40).map(down).collect();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| me.op(id, &all));
        until("a waiter", || me.waiters(id, 0, false) == 1);
        for n in 0..39 {
            me.op(id, &[up(n)]).unwrap();
            until("asleep at the next", || me.waiters(id, i32::from(n) + 1, false) == 1);
        }
        me.op(id, &[up(39)]).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    let mut sum = 0;
    me.semaphore_values(id, &ROOT, |_, value| sum += value).unwrap();
    assert_eq!(sum, 0);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn one_rise_serves_as_many_as_it_can_in_order() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(1);
    std::thread::scope(|scope| {
        let mut waiters = Vec::new();
        for n in 1..=30 {
            waiters.push(scope.spawn(|| me.op(id, &[down(0)])));
            until("one more", || me.waiters(id, 0, false) == n);
        }
        me.op(id, &[by(0, 10)]).unwrap();
        until("ten went", || me.waiters(id, 0, false) == 20);
        for waiter in waiters.drain(..10) {
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
        sound(&pool);
        me.op(id, &[by(0, 25)]).unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
    });
    assert_eq!(me.value(id, 0), 5);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_waiter_whose_rise_would_overflow_gets_an_error() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(2);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| me.op(id, &[down(0), by(1, 20_000)]));
        until("a waiter", || me.waiters(id, 0, false) == 1);
        me.op(id, &[by(1, 20_000)]).unwrap();
        me.op(id, &[up(0)]).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Errno::RANGE));
    });
    assert_eq!((me.value(id, 0), me.value(id, 1)), (1, 20_000));
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}
