//! The ring of a message queue.

use std::sync::Arc;

use loom::thread;
use vshmem_mem::{Map, Ordering};
use vshmem_wire::PAGE_BYTES;

use crate::model::{cells, explore};

/// The ring of a message queue: senders and receivers without the lock, and whoever closes it.
pub mod message_ring {
    use super::*;
    pub use vshmem_sync::MessageRing;
    use vshmem_sync::{Inline, Spot, Tail};

    pub const RING: u64 = PAGE_BYTES + 128;
    /// A word for each chunk: what is in its message.
    pub const TEXTS: u64 = PAGE_BYTES + 256;
    /// The type that somebody asleep waits for.
    pub const AWAITED: u64 = PAGE_BYTES + 320;
    pub const BYTES: u64 = PAGE_BYTES + 384;

    /// Sends; false when the ring is closed.
    pub fn send(map: &Map, message: u32) -> bool {
        loop {
            match MessageRing::look(map, RING).expect("a ring").tail() {
                Tail::Free(spot) if spot.fill(map, message, false).expect("a word") => return true,
                Tail::Free(_) => {}
                _ => return false,
            }
        }
    }

    /// Sends a text in a chunk that a slot notes, or in this one.
    pub fn send_text(map: &Map, unit: u32, text: u64) -> bool {
        loop {
            let Tail::Free(spot) = MessageRing::look(map, RING).expect("a ring").tail() else {
                return false;
            };
            let unit = spot.chunk().unwrap_or(unit);
            map.store(TEXTS + 8 * u64::from(unit), text, Ordering::Relaxed).expect("a word");
            if spot.fill(map, unit, false).expect("a word") {
                return true;
            }
        }
    }

