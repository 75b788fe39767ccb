//! A ring against a list, over all laps, depths and closings.

use std::collections::VecDeque;

use vshmem_mem::{Map, Ordering};
use vshmem_wire::{CELL_BYTES, Place, RING_SLOTS, RawCell};

use super::neighbours::RingWords;
use super::ring::{MessageRing, Tail};
use super::slot::{CLOSED, FULL, INLINE, Inline, LAP_BITS, LAP_SHIFT, RingSlot};

const RING: Place<[RawCell; RING_SLOTS]> = Place::at(0);

fn is_long(unit: u32) -> bool {
    unit.is_multiple_of(23)
}

fn holds_long(map: &Map, ring: &MessageRing) -> bool {
    ring.messages().filter_map(|ring_slot| number(map, ring_slot)).any(is_long)
}

fn fill(map: &Map, unit: u32) -> Tail {
    let ring = <MessageRing>::read(map, RING).expect("a ring");
    let tail = ring.tail();
    if let Tail::Free(ring_slot) = tail {
        let is_large = is_long(unit) || holds_long(map, &ring);
        let filled = match Inline::of(77, &unit.to_le_bytes()) {
            Some(message) if unit % 5 < 2 => ring_slot.fill_inline(map, message, is_large),
            _ => ring_slot.fill(map, unit, is_large),
        };
        assert!(filled.expect("a word"));
    }
    tail
}

/// What the tests take out: the unit, or the payload that stands for it.
fn number(map: &Map, ring_slot: RingSlot) -> Option<u32> {
    if ring_slot.is_inline() {
        let text = ring_slot.inline_payload(map).expect("a payload");
        assert_eq!(ring_slot.inline(), Some((77, 4)));
        return Some(u64::from_le_bytes(text) as u32);
    }
    ring_slot.chunk()
}

fn take(map: &Map) -> Option<u32> {
    let ring_slot = <MessageRing>::read(map, RING).expect("a ring").messages().next()?;
    let number = number(map, ring_slot);
    assert!(ring_slot.take(map).expect("a word"));
    number
}

/// Empties and opens a ring as a change under the lock does.
fn reopen(map: &Map) -> Vec<u32> {
    <MessageRing>::close(map, RING).expect("a close");
    let ring = <MessageRing>::read(map, RING).expect("a ring");
    assert!(ring.is_frozen() && ring.makes_sense());
    let left = ring.messages().filter_map(|ring_slot| number(map, ring_slot)).collect();
    for (ring_slot, word) in ring.words_to_empty() {
        assert!(map.replace(ring_slot.at.word(), ring_slot.word, word).expect("a word"));
        assert!(<MessageRing>::read(map, RING).expect("a ring").is_frozen());
    }
    let ring = <MessageRing>::read(map, RING).expect("a ring");
    assert!(ring.is_frozen() && ring.makes_sense());
    assert_eq!((ring.tail(), ring.messages().count()), (Tail::Closed, 0));
    let (ring_slot, word) = ring.words_to_open().expect("a closed ring");
    assert!(map.replace(ring_slot.at.word(), ring_slot.word, word).expect("a word"));
    left
}

#[test]
fn messages_come_out_in_order_over_all_laps_and_closings() {
    for lap in [0, (1 << LAP_BITS) - 4] {
        let map = Map::anonymous(4096);
        for slot in 0..RING_SLOTS as u64 {
            map.store(slot * CELL_BYTES, lap << LAP_SHIFT, Ordering::Relaxed).expect("a word");
        }
        let mut model = VecDeque::new();
        // A pattern with every depth from empty to full, and closings at each.
        for step in 0..5000_u32 {
            let ring = <MessageRing>::read(&map, RING).expect("a ring");
            assert!(ring.makes_sense(), "step {step}: {ring:x?}");
            let held: VecDeque<_> =
                ring.messages().filter_map(|ring_slot| number(&map, ring_slot)).collect();
            assert_eq!(held, model);
            match (step / 13 % 3, step % 37) {
                (_, 36) => assert_eq!(reopen(&map), Vec::from(std::mem::take(&mut model))),
                (0 | 1, n) if n % 3 != 0 => match fill(&map, step) {
                    Tail::Free(_) => model.push_back(step),
                    other => assert_eq!((other, model.len()), (Tail::Full, RING_SLOTS)),
                },
                _ => assert_eq!(take(&map), model.pop_front()),
            }
        }
    }
}

