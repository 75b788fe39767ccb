//! The ring of a message queue.

use std::sync::Arc;

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};
use loom::thread;
use vshmem_sync::MessageRing;

use crate::model::{cells, explore};
use crate::ring_steps::*;

#[test]
fn each_message_is_taken_once() {
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

/// Two senders of different priorities, and a receiver who sends as well.
#[test]
fn no_message_comes_behind_one_of_a_lower_priority() {
    explore(2, || {
        let map = cells(BYTES);
        assert!(send(&map, 4));
        let senders: Vec<_> = [3, 5]
            .into_iter()
            .map(|message| {
                let map = Arc::clone(&map);
                thread::spawn(move || send_in_order(&map, message))
            })
            .collect();
        assert!(receive(&map).is_some_and(|first| first == 4));
        let third = send_in_order(&map, 2);
        let sent = senders.into_iter().map(|it| it.join().expect("a thread"));
        let sent = sent.filter(|it| *it).count() + usize::from(third);
        let left: Vec<u32> = std::iter::from_fn(|| receive(&map)).collect();
        assert_eq!(left.len(), sent);
        assert!(left.is_sorted_by(|one, next| one >= next), "{left:?}");
    });
}

/// Two senders, and a receiver who sends again in the chunk that it has taken.
#[test]
fn a_ring_never_holds_more_bytes_than_its_queue_allows() {
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
        let ring = <MessageRing>::read(&map, RING).expect("a ring");
        let bytes = bytes_in(&map, &ring);
        assert_eq!(bytes, 3 * u64::from(again) + 5 * u64::from(sent[0]) + 4 * u64::from(sent[1]));
        assert!(bytes <= LIMIT, "{bytes}");
    });
}

