use crate::fixture::*;
use proptest::prelude::*;
use vshmem_ipc::{Errno, Operation};

#[test]
fn one_operation_adds_and_takes() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(3);
    assert_eq!(me.value(id, 0), 0);
    me.op(id, &[up(0)]).unwrap();
    me.op(id, &[by(0, 5)]).unwrap();
    assert_eq!(me.value(id, 0), 6);
    me.op(id, &[by(0, -6)]).unwrap();
    me.op(id, &[zero(0)]).unwrap();
    assert_eq!(me.op(id, &[now(down(0))]), Err(Errno::AGAIN));
    me.op(id, &[up(2)]).unwrap();
    assert_eq!(me.op(id, &[now(zero(2))]), Err(Errno::AGAIN));
    assert_eq!(me.semaphore_pid(id, 2, &ROOT), Ok(10));
    assert_eq!(me.semaphore_pid(id, 1, &ROOT), Ok(0));
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn an_array_happens_at_once_or_not_at_all() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(2);
    me.op(id, &[up(0), down(0)]).unwrap();
    assert_eq!(me.op(id, &[now(down(0)), up(0)]), Err(Errno::AGAIN));
    assert_eq!(me.op(id, &[up(0), now(down(1))]), Err(Errno::AGAIN));
    assert_eq!(me.value(id, 0), 0);
    assert_eq!(me.op(id, &[by(0, 3), by(1, 2), now(zero(1))]), Err(Errno::AGAIN));
    me.op(id, &[by(0, 3), by(1, 2), down(0), up(1)]).unwrap();
    assert_eq!((me.value(id, 0), me.value(id, 1)), (2, 3));
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn arrays_single_operations_and_getall_of_many_threads_agree() {
    const TURNS: u32 = 3000;
    const TOKENS: u32 = 50;
    let pool = pool();
    let me = join(&pool, 10);
    // Arrays move tokens between the first four, and count themselves in the last.
    let id = me.set(5);
    (0..4).for_each(|number| me.put(id, number, TOKENS as i32));
    let moved = |turn: u32, thread: u32| {
        let (from, to) = ((turn + thread) % 4, (turn / 3) % 4);
        let call = [now(down(from as u16)), up(to as u16), up(4)];
        u32::from(me.op(id, &call).is_ok())
    };
    let taken = || u32::from(me.op(id, &[now(down(4))]).is_ok());
    let counts: Vec<(u32, u32)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                scope.spawn(move || {
                    let turn = |turn| match turn % 4 {
                        3 => (0, taken()),
                        _ => (moved(turn, thread), 0),
                    };
                    (0..TURNS).map(turn).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
                })
            })
            .collect();
        for _ in 0..TURNS / 10 {
            let mut sum = 0;
            me.semaphore_values(id, &ROOT, |number, value| {
                sum += if number < 4 { u32::from(value) } else { 0 };
            })
            .unwrap();
            assert_eq!(sum, 4 * TOKENS);
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let moved: u32 = counts.iter().map(|count| count.0).sum();
    let taken: u32 = counts.iter().map(|count| count.1).sum();
    assert!(moved > 0 && taken > 0);
    assert_eq!(me.value(id, 4), moved - taken);
    assert_eq!((0..4).map(|number| me.value(id, number)).sum::<u32>(), 4 * TOKENS);
    assert_eq!(me.semaphore_pid(id, 4, &ROOT), Ok(10));
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn what_cannot_be_is_refused_as_semop_does() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(2);
    assert_eq!(me.op(id, &[]), Err(Errno::INVAL));
    assert_eq!(me.op(id, &[up(2)]), Err(Errno::FBIG));
    assert_eq!(me.op(id, &vec![up(0); 501]), Err(Errno::TOOBIG));
    assert_eq!(me.op(id + 1, &[up(0)]), Err(Errno::INVAL));
    me.put(id, 0, 32767);
    assert_eq!(me.op(id, &[up(0)]), Err(Errno::RANGE));
    assert_eq!(me.op(id, &[up(1), up(0)]), Err(Errno::RANGE));
    assert_eq!(me.value(id, 1), 0);
    assert_eq!(me.set_semaphore(id, 0, 32768, &ROOT), Err(Errno::RANGE));
    assert_eq!(me.set_semaphore(id, 0, -1, &ROOT), Err(Errno::RANGE));
    assert_eq!(me.set_semaphore(id, 2, 1, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.semget(PRIVATE, 0, 0o600, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.semget(PRIVATE, -1, 0o600, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.semget(PRIVATE, 32001, 0o600, &ROOT), Err(Errno::INVAL));
    let joining_client = User(1000);
    assert_eq!(me.semop(id, &[up(0)], None, &joining_client), Err(Errno::ACCESS));
    assert_eq!(me.set_remove(id, &joining_client), Err(Errno::PERM));
    me.set_remove(id, &ROOT).unwrap();
    assert_eq!(me.op(id, &[up(0)]), Err(Errno::INVAL));
    empty(&pool, &me);
}

#[test]
fn setall_and_getall_move_all_values() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(100);
    me.set_semaphores(id, &|n| n as u16 * 3, &ROOT).unwrap();
    let mut seen = [0; 100];
    me.semaphore_values(id, &ROOT, |n, value| seen[n] = value).unwrap();
    assert!(seen.iter().enumerate().all(|(n, value)| *value == n as u16 * 3));
    assert_eq!(me.set_semaphores(id, &|_| 40_000, &ROOT), Err(Errno::RANGE));
    assert_eq!(me.value(id, 99), 297);
    assert_eq!(me.semaphore_count(id), Ok(100));
    me.op(id, &[down(99)]).unwrap();
    assert_eq!(me.value(id, 99), 296);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_fast_way_opens_again_behind_a_slow_one() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.set(1);
    me.op(id, &[up(0), up(0)]).unwrap();
    for _ in 0..100 {
        me.op(id, &[up(0)]).unwrap();
        me.op(id, &[down(0)]).unwrap();
    }
    assert_eq!(me.value(id, 0), 2);
    me.set_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let one = (0u16..4, -3i16..4, any::<bool>()).prop_map(|(number, change, undo)| Operation {
        number,
        change,
        no_wait: true,
        undo,
    });
    prop::collection::vec(one, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn arrays_do_what_a_model_does(calls in prop::collection::vec(operations(), 1..40)) {
        let pool = pool();
        let (me, last) = (join(&pool, 10), join(&pool, 11));
        let id = me.set(4);
        let mut model = [0i32; 4];
        let mut adjusted = [0i32; 4];
        for call in calls {
            let mut next = model;
            let done = call.iter().all(|o| {
                let value = &mut next[usize::from(o.number)];
                let left = *value + i32::from(o.change);
                let goes = if o.change == 0 { left == 0 } else { left >= 0 };
                *value += i32::from(o.change);
                goes
            });
            let result = me.op(id, &call);
            if done {
                prop_assert_eq!(result, Ok(()));
                model = next;
                for o in call.iter().filter(|o| o.undo) {
                    adjusted[usize::from(o.number)] -= i32::from(o.change);
                }
            } else {
                prop_assert_eq!(result, Err(Errno::AGAIN));
            }
            for (n, value) in model.iter().enumerate() {
                prop_assert_eq!(me.value(id, n as i32) as i32, *value);
            }
        }
        sound(&pool);
        last.reap(me.client_id()).unwrap();
        for n in 0..4 {
            let expected = (model[n] + adjusted[n]).clamp(0, 32767);
            prop_assert_eq!(last.value(id, n as i32) as i32, expected);
        }
        last.set_remove(id, &ROOT).unwrap();
        empty(&pool, &last);
    }
}