/// Looks at two slots instead of all, with each guess; says how often the tail and the oldest
/// message were found so.
fn ends_of_two_slots(map: &Map, ring: &MessageRing) -> [u32; 2] {
    let mut found = [0; 2];
    let words = map.words_ref::<{ 2 * RING_SLOTS }>(0).expect("a ring");
    let words = RingWords::<_, RING_SLOTS>::of(words, 0, RING);
    for guess in 0..RING_SLOTS {
        if let Some((tail, _)) = words.tail_at(guess) {
            assert_eq!(ring.tail(), Tail::Free(tail), "{guess}: {ring:x?}");
            assert!(!holds_long(map, ring), "{guess}: {ring:x?}");
            found[0] += 1;
        }
        if let Some(head) = words.head_at(guess) {
            let expected = ring.messages().next().unwrap_or(ring.tail_slot());
            assert_eq!((head.at, head.word), (expected.at, expected.word), "{guess}: {ring:x?}");
            found[1] += 1;
            let alone = head.tail_if_alone(map).expect("a ring");
            // Behind a message there may be gaps, too.
            let is_alone = ring.tail == ring.head + 1 && ring.tail() != Tail::Closed;
            assert_eq!(alone.map(Tail::Free), is_alone.then(|| ring.tail()), "{ring:x?}");
        }
    }
    assert!(found[0] <= 1 && found[1] <= 1, "{found:?}");
    found
}

#[test]
fn two_slots_show_the_ends_of_a_stream_that_is_never_empty_nor_full() {
    let map = Map::anonymous(4096);
    for step in 0..200 {
        fill(&map, step * 23 + 1);
        if step > 0 {
            assert!(take(&map).is_some());
            let ring = <MessageRing>::read(&map, RING).expect("a ring");
            assert_eq!(ends_of_two_slots(&map, &ring), [1, 1], "{step}: {ring:x?}");
        }
    }
}

/// A list of messages, each with its position's number.
#[test]
fn messages_of_random_types_come_out_as_from_a_list() {
    let map = Map::anonymous(4096);
    let (mut model, mut last, mut random) = (VecDeque::new(), 0_u32, 7_u32);
    let mut found = [0; 2];
    for step in 0..20_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let kind = random >> 16 & 3;
        let ring = <MessageRing>::read(&map, RING).expect("a ring");
        assert!(ring.makes_sense(), "step {step}: {ring:x?}");
        let held: VecDeque<_> =
            ring.messages().filter_map(|ring_slot| number(&map, ring_slot)).collect();
        assert_eq!(held, model);
        let now = ends_of_two_slots(&map, &ring);
        found = [found[0] + now[0], found[1] + now[1]];
        match random >> 20 & 15 {
            0 => assert_eq!(reopen(&map), Vec::from(std::mem::take(&mut model))),
            1 => {
                <MessageRing>::close_tail(&map, RING).expect("a barrier");
                assert_eq!(fill(&map, 1), Tail::Closed);
                let ring = <MessageRing>::read(&map, RING).expect("a ring");
                // A message in the tail's slot itself goes into a chunk.
                let moved = ring.inline_tail().and_then(|ring_slot| number(&map, ring_slot));
                assert!(moved.is_none() || ring.words_to_pass(None).is_none());
                let (ring_slot, word) = ring.words_to_pass(moved).expect("a closed tail");
                let seen = ring_slot.cell(&map).expect("a cell");
                assert!(map.replace_cell(ring_slot.at, seen, word).expect("a cell"));
                assert!(
                    <MessageRing>::read(&map, RING).expect("a ring").words_to_pass(moved).is_none()
                );
            }
            2..9 => {
                let number = (last + 1) << 2 | kind;
                if let Tail::Free(_) = fill(&map, number) {
                    model.push_back(number);
                    last = (last + 1) % 1000;
                } else {
                    assert!(!model.is_empty(), "a ring without messages is never full");
                }
            }
            _ => {
                let found = ring
                    .messages()
                    .find(|ring_slot| number(&map, *ring_slot).is_some_and(|n| n & 3 == kind));
                let expected = model.iter().position(|number| number & 3 == kind);
                assert_eq!(
                    found.and_then(|ring_slot| number(&map, ring_slot)),
                    expected.and_then(|at| model.remove(at))
                );
                if let Some(ring_slot) = found {
                    assert!(ring_slot.take(&map).expect("a word"));
                }
            }
        }
    }
    assert!(found.iter().all(|times| *times > 2000), "{found:?}");
}

