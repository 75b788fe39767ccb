use crate::fixture::*;
use proptest::prelude::*;
use vshmem_wire::Geometry;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn sizes_of_all_classes_come_and_go(
        sizes in prop::collection::vec((0usize..8193, any::<bool>()), 1..200),
    ) {
        let pool = pool_of(Geometry { slabs: 6, ..small() });
        let (me, other) = (join(&pool, 10), join(&pool, 11));
        let id = me.queue();
        me.queue_change(id, 0, 0, 0o600, 1 << 30, &ROOT).unwrap();
        for (size, take) in sizes {
            let text = vec![size as u8; size];
            if me.send_now(id, 1, &text).is_err() || take {
                let got = other.receive_now(id, 0);
                if let Ok((_, text)) = got {
                    let size = text.len();
                    prop_assert!(text.iter().all(|byte| *byte == size as u8));
                }
            }
            sound(&pool);
        }
        me.queue_remove(id, &ROOT).unwrap();
        empty(&pool, &me);
    }
}

#[test]
fn runs_and_chunks_share_the_slabs() {
    let pool = pool_of(Geometry { slabs: 10, ..small() });
    let me = join(&pool, 10);
    for round in 0..10 {
        let large = me.set(20_000 + round);
        let small: Vec<i32> = (0..8).map(|_| me.set(10)).collect();
        sound(&pool);
        me.set_remove(large, &ROOT).unwrap();
        let queue = me.queue();
        for n in 0..40 {
            me.send_now(queue, 1, &vec![1; n * 20]).unwrap();
        }
        let again = me.set(16_000);
        sound(&pool);
        me.queue_remove(queue, &ROOT).unwrap();
        me.set_remove(again, &ROOT).unwrap();
        for id in small {
            me.set_remove(id, &ROOT).unwrap();
        }
    }
    empty(&pool, &me);
}

#[test]
fn many_that_fill_and_empty_a_small_heap_never_share_a_chunk() {
    let pool = pool_of(Geometry { slabs: 4, ..small() });
    let all_clients: Vec<_> = (0..4).map(|n| join(&pool, 10 + n)).collect();
    std::thread::scope(|scope| {
        for (n, me) in all_clients.iter().enumerate() {
            scope.spawn(move || {
                let id = me.queue();
                me.queue_change(id, 0, 0, 0o600, 1 << 30, &ROOT).unwrap();
                let mut seed = n as u32 + 1;
                for _ in 0..3000 {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let size = [10, 200, 900, 3000, 7000][(seed >> 20) as usize % 5];
                    let mark = n as u8 * 50 + (size % 50) as u8;
                    if me.send_now(id, 1, &vec![mark; size]).is_err() || seed >> 30 == 0 {
                        while let Ok((_, text)) = me.receive_now(id, 0) {
                            let mark = n as u8 * 50 + (text.len() % 50) as u8;
                            assert!(text.iter().all(|byte| *byte == mark));
                        }
                    }
                }
                me.queue_remove(id, &ROOT).unwrap();
            });
        }
    });
    empty(&pool, &all_clients[0]);
}