    /// Sends a text in a slot itself; false when the ring is closed.
    pub fn send_inline(map: &Map, text: u64) -> bool {
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
    pub fn text_in(map: &Map, spot: Spot) -> u64 {
        match spot.inline() {
            Some(what) => {
                assert_eq!(what, (7, 8));
                u64::from_le_bytes(spot.inline_text(map).expect("a text"))
            }
            None => u64::from(spot.chunk().expect("a chunk")),
        }
    }

    /// Receives the first message: its text, or the number of its chunk.
    pub fn receive_any(map: &Map) -> Option<u64> {
        receive_if(map, |spot| Some(text_in(map, spot)))
    }

    /// As `leave`, with the texts of messages in slots.
    pub fn leave_any(map: &Map) -> Vec<u64> {
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

    /// Sends so many bytes in a chunk, if `limit` allows them beside what is in the ring.
    pub fn send_bytes(map: &Map, unit: u32, bytes: u64, limit: u64) -> bool {
        let size_of = |unit: u32| TEXTS + 8 * u64::from(unit);
        map.store(size_of(unit), bytes, Ordering::Relaxed).expect("a word");
        loop {
            let ring = MessageRing::look(map, RING).expect("a ring");
            let Tail::Free(spot) = ring.tail() else { return false };
            if bytes + bytes_in(map, &ring) > limit {
                return false;
            }
            if spot.fill(map, unit, true).expect("a word") {
                return true;
            }
        }
    }

    /// Bytes of the messages in a ring.
    pub fn bytes_in(map: &Map, ring: &MessageRing) -> u64 {
        let size = |spot: Spot| {
            let at = TEXTS + 8 * u64::from(spot.chunk().expect("a chunk"));
            map.load(at, Ordering::Relaxed).expect("a word")
        };
        ring.messages().map(size).sum()
    }

    /// Receives the first message that `accepts` does, by its slot; `None` when there is none or the ring is closed.
    pub fn receive_if<T>(map: &Map, accepts: impl Fn(Spot) -> Option<T>) -> Option<T> {
        'look: loop {
            let ring = MessageRing::look(map, RING).expect("a ring");
            for spot in ring.messages() {
                if spot.is_closed() {
                    return None;
                }
                if let Some(found) = accepts(spot) {
                    if spot.take(map).expect("a word") {
                        return Some(found);
                    }
                    continue 'look;
                }
            }
            if ring.tail() == Tail::Closed || !ring.has_moved(map) {
                return None;
            }
        }
    }

    /// Receives; `None` when there is nothing or the ring is closed.
    pub fn receive(map: &Map) -> Option<u32> {
        receive_if(map, Spot::chunk)
    }

    /// Receives a message of a type: that is the tens of its number.
    pub fn receive_of(map: &Map, kind: u32) -> Option<u32> {
        receive_if(map, |spot| spot.chunk().filter(|number| number / 10 == kind))
    }

    /// The same where the number is the text.
    pub fn receive_text(map: &Map, kind: u64) -> Option<u64> {
        receive_if(map, |spot| {
            let text = TEXTS + 8 * u64::from(spot.chunk()?);
            let text = map.load(text, Ordering::Relaxed).expect("a word");
            (text / 10 == kind).then_some(text)
        })
    }

    /// Sends a message whose type is the tens of its number; false when somebody asleep waits for it, or the ring is closed.
    pub fn send_unless_awaited(map: &Map, message: u32) -> bool {
        loop {
            let tail = MessageRing::look(map, RING).expect("a ring").tail();
            let Tail::Free(spot) = tail else { return false };
            let awaited = map.load(AWAITED, Ordering::Acquire).expect("a word");
            if awaited == u64::from(message / 10) {
                return false;
            }
            if spot.fill(map, message, false).expect("a word") {
                return true;
            }
        }
    }

    /// Lies down for a type as the change under the lock does; false when there is a message of it.
    pub fn lie_down(map: &Map, kind: u32) -> bool {
        MessageRing::bar(map, RING).expect("a barrier");
        let ring = MessageRing::look(map, RING).expect("a ring");
        let found =
            ring.messages().filter_map(|spot| spot.chunk()).any(|number| number / 10 == kind);
        if !found {
            let nobody = map.load_cell(AWAITED).expect("a cell");
            assert!(map.replace_cell(AWAITED, nobody, kind.into()).expect("a cell"));
        }
        let (spot, word) = ring.passed().expect("a closed tail");
        let seen = spot.cell(map).expect("a cell");
        assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not closed");
        !found
    }

    /// Closes the ring as somebody who dies after the first step.
    pub fn begin_to_close(map: &Map) {
        if let Tail::Free(spot) = MessageRing::look(map, RING).expect("a ring").tail() {
            let _ = map.replace(spot.at, spot.word, spot.word | 1 << 27).expect("a word");
        }
    }

    /// Closes the ring and takes what is left, as the change under the lock does.
    pub fn leave(map: &Map) -> Vec<u32> {
        MessageRing::close(map, RING).expect("a close");
        let ring = MessageRing::look(map, RING).expect("a ring");
        assert!(ring.is_frozen() && ring.makes_sense(), "{ring:x?}");
        for (spot, word) in ring.emptied() {
            let seen = spot.cell(map).expect("a cell");
            assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not frozen");
        }
        ring.messages().filter_map(|spot| spot.chunk()).collect()
    }

    /// Opens it again, as the change under the lock does.
    pub fn open(map: &Map) {
        let ring = MessageRing::look(map, RING).expect("a ring");
        let (spot, word) = ring.opened().expect("a closed ring");
        let seen = spot.cell(map).expect("a cell");
        assert!(map.replace_cell(spot.at, seen, word).expect("a cell"), "not closed");
    }
}

#[test]
fn each_message_is_taken_once() {
    use message_ring::*;
    explore(2, || {
        let map = cells(BYTES);
        let sender = Arc::clone(&map);
        let receiver = Arc::clone(&map);
        assert!(send(&map, 1));
        let other = thread::spawn(move || send(&sender, 2));
        let taken = thread::spawn(move || receive(&receiver));
        assert!(send(&map, 3));
        assert!(other.join().expect("a thread"));
        let first = taken.join().expect("a thread");
        assert_eq!(first, Some(1));
        let mut rest = [receive(&map), receive(&map)];
        rest.sort_unstable();
        assert_eq!((rest, receive(&map)), ([Some(2), Some(3)], None));
    });
}

/// Two senders, and a receiver who sends again in the chunk that it has taken.
#[test]
fn a_ring_never_holds_more_bytes_than_its_queue_allows() {
    use message_ring::*;
    const LIMIT: u64 = 10;
    explore(2, || {
        let map = cells(BYTES);
        assert!(send_bytes(&map, 1, 6, LIMIT));
        let senders: Vec<_> = [(2, 5), (3, 4)]
            .into_iter()
            .map(|(unit, bytes)| {
                let map = Arc::clone(&map);
                thread::spawn(move || send_bytes(&map, unit, bytes, LIMIT))
            })
            .collect();
        assert_eq!(receive(&map), Some(1));
        let again = send_bytes(&map, 1, 3, LIMIT);
        let sent: Vec<bool> =
            senders.into_iter().map(|sender| sender.join().expect("a thread")).collect();
        let ring = MessageRing::look(&map, RING).expect("a ring");
        let bytes = bytes_in(&map, &ring);
        assert_eq!(bytes, 3 * u64::from(again) + 5 * u64::from(sent[0]) + 4 * u64::from(sent[1]));
        assert!(bytes <= LIMIT, "{bytes}");
    });
}

#[test]
fn what_is_sent_is_received_or_found_by_whoever_closes_in_order() {
    use message_ring::*;
    explore(3, || {
        let map = cells(BYTES);
        assert!(send(&map, 1));
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || [send(&map, 2), send(&map, 3)])
        };
        let taken = receive(&map);
        let left = leave(&map);
        let sent = sender.join().expect("a thread");
        assert!(sent[0] || !sent[1], "sent past a closed ring");
        let sent: Vec<u32> =
            [1].into_iter().chain((2..4).filter(|n| sent[*n as usize - 2])).collect();
        assert_eq!(taken.into_iter().chain(left).collect::<Vec<_>>(), sent);
    });
}