#[test]
fn only_short_texts_of_small_types_fit_into_a_slot() {
    assert!(Inline::of(1, &[]).is_some() && Inline::of(1, &[1; 8]).is_some());
    assert!(Inline::of(1, &[1; 9]).is_none());
    assert!(Inline::of((1 << 22) - 1, &[]).is_some() && Inline::of(1 << 22, &[]).is_none());
    let map = Map::anonymous(4096);
    for text in [&b"12345678"[..], b"1", b"", &[0xff; 8]] {
        let Tail::Free(ring_slot) = <MessageRing>::read(&map, RING).expect("a ring").tail() else {
            panic!("room")
        };
        let message = Inline::of(4711, text).expect("a short message");
        assert!(ring_slot.fill_inline(&map, message, false).expect("a cell"));
        assert!(!ring_slot.fill_inline(&map, message, false).expect("a cell"), "it is full");
        let ring_slot = <MessageRing>::read(&map, RING).expect("a ring").messages().next();
        let ring_slot = ring_slot.expect("a message");
        assert_eq!((ring_slot.inline(), ring_slot.chunk()), (Some((4711, text.len())), None));
        assert_eq!(&ring_slot.inline_payload(&map).expect("a payload")[..text.len()], text);
        assert!(ring_slot.take(&map).expect("a word") && !ring_slot.taken().is_inline());
    }
    assert!(<MessageRing>::read(&map, RING).expect("a ring").vacant().all(|s| s.chunk().is_none()));
}

#[test]
fn a_look_before_a_closing_comes_too_late() {
    let map = Map::anonymous(4096);
    let Tail::Free(free) = fill(&map, 7) else { panic!("room") };
    let full = <MessageRing>::read(&map, RING).expect("a ring").messages().next();
    let full = full.expect("a message");
    let Tail::Free(next) = <MessageRing>::read(&map, RING).expect("a ring").tail() else {
        panic!("room")
    };
    assert_eq!(reopen(&map), [7]);
    assert!(!free.fill(&map, 8, false).expect("a word"));
    assert!(!next.fill(&map, 9, true).expect("a word"));
    assert!(!full.take(&map).expect("a word"));
}

#[test]
fn words_that_make_no_sense_are_told_and_can_be_renewed() {
    let map = Map::anonymous(4096);
    for (slot, word) in [(0, u64::MAX), (3, FULL | 9), (5, 77 << LAP_SHIFT), (6, CLOSED | INLINE)] {
        map.store(slot * CELL_BYTES, word, Ordering::Relaxed).expect("a word");
    }
    let ring = <MessageRing>::read(&map, RING).expect("a ring");
    assert!(!ring.makes_sense() && ring.words_to_open().is_none());
    for (ring_slot, word) in ring.words_to_renew() {
        assert!(map.replace(ring_slot.at.word(), ring_slot.word, word).expect("a word"));
    }
    let ring = <MessageRing>::read(&map, RING).expect("a ring");
    assert!(ring.makes_sense() && !ring.is_frozen());
    assert!(matches!(fill(&map, 1), Tail::Free(_)));
    assert_eq!(take(&map), Some(1));
}
