//! Messages that lie in the slots of a ring themselves.

use std::sync::Arc;

use loom::thread;
use vshmem_mem::Map;
use vshmem_sync::{Inline, MessageRing, Spot, Tail};

use crate::message_ring::message_ring::{BYTES, RING, open, receive_if, send};
use crate::model::explore;

/// Sends a text in a slot itself; false when the ring is closed.
fn send_inline(map: &Map, text: u64) -> bool {
    let message = Inline::of(7, &text.to_le_bytes()).expect("a short message");
    loop {
        match MessageRing::look(map, RING).expect("a ring").tail() {
            Tail::Free(spot) if spot.fill_inline(map, message).expect("a cell") => return true,
            Tail::Free(_) => {}
            _ => return false,
        }
    }
}

/// The text of a message in a slot, or the number of the chunk.
fn text_in(map: &Map, spot: Spot) -> u64 {
    match spot.inline() {
        Some(what) => {
            assert_eq!(what, (7, 8));
            u64::from_le_bytes(spot.inline_text(map).expect("a text"))
        }
        None => u64::from(spot.chunk().expect("a chunk")),
    }
}

/// Receives the first message: its text, or the number of its chunk.
fn receive_any(map: &Map) -> Option<u64> {
    receive_if(map, |spot| Some(text_in(map, spot)))
}

/// As `leave`, with the texts of messages in slots.
fn leave_any(map: &Map) -> Vec<u64> {
    MessageRing::close(map, RING).expect("a close");
    let ring = MessageRing::look(map, RING).expect("a ring");
    assert!(ring.is_frozen() && ring.makes_sense(), "{ring:x?}");
    let left = ring.messages().map(|spot| text_in(map, spot)).collect();
    for (spot, word) in ring.emptied() {
        let seen = spot.cell(map).expect("a cell");
        assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not frozen");
    }
    left
}

/// A text in a slot is never seen in part or for another, whoever sends next into the slot: eight laps on, or in a chunk.
#[test]
fn a_text_in_a_slot_is_that_of_its_message() {
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        // One more message fits; the receiver makes room for the next.
        assert!((1..=7).all(|text| send_inline(&map, text)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || [send_inline(&one, 18), send_inline(&one, 19)]);
        let other = thread::spawn(move || send(&two, 20));
        let taken = [receive_any(&map), receive_any(&map)];
        assert_eq!(taken, [Some(1), Some(2)]);
        let sent = sender.join().expect("a thread");
        let other = other.join().expect("a thread");
        let rest: Vec<u64> = std::iter::from_fn(|| receive_any(&map)).collect();
        assert_eq!(rest[..5], [3, 4, 5, 6, 7]);
        let mut late = rest[5..].to_vec();
        let own: Vec<u64> = late.iter().copied().filter(|text| *text != 20).collect();
        let expected: Vec<u64> = [18, 19]
            .into_iter()
            .zip(sent)
            .filter_map(|(text, sent)| sent.then_some(text))
            .collect();
        assert_eq!(own, expected, "in order");
        late.retain(|text| *text == 20);
        assert_eq!(late.len(), usize::from(other));
    });
}

#[test]
fn texts_in_slots_are_received_or_found_by_whoever_closes() {
    explore(2, || {
        let map = Arc::new(Map::anonymous(BYTES as usize));
        assert!(send_inline(&map, 1) && send(&map, 2));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || send_inline(&one, 3));
        let receiver = thread::spawn(move || receive_any(&two));
        let mut found = leave_any(&map);
        assert!(found.is_sorted());
        open(&map);
        assert!(send_inline(&map, 4));
        let sent = sender.join().expect("a thread");
        found.extend(receiver.join().expect("a thread"));
        found.extend(std::iter::from_fn(|| receive_any(&map)));
        found.sort_unstable();
        assert_eq!(found, if sent { vec![1, 2, 3, 4] } else { vec![1, 2, 4] });
    });
}