#[test]
fn what_is_not_received_is_found_by_whoever_closes_a_full_ring() {
    use message_ring::*;
    explore(1, || {
        let map = cells(BYTES);
        assert!((1..=8).all(|message| send(&map, message)) && !send(&map, 9));
        let receiver = {
            let map = Arc::clone(&map);
            thread::spawn(move || [receive(&map), receive(&map)])
        };
        let left = leave(&map);
        assert!(!send(&map, 10), "sent past a closed ring");
        let taken = receiver.join().expect("a thread");
        let all: Vec<u32> = taken.into_iter().flatten().chain(left).collect();
        assert_eq!(all, (1..=8).collect::<Vec<_>>());
    });
}

#[test]
fn somebody_who_died_while_closing_leaves_nothing_undone() {
    use message_ring::*;
    explore(2, || {
        let map = cells(BYTES);
        assert!(send(&map, 1));
        let dead = {
            let map = Arc::clone(&map);
            thread::spawn(move || begin_to_close(&map))
        };
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || send(&map, 2))
        };
        let taken = receive(&map);
        let left = leave(&map);
        dead.join().expect("a thread");
        let expected = if sender.join().expect("a thread") { vec![1, 2] } else { vec![1] };
        assert_eq!(taken.into_iter().chain(left).collect::<Vec<_>>(), expected);
        open(&map);
        assert!(send(&map, 4));
        assert_eq!(receive(&map), Some(4));
    });
}

#[test]
fn whoever_was_stopped_while_the_ring_was_closed_and_opened_comes_too_late_or_in_time() {
    use message_ring::*;
    explore(3, || {
        let map = cells(BYTES);
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || send(&map, 1))
        };
        let left = leave(&map);
        open(&map);
        let sent = sender.join().expect("a thread");
        let found: Vec<u32> = left.into_iter().chain(receive(&map)).collect();
        assert_eq!(found, if sent { vec![1] } else { vec![] });
    });
    explore(3, || {
        let map = cells(BYTES);
        assert!(send(&map, 1));
        let receiver = {
            let map = Arc::clone(&map);
            thread::spawn(move || receive(&map))
        };
        let left = leave(&map);
        open(&map);
        assert!(send(&map, 2));
        let taken = receiver.join().expect("a thread");
        let found: Vec<u32> = left.into_iter().chain(taken).chain(receive(&map)).collect();
        let mut sorted = found;
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2]);
    });
}

#[test]
fn a_ring_that_is_emptied_and_opened_again_loses_nothing_of_a_sender_and_a_receiver() {
    use message_ring::*;
    explore(2, || {
        let map = cells(BYTES);
        assert!(send(&map, 1));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || send(&one, 2));
        let receiver = thread::spawn(move || receive(&two));
        let mut found = leave(&map);
        open(&map);
        assert!(send(&map, 3));
        let sent = sender.join().expect("a thread");
        found.extend(receiver.join().expect("a thread"));
        found.extend(std::iter::from_fn(|| receive(&map)));
        found.sort_unstable();
        assert_eq!(found, if sent { vec![1, 2, 3] } else { vec![1, 3] });
    });
}

