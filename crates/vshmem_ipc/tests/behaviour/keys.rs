use crate::fixture::*;
use vshmem_ipc::Errno;

#[test]
fn keys_of_the_three_kinds_do_not_meet() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 10));
    let segment = me.segment(1, 1, CREATE).unwrap();
    assert_eq!(me.semget(1, 0, 0, &ROOT), Err(Errno::NOENT));
    let set = me.semget(1, 1, CREATE | 0o600, &ROOT).unwrap();
    assert_eq!(me.msgget(1, 0, &ROOT), Err(Errno::NOENT));
    let queue = me.msgget(1, CREATE | 0o600, &ROOT).unwrap();
    assert_eq!(other.segment(1, 0, 0), Ok(segment));
    assert_eq!(other.semget(1, 1, 0o600, &ROOT), Ok(set));
    assert_eq!(other.semget(1, 2, 0o600, &ROOT), Err(Errno::INVAL));
    assert_eq!(other.msgget(1, 0o600, &ROOT), Ok(queue));
    assert_eq!(other.semget(1, 1, CREATE | EXCLUSIVE, &ROOT), Err(Errno::EXIST));
    assert_eq!(other.msgget(1, CREATE | EXCLUSIVE, &ROOT), Err(Errno::EXIST));
    me.segment_remove(segment, &ROOT).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    me.queue_remove(queue, &ROOT).unwrap();
    assert_eq!(me.msgget(1, 0, &ROOT), Err(Errno::NOENT));
    empty(&pool, &me);
}

#[test]
fn chains_of_colliding_keys_lose_no_object() {
    // Few enough buckets that some keys always share one: removed and made again in every order.
    let pool = pool();
    let me = join(&pool, 10);
    let mut known: Vec<(i32, i32)> = Vec::new();
    let mut seed = 12345u32;
    for round in 0..2000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if known.len() == 16 || (seed >> 16).is_multiple_of(3) && !known.is_empty() {
            let (_, id) = known.swap_remove((seed >> 8) as usize % known.len());
            me.set_remove(id, &ROOT).unwrap();
        } else {
            let key = round * 4096 + 1;
            known.push((key, me.semget(key, 1, CREATE | EXCLUSIVE, &ROOT).unwrap()));
        }
        for (key, id) in &known {
            assert_eq!(me.semget(*key, 0, 0, &ROOT), Ok(*id));
        }
        sound(&pool);
    }
    for (_, id) in known {
        me.set_remove(id, &ROOT).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn ids_differ_when_a_slot_is_used_again() {
    let pool = pool();
    let me = join(&pool, 10);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let id = me.queue();
        assert!(seen.insert(id));
        me.queue_remove(id, &ROOT).unwrap();
        assert_eq!(me.queue_stat(id, &ROOT), Err(Errno::INVAL));
    }
    empty(&pool, &me);
}

#[test]
fn private_is_never_found() {
    let pool = pool();
    let me = join(&pool, 10);
    let (a, b) = (me.queue(), me.queue());
    assert_ne!(a, b);
    me.queue_remove(a, &ROOT).unwrap();
    me.queue_remove(b, &ROOT).unwrap();
    empty(&pool, &me);
}
