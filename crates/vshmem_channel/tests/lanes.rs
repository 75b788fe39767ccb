//! What goes in comes out, whatever others write.

use std::sync::Arc;

use proptest::prelude::*;
use vshmem_channel::{ClaimError, Identity, Outbound, Port, Received, SendError, Shape};
use vshmem_mem::{Map, Ordering};
use vshmem_wire::ClientId;

const NONCE: u64 = 77;

fn who(client: u64) -> Identity {
    Identity { client, port: 5, nonce: 6, mark: client + 100 }
}

fn port(lanes: u32, lane_bytes: u32) -> (Arc<Map>, Port) {
    let shape = Shape::new(lanes, lane_bytes).unwrap();
    let map = Arc::new(Map::anonymous(shape.bytes() as usize + 4096));
    let port = Port::make(&map, 4096, shape, NONCE, 1).unwrap();
    (map, port)
}

fn claim(map: &Arc<Map>, port: &Port, client: u64) -> Result<Outbound, ClaimError> {
    Outbound::claim(map, 4096, port.shape().bytes(), NONCE, who(client))
}

fn text(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|nth| (seed.wrapping_mul(31).wrapping_add(nth * 7)) as u8).collect()
}

/// Takes a message; `None` when there is none.
fn take(map: &Map, port: &mut Port) -> Option<(u64, u8, Vec<u8>)> {
    match port.receive(1, |_| true) {
        Received::Message(message) => {
            let mut bytes = vec![0; message.bytes as usize];
            map.read(message.at, &mut bytes).unwrap();
            let mark = port.sender(message.lane).unwrap().mark;
            port.release(&message);
            Some((mark, message.tag, bytes))
        }
        Received::Empty => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_size_arrives_in_order_across_the_end_of_the_ring() {
    let (map, mut port) = port(1, 4096);
    let mut lane = claim(&map, &port, 3).unwrap();
    let most = lane.most_bytes() as usize;
    for round in 0..20 {
        for size in (0..=most).step_by(1 + round) {
            let sent = text(size as u64 + round as u64, size);
            lane.send(&[&sent[..size / 2], &sent[size / 2..]], size as u8).unwrap();
            if round % 2 == 0 {
                lane.clear_ahead();
            }
            assert_eq!(take(&map, &mut port), Some((103, size as u8, sent)));
            assert_eq!(take(&map, &mut port), None);
        }
    }
    assert_eq!(lane.send(&[&vec![0; most + 1]], 0), Err(SendError::TooLong));
}

#[test]
fn a_lane_is_drained_when_the_last_message_is_read_wherever_the_ring_ends() {
    let (map, mut port) = port(2, 4096);
    let mut lanes = [claim(&map, &port, 3).unwrap(), claim(&map, &port, 4).unwrap()];
    for round in 0..20 {
        for lane in &mut lanes {
            lane.send(&[&text(round, 1 + round as usize)], 0).unwrap();
            assert_eq!(lane.is_drained(), Ok(false));
        }
        while take(&map, &mut port).is_some() {}
        // The receiver goes on looking, and finds nothing.
        (0..100).for_each(|_| assert_eq!(take(&map, &mut port), None));
        for lane in &mut lanes {
            assert_eq!(lane.is_drained(), Ok(true), "round {round}");
        }
    }
}

#[test]
fn a_full_ring_says_so_and_goes_on_when_it_is_read() {
    let (map, mut port) = port(2, 4096);
    let mut lane = claim(&map, &port, 3).unwrap();
    let (mut sent, mut read) = (0_u64, 0_u64);
    while read < 5000 {
        while lane.send(&[&text(sent, (sent % 900) as usize)], 1).is_ok() {
            sent += 1;
        }
        while let Some((_, _, bytes)) = take(&map, &mut port) {
            assert_eq!(bytes, text(read, (read % 900) as usize));
            read += 1;
        }
        assert_eq!(sent, read);
    }
}

#[test]
fn threads_exchange_every_byte() {
    let (map, mut port) = port(4, 8192);
    let senders: Vec<_> = (1..=4).map(|name| claim(&map, &port, name).unwrap()).collect();
    std::thread::scope(|scope| {
        for mut lane in senders {
            scope.spawn(move || {
                let mut seed = 0;
                while seed < 3000 {
                    match lane.send(&[&text(seed, (seed * 37 % 2000) as usize)], 9) {
                        Ok(()) => seed += 1,
                        Err(SendError::Full) => std::thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let mut next = [0_u64; 4];
        while next.iter().sum::<u64>() < 4 * 3000 {
            match take(&map, &mut port) {
                Some((mark, _, bytes)) => {
                    let seed = &mut next[mark as usize - 101];
                    assert_eq!(bytes, text(*seed, (*seed * 37 % 2000) as usize));
                    *seed += 1;
                }
                None => std::thread::yield_now(),
            }
        }
    });
}

#[test]
fn lanes_are_limited_and_come_back_when_their_sender_is_gone() {
    let (map, mut port) = port(2, 4096);
    let mut first = claim(&map, &port, 1).unwrap();
    let second = claim(&map, &port, 2).unwrap();
    assert_eq!(claim(&map, &port, 3).unwrap_err(), ClaimError::Full);
    first.send(&[b"last words"], 1).unwrap();
    assert_eq!(take(&map, &mut port).unwrap().2, b"last words");
    first.send(&[b"unread"], 1).unwrap();
    // Client 1 has died; what it had sent is read first.
    let alive = |client| client != 1;
    let Received::Message(message) = port.reclaim(alive) else { panic!("a message was lost") };
    port.release(&message);
    assert_eq!(port.reclaim(alive), Received::Left(who(1)));
    second.close();
    assert_eq!(port.reclaim(alive), Received::Left(who(2)));
    let mut third = claim(&map, &port, 3).unwrap();
    // What the dead one writes late is not taken for the new one's.
    first.send(&[b"from the dead"], 1).unwrap();
    assert_eq!(take(&map, &mut port), None);
    third.send(&[b"new"], 1).unwrap();
    assert_eq!(take(&map, &mut port).unwrap(), (103, 1, b"new".to_vec()));
}

#[test]
fn a_sender_without_a_lane_asks_and_is_led_to_more() {
    let (map, mut port) = port(1, 4096);
    let _lane = claim(&map, &port, 3).unwrap();
    assert!(!port.is_asked_for_more(), "nobody has asked");
    assert_eq!(claim(&map, &port, 4).unwrap_err(), ClaimError::Full);
    assert_eq!(take(&map, &mut port), None);
    assert!(port.is_asked_for_more());
    assert!(!port.is_asked_for_more(), "it was told once");
    port.lead_on(Some((9, 99)));
    assert_eq!(claim(&map, &port, 4).unwrap_err(), ClaimError::Elsewhere { id: 9, nonce: 99 });
    port.lead_on(None);
    assert_eq!(claim(&map, &port, 4).unwrap_err(), ClaimError::NoMore);
}

#[test]
fn a_lane_that_its_sender_has_left_is_freed_before_more_are_made() {
    let (map, mut port) = port(1, 4096);
    claim(&map, &port, 3).unwrap().close();
    assert_eq!(claim(&map, &port, 4).unwrap_err(), ClaimError::Full);
    assert!(matches!(port.receive(1, |_| true), Received::Left(_)));
    assert!(!port.is_asked_for_more(), "there is one now");
    claim(&map, &port, 4).unwrap();
}

#[test]
fn a_sender_sees_that_the_port_is_closed() {
    let (map, port) = port(1, 4096);
    let lane = claim(&map, &port, 3).unwrap();
    assert!(!lane.is_closed());
    port.close();
    assert!(lane.is_closed());
}

#[test]
fn a_sender_whose_slot_has_been_taken_thousands_of_times_since_is_not_taken_for_its_successors() {
    let (map, mut port) = port(2, 4096);
    // As a pool names them: a slot, and how often it has been taken.
    let name = |count: u64| ClientId::new(5, count).word();
    for successors in [1 << 12, 1 << 32, 1 << 40] {
        let mut lane = claim(&map, &port, name(7)).unwrap();
        lane.send(&[b"first"], 1).unwrap();
        assert_eq!(take(&map, &mut port).unwrap().2, b"first");
        let left = port.reclaim(|alive| alive == name(7 + successors));
        assert_eq!(left, Received::Left(who(name(7))));
    }
}

#[test]
fn what_was_sent_before_the_lane_was_closed_is_read_from_an_unknown_sender() {
    let (map, mut port) = port(1, 4096);
    let mut lane = claim(&map, &port, 3).unwrap();
    lane.send(&[b"in passing"], 1).unwrap();
    lane.close();
    assert_eq!(take(&map, &mut port).unwrap(), (103, 1, b"in passing".to_vec()));
    assert!(matches!(port.reclaim(|_| false), Received::Left(sender) if sender.mark == 103));
    // Its successor's messages are not taken for its own.
    let mut next = claim(&map, &port, 4).unwrap();
    assert_eq!(take(&map, &mut port), None);
    next.send(&[b"next"], 2).unwrap();
    assert_eq!(take(&map, &mut port).unwrap(), (104, 2, b"next".to_vec()));
}

#[test]
fn a_port_that_is_gone_is_not_taken_for_its_successor() {
    let (map, _port) = port(2, 4096);
    let shape = Shape::new(2, 4096).unwrap();
    let stale = Outbound::claim(&map, 4096, shape.bytes(), NONCE + 1, who(1));
    assert_eq!(stale.unwrap_err(), ClaimError::Gone);
    let short = Outbound::claim(&map, 4096, shape.bytes() - 1, NONCE, who(1));
    assert_eq!(short.unwrap_err(), ClaimError::Corrupt);
}

#[test]
fn a_message_that_came_out_shorter_leaves_nothing_behind() {
    let (map, mut port) = port(1, 4096);
    let mut lane = claim(&map, &port, 3).unwrap();
    let header = 1_u64 << 55 | 8 << 32;
    for round in 0..300_u64 {
        lane.clear_ahead();
        let at = lane.reserve(200).unwrap();
        for nth in 0..25 {
            map.store(at + nth * 8, header | (round + nth / 8), Ordering::Relaxed).unwrap();
        }
        lane.publish(8, 4).unwrap();
        assert_eq!(take(&map, &mut port).unwrap().2.len(), 8);
        assert_eq!(take(&map, &mut port), None);
    }
}

#[test]
fn old_text_is_not_read_as_a_header() {
    let (map, mut port) = port(1, 4096);
    let mut lane = claim(&map, &port, 3).unwrap();
    // Texts that are nothing but headers of every position.
    for round in 0..200_u64 {
        let words: Vec<u8> = (0..60)
            .flat_map(|nth| (1_u64 << 55 | 8 << 32 | (round / 2 * 8 + nth / 8)).to_le_bytes())
            .collect();
        lane.send(&[&words], 2).unwrap();
        lane.clear_ahead();
        assert_eq!(take(&map, &mut port).unwrap().2, words);
        assert_eq!(take(&map, &mut port), None);
    }
}

proptest! {
    /// A hostile peer writes anything anywhere: no process crashes, reads outside, or loops.
    #[test]
    fn scribbling_harms_the_lane_only(
        writes in prop::collection::vec((0_u64..4096, any::<u64>(), 0_u8..6), 1..60),
    ) {
        let (map, mut port) = port(3, 4096);
        let mut lane = claim(&map, &port, 3).unwrap();
        let words = port.shape().bytes() / 8;
        for (at, value, action) in writes {
            match action {
                0..=2 => {
                    // Near the beginning of everything that is looked at.
                    let areas = [0, 512, 1024, 1536];
                    let word = (areas[at as usize % 4] + at / 4 % 64) % words;
                    map.store(4096 + word * 8, value, Ordering::Relaxed).unwrap();
                }
                3 => { let _ = lane.send(&[&text(at, (at % 1000) as usize)], 7); }
                4 => { let _ = claim(&map, &port, at); }
                _ => for _ in 0..8 {
                    if let Received::Message(message) = port.receive(1, |_| true) {
                        let end = message.at + u64::from(message.bytes);
                        prop_assert!(message.at >= 4096 && end <= 4096 + port.shape().bytes());
                        port.release(&message);
                    }
                    let _ = port.reclaim(|client| client % 2 == 0);
                },
            }
        }
    }
}