#[test]
fn two_receivers_of_their_own_types_and_a_sender_meet_in_a_ring() {
    use message_ring::*;
    explore(3, || {
        let map = cells(BYTES);
        assert!([10, 20, 11].into_iter().all(|message| send(&map, message)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || [send(&one, 21), send(&one, 12)]);
        let ones = thread::spawn(move || [receive_of(&two, 1), receive_of(&two, 1)]);
        let mut twos = vec![receive_of(&map, 2), receive_of(&map, 2)];
        assert_eq!(sender.join().expect("a thread"), [true; 2]);
        assert_eq!(ones.join().expect("a thread"), [Some(10), Some(11)], "they were there before");
        assert_eq!(twos[0], Some(20));
        if twos[1].is_none() {
            twos[1] = receive_of(&map, 2);
        }
        assert_eq!(twos[1], Some(21));
        assert_eq!([receive(&map), receive(&map)], [Some(12), None]);
    });
}

#[test]
fn two_receivers_of_their_own_types_find_all_or_whoever_closes_does() {
    use message_ring::*;
    explore(1, || {
        let map = cells(BYTES);
        assert!([10, 20].into_iter().all(|message| send(&map, message)));
        let others = [1, 2].map(|kind| {
            let map = Arc::clone(&map);
            thread::spawn(move || receive_of(&map, kind))
        });
        let left = leave(&map);
        open(&map);
        assert!(send(&map, 12));
        let [one, two] = others.map(|other| other.join().expect("a thread"));
        assert!([None, Some(10), Some(12)].contains(&one), "{one:?}");
        assert!([None, Some(20)].contains(&two), "{two:?}");
        let taken = |number: &u32| [one, two].contains(&Some(*number));
        let expected: Vec<u32> = [10, 20].into_iter().filter(|number| !taken(number)).collect();
        assert_eq!(left, expected, "in order");
        assert_eq!(receive(&map).is_some(), one != Some(12));
    });
}

#[test]
fn a_receiver_is_not_misled_by_a_chunk_that_is_sent_again() {
    use message_ring::*;
    // The chunk of the first message carries one of the other type next, in another slot.
    explore(3, || {
        let map = cells(BYTES);
        assert!(send_text(&map, 1, 10) && send_text(&map, 2, 20) && send_text(&map, 3, 11));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let again = thread::spawn(move || {
            let taken = receive_text(&one, 1);
            let unit = match taken {
                Some(10) => 1,
                _ => 3,
            };
            assert!(send_text(&one, unit, 21));
            taken
        });
        let others = thread::spawn(move || receive_text(&two, 2));
        let mine = receive_text(&map, 1);
        let theirs = again.join().expect("a thread");
        let mut ones = [mine, theirs];
        ones.sort_unstable();
        assert_eq!(ones, [Some(10), Some(11)]);
        assert_eq!(others.join().expect("a thread"), Some(20), "the first of its type");
        assert_eq!([receive_text(&map, 2), receive_text(&map, 2)], [Some(21), None]);
    });
}

#[test]
fn a_ring_with_gaps_is_frozen_by_two_that_close_it_at_once() {
    use message_ring::*;
    explore(1, || {
        let map = cells(BYTES);
        assert!([10, 20].into_iter().all(|message| send(&map, message)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let receiver = thread::spawn(move || receive_of(&one, 2));
        let closer = thread::spawn(move || {
            MessageRing::close(&two, RING).expect("a close");
        });
        let left = leave(&map);
        closer.join().expect("a thread");
        match receiver.join().expect("a thread") {
            Some(number) => assert_eq!((number, left), (20, vec![10])),
            None => assert_eq!(left, [10, 20]),
        }
        assert!(!send(&map, 12), "sent past a closed ring");
    });
}

#[test]
fn nobody_lies_down_past_a_message_of_its_type() {
    use message_ring::*;
    explore(3, || {
        let map = cells(BYTES);
        assert!(send(&map, 10));
        let senders = [20, 21].map(|message| {
            let map = Arc::clone(&map);
            thread::spawn(move || send_unless_awaited(&map, message))
        });
        let asleep = lie_down(&map, 2);
        let sent = senders.map(|sender| sender.join().expect("a thread"));
        let found: Vec<_> = std::iter::from_fn(|| receive_of(&map, 2)).collect();
        assert_eq!(found.len(), sent.into_iter().filter(|sent| *sent).count());
        assert!(!asleep || found.is_empty(), "nobody wakes it");
        assert_eq!(receive(&map), Some(10));
    });
}

#[test]
fn others_send_and_receive_beside_whoever_lies_down() {
    use message_ring::*;
    explore(3, || {
        let map = cells(BYTES);
        assert!(send(&map, 10) && send(&map, 30));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let sender = thread::spawn(move || send_unless_awaited(&one, 11));
        let receiver = thread::spawn(move || receive_of(&two, 3));
        assert!(lie_down(&map, 2));
        let taken = receiver.join().expect("a thread").or_else(|| receive_of(&map, 3));
        assert_eq!(taken, Some(30));
        if !sender.join().expect("a thread") {
            // It met the barrier, and goes under the lock.
            assert!(send_unless_awaited(&map, 11));
        }
        assert!(!send_unless_awaited(&map, 20), "it is awaited");
        assert!(MessageRing::look(&map, RING).expect("a ring").makes_sense());
        assert_eq!([receive(&map), receive(&map), receive(&map)], [Some(10), Some(11), None]);
    });
}

/// A text in a slot is never seen in part or for another, whoever sends next into the slot: eight laps on, or in a chunk.
#[test]
fn a_text_in_a_slot_is_that_of_its_message() {
    use message_ring::*;
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
    use message_ring::*;
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