#[test]
fn what_is_sent_is_received_or_found_in_order_by_the_thread_that_closes() {
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
fn what_is_not_received_is_found_by_the_thread_that_closes_a_full_ring() {
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
fn a_thread_that_died_while_closing_leaves_nothing_undone() {
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
fn a_thread_stopped_while_the_ring_was_closed_and_opened_comes_too_late_or_in_time() {
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
fn two_receivers_of_their_own_types_or_the_thread_that_closes_find_all() {
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
    explore(1, || {
        let map = cells(BYTES);
        assert!([10, 20].into_iter().all(|message| send(&map, message)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let receiver = thread::spawn(move || receive_of(&one, 2));
        let closer = thread::spawn(move || {
            <MessageRing>::close(&two, RING).expect("a close");
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
fn no_receiver_enqueues_past_a_message_of_its_type() {
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
        assert!(!asleep || found.is_empty(), "no thread wakes it");
        assert_eq!(receive(&map), Some(10));
    });
}

#[test]
fn others_send_and_receive_while_a_receiver_enqueues() {
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
        assert!(<MessageRing>::read(&map, RING).expect("a ring").makes_sense());
        assert_eq!([receive(&map), receive(&map), receive(&map)], [Some(10), Some(11), None]);
    });
}

/// A payload in a slot is never seen in part, nor taken for that of another message, whatever is
/// sent into the slot next: a message eight laps later, or one in a chunk.
#[test]
fn a_payload_in_a_slot_is_that_of_its_message() {
    explore(2, || {
        let map = cells(BYTES);
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
fn payloads_in_slots_are_received_or_found_by_the_thread_that_closes() {
    explore(1, || {
        let map = cells(BYTES);
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

/// The thread that lies down closes the tail, which in a full ring holds the oldest text, and opens
/// it again.
#[test]
fn a_payload_in_a_full_ring_is_not_changed_by_a_receiver_that_enqueues() {
    explore(1, || {
        let map = cells(BYTES);
        assert!((1..=8).all(|text| send_inline(&map, text)));
        let (one, two) = (Arc::clone(&map), Arc::clone(&map));
        let receiver = thread::spawn(move || [receive_any(&one), receive_any(&one)]);
        let sender = thread::spawn(move || send_inline(&two, 9));
        bar_and_pass(&map);
        bar_and_pass(&map);
        let taken = receiver.join().expect("a thread");
        let sent = sender.join().expect("a thread");
        let rest = std::iter::from_fn(|| receive_any(&map));
        let all: Vec<u64> = taken.into_iter().flatten().chain(rest).collect();
        assert_eq!(all, (1..if sent { 10 } else { 9 }).collect::<Vec<_>>());
    });
}

/// A receiver of the oldest, one of a type that leaves gaps, and a sender: none of the first two
/// may be misled about what is the oldest.
#[test]
fn what_two_slots_show_as_the_oldest_is_the_oldest() {
    explore(2, || {
        let map = cells(BYTES);
        assert!(send(&map, 11) && receive(&map) == Some(11));
        assert!(send(&map, 12) && send(&map, 21) && send(&map, 13));
        let of_type = {
            let map = Arc::clone(&map);
            thread::spawn(move || receive_of(&map, 2))
        };
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || send_near(&map, 4, 14))
        };
        // Slots 1, 2 and 3 are those of 12, 21 and 13.
        let taken: Vec<u32> = (1..4).filter_map(|slot| receive_near(&map, slot)).collect();
        let other = of_type.join().expect("a thread");
        let sent = sender.join().expect("a thread");
        let mut expected = vec![12, 21, 13];
        expected.retain(|message| other != Some(*message));
        expected.extend(sent.then_some(14));
        let rest = std::iter::from_fn(|| receive(&map));
        assert_eq!(taken.into_iter().chain(rest).collect::<Vec<_>>(), expected);
    });
}

/// A sender, a receiver of the oldest that sends again, and one that waits for another type: that
/// one does not overlook what was sent to it before it looked.
#[test]
fn who_finds_one_message_of_another_type_in_two_slots_has_overlooked_none() {
    explore(2, || {
        let map = cells(BYTES);
        assert!(send(&map, 11) && receive(&map) == Some(11));
        assert!(send(&map, 12));
        let has_sent = Arc::new(AtomicBool::new(false));
        let sender = {
            let (map, has_sent) = (Arc::clone(&map), Arc::clone(&has_sent));
            thread::spawn(move || {
                assert!(send(&map, 21));
                has_sent.store(true, Release);
            })
        };
        let other = {
            let map = Arc::clone(&map);
            thread::spawn(move || receive_of(&map, 1).is_some() && send(&map, 13))
        };
        for slot in [1, 2] {
            let was_sent = has_sent.load(Acquire);
            let found_none = has_one_of_another_type(&map, slot, 2);
            assert!(!(was_sent && found_none));
        }
        sender.join().expect("a thread");
        assert!(other.join().expect("a thread"));
        assert!(!has_one_of_another_type(&map, 1, 2) && !has_one_of_another_type(&map, 2, 2));
        assert_eq!((receive_of(&map, 2), receive_of(&map, 1)), (Some(21), Some(13)));
    });
}

#[test]
fn what_goes_by_two_slots_is_received_or_found_by_the_thread_that_closes() {
    explore(2, || {
        let map = cells(BYTES);
        assert!(send(&map, 1) && receive(&map) == Some(1));
        assert!(send_near(&map, 1, 2));
        let sender = {
            let map = Arc::clone(&map);
            thread::spawn(move || send_near(&map, 2, 3))
        };
        let receiver = {
            let map = Arc::clone(&map);
            thread::spawn(move || [receive_near(&map, 1), receive_near(&map, 2)])
        };
        let left = leave(&map);
        open(&map);
        let sent = sender.join().expect("a thread");
        let taken = receiver.join().expect("a thread");
        let mut all: Vec<u32> = taken.into_iter().flatten().collect();
        all.extend(left);
        all.extend(std::iter::from_fn(|| receive(&map)));
        assert_eq!(all, if sent { vec![2, 3] } else { vec![2] });
    });
}
