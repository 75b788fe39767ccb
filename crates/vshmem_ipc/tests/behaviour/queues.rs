use crate::fixture::*;
use proptest::prelude::*;
use vshmem_ipc::{Errno, Receive};

#[test]
fn messages_come_by_type_as_msgrcv_says() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    for kind in [5, 3, 9, 3, 1] {
        me.send(id, kind, &[kind as u8]).unwrap();
    }
    assert_eq!(me.receive(id, 3).unwrap(), (3, vec![3]));
    assert_eq!(me.receive(id, -4).unwrap(), (1, vec![1]));
    assert_eq!(me.receive(id, -4).unwrap(), (3, vec![3]));
    assert_eq!(me.receive_now(id, -4), Err(Errno::NOMSG));
    assert_eq!(me.receive_as(id, Receive { except: true, ..of_type(5) }).unwrap().0, 9);
    assert_eq!(me.receive(id, 0).unwrap().0, 5);
    assert_eq!(me.receive_now(id, 0), Err(Errno::NOMSG));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn texts_of_every_size_arrive_whole() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    for size in [0, 1, 111, 112, 113, 1000, 4096, 8191, 8192] {
        let text: Vec<u8> = (0..size).map(|n| (n * 7 + size) as u8).collect();
        me.send(id, 4, &text).unwrap();
        assert_eq!(me.receive(id, 0).unwrap(), (4, text));
    }
    assert_eq!(me.send(id, 1, &[0; 8193]), Err(Errno::INVAL));
    assert_eq!(me.send(id, 0, &[]), Err(Errno::INVAL));
    assert_eq!(me.send(id, -1, &[]), Err(Errno::INVAL));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_message_too_big_stays_or_is_cut() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    me.send(id, 1, b"twelve bytes").unwrap();
    let little = Receive { room: 6, ..of_type(0) };
    assert_eq!(me.receive_as(id, little), Err(Errno::TOOBIG));
    assert_eq!(me.queue_stat(id, &ROOT).unwrap().count, 1);
    assert_eq!(
        me.receive_as(id, Receive { cut: true, ..little }).unwrap(),
        (1, b"twelve".to_vec())
    );
    assert_eq!(me.queue_stat(id, &ROOT).unwrap().bytes, 0);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn msg_copy_leaves_the_message() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    for n in 0..3u8 {
        me.send(id, 7, &[n; 300]).unwrap();
    }
    let copy = Receive { copy: true, no_wait: true, ..of_type(1) };
    assert_eq!(me.receive_as(id, copy).unwrap(), (7, vec![1; 300]));
    assert_eq!(me.receive_as(id, Receive { mtype: 3, ..copy }), Err(Errno::NOMSG));
    assert_eq!(me.receive_as(id, Receive { no_wait: false, ..copy }), Err(Errno::INVAL));
    assert_eq!(me.receive_as(id, Receive { except: true, ..copy }), Err(Errno::INVAL));
    assert_eq!(me.queue_stat(id, &ROOT).unwrap().count, 3);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_delivery_that_fails_loses_the_message() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    me.send(id, 1, b"x").unwrap();
    let lost = me.msgrcv(id, of_type(0), &ROOT, &mut |_, _, _| Err(Errno::FAULT));
    assert_eq!(lost, Err(Errno::FAULT));
    assert_eq!(me.receive_now(id, 0), Err(Errno::NOMSG));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_default_queue_takes_16384_empty_messages() {
    let pool = pool_of(vshmem_wire::Geometry { slabs: 64, ..small() });
    let me = join(&pool, 10);
    let id = me.queue();
    for n in 0..16_384 {
        me.send_now(id, n + 1, &[]).unwrap();
    }
    assert_eq!(me.send_now(id, 1, &[]), Err(Errno::AGAIN));
    sound(&pool);
    assert_eq!(me.receive(id, 0).unwrap().0, 1);
    assert_eq!(me.receive(id, -16_384).unwrap().0, 2);
    assert_eq!(me.receive(id, 16_384).unwrap().0, 16_384);
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn two_messages_of_half_the_limit_fill_a_queue() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.queue();
    me.send_now(id, 1, &[0; 8192]).unwrap();
    me.send_now(id, 1, &[0; 8192]).unwrap();
    assert_eq!(me.send_now(id, 1, &[0]), Err(Errno::AGAIN));
    me.send_now(id, 1, &[]).unwrap();
    let stat = me.queue_stat(id, &ROOT).unwrap();
    assert_eq!((stat.bytes, stat.count, stat.limit, stat.sender), (16_384, 3, 16_384, 10));
    let info = me.msg_info().unwrap();
    assert_eq!((info.queues, info.messages, info.bytes), (1, 3, 16_384));
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_limit_is_raised_by_the_privileged_only() {
    let pool = pool();
    let me = join(&pool, 10);
    let owner = User(1000);
    let id = me.msgget(PRIVATE, 0o600, &owner).unwrap();
    assert_eq!(me.queue_change(id, 1000, 1000, 0o600, 16_385, &owner), Err(Errno::PERM));
    me.queue_change(id, 1000, 1000, 0o600, 100, &owner).unwrap();
    me.queue_change(id, 1000, 1000, 0o620, 1 << 20, &ROOT).unwrap();
    assert_eq!(me.queue_stat(id, &owner).unwrap().limit, 1 << 20);
    assert_eq!(me.msgsnd(id, 1, &[], true, &User(7)), Err(Errno::ACCESS));
    assert_eq!(me.queue_remove(id, &User(7)), Err(Errno::PERM));
    me.queue_remove(id, &owner).unwrap();
    assert_eq!(me.send(id, 1, &[]), Err(Errno::INVAL));
    empty(&pool, &me);
}

#[test]
fn a_full_heap_is_enomem_and_recovers() {
    let pool = pool_of(vshmem_wire::Geometry { slabs: 2, ..small() });
    let me = join(&pool, 10);
    let id = me.queue();
    me.queue_change(id, 0, 0, 0o600, 1 << 30, &ROOT).unwrap();
    let mut sent = 0;
    while me.send_now(id, 1, &[9; 4000]).is_ok() {
        sent += 1;
    }
    assert_eq!(me.send_now(id, 1, &[9; 4000]), Err(Errno::NOMEM));
    assert_eq!(sent, 30);
    sound(&pool);
    assert_eq!(me.receive(id, 0).unwrap().1, vec![9; 4000]);
    me.send_now(id, 1, &[9; 4000]).unwrap();
    while me.receive_now(id, 0).is_ok() {}
    // The slabs serve another size now.
    for _ in 0..100 {
        me.send_now(id, 1, &[1]).unwrap();
    }
    me.queue_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn queues_do_what_a_model_does(steps in prop::collection::vec(
        prop_oneof![
            (1i64..6, 0usize..600).prop_map(|(kind, size)| (true, kind, size)),
            (-6i64..6, 0usize..600).prop_map(|(kind, size)| (false, kind, size)),
        ], 1..120))
    {
        let pool = pool();
        let me = join(&pool, 10);
        let id = me.queue();
        let mut model: Vec<(i64, Vec<u8>)> = Vec::new();
        for (nth, (send, kind, size)) in steps.into_iter().enumerate() {
            if send {
                let text = vec![nth as u8; size];
                let bytes: usize = model.iter().map(|(_, text)| text.len()).sum();
                let sent = me.send_now(id, kind, &text);
                if bytes + size <= 16_384 {
                    prop_assert_eq!(sent, Ok(()));
                    model.push((kind, text));
                } else {
                    prop_assert_eq!(sent, Err(Errno::AGAIN));
                }
                continue;
            }
            let wanted = match kind {
                0 => model.iter().position(|_| true),
                ..0 => model
                    .iter()
                    .enumerate()
                    .filter(|(_, (k, _))| *k <= -kind)
                    .min_by_key(|(at, (k, _))| (*k, *at))
                    .map(|(at, _)| at),
                _ => model.iter().position(|(k, _)| *k == kind),
            };
            let got = me.receive_as(id, Receive { room: size, no_wait: true, ..of_type(kind) });
            match wanted {
                None => prop_assert_eq!(got, Err(Errno::NOMSG)),
                Some(at) if model[at].1.len() > size => prop_assert_eq!(got, Err(Errno::TOOBIG)),
                Some(at) => prop_assert_eq!(got, Ok(model.remove(at))),
            }
        }
        sound(&pool);
        prop_assert_eq!(me.queue_stat(id, &ROOT).unwrap().count as usize, model.len());
        me.queue_remove(id, &ROOT).unwrap();
        empty(&pool, &me);
    }
}
