//! What senders, receivers and the thread that closes a ring do, for the models of it.

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Inline, MessageRing, RingSlot, RingWords, Tail};
use vshmem_wire::{PAGE_BYTES, Place, RING_SLOTS, RawCell};

pub const RING: Place<[RawCell; RING_SLOTS]> = Place::at(PAGE_BYTES + 128);
/// A word for each chunk: what is in its message.
pub const TEXTS: u64 = PAGE_BYTES + 256;
/// The type that another thread asleep waits for.
pub const AWAITED: u64 = PAGE_BYTES + 320;
pub const BYTES: u64 = PAGE_BYTES + 384;

/// Sends; false when the ring is closed.
pub fn send(map: &Map, message: u32) -> bool {
    loop {
        match <MessageRing>::read(map, RING).expect("a ring").tail() {
            Tail::Free(ring_slot) if ring_slot.fill(map, message, false).expect("a word") => {
                return true;
            }
            Tail::Free(_) => {}
            _ => return false,
        }
    }
}

/// The ring for a look at two slots.
fn words(map: &Map) -> RingWords<'_, { 2 * RING_SLOTS }, RING_SLOTS> {
    RingWords::of(map.words_ref(RING.offset()).expect("a ring"), 0, RING)
}

/// Sends into the slot of this number, if two slots show that it is the tail.
pub fn send_near(map: &Map, slot: usize, message: u32) -> bool {
    match words(map).tail_at(slot) {
        Some((ring_slot, _)) => ring_slot.fill(map, message, false).expect("a word"),
        None => false,
    }
}

/// Sends a message whose priority is its number, unless there may be one with a lower number.
pub fn send_in_order(map: &Map, message: u32) -> bool {
    loop {
        let tail = <MessageRing>::read(map, RING).expect("a ring").tail();
        let Tail::Free(ring_slot) = tail else { return false };
        let may_follow = match ring_slot.last_before(map).expect("a ring") {
            None => true,
            Some(last) if !last.is_full() => last.was_oldest(),
            Some(last) => last.chunk().is_some_and(|it| it >= message) && !last.has_moved(map),
        };
        if !may_follow {
            return false;
        }
        if ring_slot.fill(map, message, false).expect("a word") {
            return true;
        }
    }
}

/// Receives from the slot of this number, if two slots show that it has the oldest message.
pub fn receive_near(map: &Map, slot: usize) -> Option<u32> {
    let head = words(map).head_at(slot)?;
    (head.is_full() && head.take(map).expect("a word")).then(|| head.chunk().expect("a chunk"))
}

/// Whether two slots show that there is one message, in the slot of this number, and that it is of
/// another type than this.
pub fn has_one_of_another_type(map: &Map, slot: usize, kind: u32) -> bool {
    let Some(head) = words(map).head_at(slot) else { return false };
    let is_another = head.is_full() && head.chunk().is_some_and(|number| number / 10 != kind);
    let tail = head.tail_if_alone(map).expect("a ring");
    is_another && tail.is_some_and(|tail| !tail.has_moved(map))
}

/// Sends a text in a chunk that a slot notes, or in this one.
pub fn send_text(map: &Map, unit: u32, text: u64) -> bool {
    loop {
        let Tail::Free(ring_slot) = <MessageRing>::read(map, RING).expect("a ring").tail() else {
            return false;
        };
        let unit = ring_slot.chunk().unwrap_or(unit);
        map.store(TEXTS + 8 * u64::from(unit), text, Ordering::Relaxed).expect("a word");
        if ring_slot.fill(map, unit, false).expect("a word") {
            return true;
        }
    }
}

/// Sends a text in a slot itself; false when the ring is closed.
pub fn send_inline(map: &Map, text: u64) -> bool {
    let message = Inline::of(7, &text.to_le_bytes()).expect("a short message");
    loop {
        match <MessageRing>::read(map, RING).expect("a ring").tail() {
            Tail::Free(ring_slot)
                if ring_slot.fill_inline(map, message, false).expect("a cell") =>
            {
                return true;
            }
            Tail::Free(_) => {}
            _ => return false,
        }
    }
}

/// The text of a message in a slot, or the number of the chunk.
pub fn text_in(map: &Map, ring_slot: RingSlot) -> u64 {
    match ring_slot.inline() {
        Some(what) => {
            assert_eq!(what, (7, 8));
            u64::from_le_bytes(ring_slot.inline_payload(map).expect("a text"))
        }
        None => u64::from(ring_slot.chunk().expect("a chunk")),
    }
}

/// Receives the first message: its text, or the number of its chunk.
pub fn receive_any(map: &Map) -> Option<u64> {
    receive_if(map, |ring_slot| Some(text_in(map, ring_slot)))
}

/// As `leave`, with the texts of messages in slots.
pub fn leave_any(map: &Map) -> Vec<u64> {
    <MessageRing>::close(map, RING).expect("a close");
    let ring = <MessageRing>::read(map, RING).expect("a ring");
    assert!(ring.is_frozen() && ring.makes_sense(), "{ring:x?}");
    let left = ring.messages().map(|ring_slot| text_in(map, ring_slot)).collect();
    for (ring_slot, word) in ring.words_to_empty() {
        let seen = ring_slot.cell(map).expect("a cell");
        assert!(map.replace_cell(ring_slot.at, seen, word).expect("a cell"), "not frozen");
    }
    left
}

/// Sends so many bytes in a chunk, if `limit` allows them beside what is in the ring.
pub fn send_bytes(map: &Map, unit: u32, bytes: u64, limit: u64) -> bool {
    let size_of = |unit: u32| TEXTS + 8 * u64::from(unit);
    map.store(size_of(unit), bytes, Ordering::Relaxed).expect("a word");
    loop {
        let ring = <MessageRing>::read(map, RING).expect("a ring");
        let Tail::Free(ring_slot) = ring.tail() else { return false };
        if bytes + bytes_in(map, &ring) > limit {
            return false;
        }
        if ring_slot.fill(map, unit, true).expect("a word") {
            return true;
        }
    }
}

/// Bytes of the messages in a ring.
pub fn bytes_in(map: &Map, ring: &MessageRing) -> u64 {
    let size = |ring_slot: RingSlot| {
        let at = TEXTS + 8 * u64::from(ring_slot.chunk().expect("a chunk"));
        map.load(at, Ordering::Relaxed).expect("a word")
    };
    ring.messages().map(size).sum()
}

/// Receives the first message that `accepts` does, by its slot; `None` when there is none or the
/// ring is closed.
pub fn receive_if<T>(map: &Map, accepts: impl Fn(RingSlot) -> Option<T>) -> Option<T> {
    'look: loop {
        let ring = <MessageRing>::read(map, RING).expect("a ring");
        for ring_slot in ring.messages() {
            if ring_slot.is_closed() {
                return None;
            }
            if let Some(found) = accepts(ring_slot) {
                if ring_slot.take(map).expect("a word") {
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
    receive_if(map, RingSlot::chunk)
}

/// Receives a message of a type: that is the tens of its number.
pub fn receive_of(map: &Map, kind: u32) -> Option<u32> {
    receive_if(map, |ring_slot| ring_slot.chunk().filter(|number| number / 10 == kind))
}

/// The same where the number is the text.
pub fn receive_text(map: &Map, kind: u64) -> Option<u64> {
    receive_if(map, |ring_slot| {
        let text = TEXTS + 8 * u64::from(ring_slot.chunk()?);
        let text = map.load(text, Ordering::Relaxed).expect("a word");
        (text / 10 == kind).then_some(text)
    })
}

/// Sends a message whose type is the tens of its number; false when another thread asleep waits for
/// it, or the ring is closed.
pub fn send_unless_awaited(map: &Map, message: u32) -> bool {
    loop {
        let tail = <MessageRing>::read(map, RING).expect("a ring").tail();
        let Tail::Free(ring_slot) = tail else { return false };
        let awaited = map.load(AWAITED, Ordering::Acquire).expect("a word");
        if awaited == u64::from(message / 10) {
            return false;
        }
        if ring_slot.fill(map, message, false).expect("a word") {
            return true;
        }
    }
}

/// Lies down for a type as the change under the lock does; false when there is a message of it.
pub fn lie_down(map: &Map, kind: u32) -> bool {
    <MessageRing>::close_tail(map, RING).expect("a barrier");
    let ring = <MessageRing>::read(map, RING).expect("a ring");
    let found =
        ring.messages().filter_map(|ring_slot| ring_slot.chunk()).any(|number| number / 10 == kind);
    if !found {
        let nobody = map.load_cell(AWAITED).expect("a cell");
        assert!(map.replace_cell(AWAITED, nobody, kind.into()).expect("a cell"));
    }
    pass(map, &ring);
    !found
}

/// Closes the tail for a moment, as the thread does that looks whether it may lie down.
pub fn bar_and_pass(map: &Map) {
    <MessageRing>::close_tail(map, RING).expect("a barrier");
    pass(map, &<MessageRing>::read(map, RING).expect("a ring"));
}

/// Lets senders pass a closed tail; a text in its slot goes into the chunk of that number.
fn pass(map: &Map, ring: &MessageRing) {
    let moved = ring.inline_tail().map(|ring_slot| text_in(map, ring_slot) as u32);
    let (ring_slot, word) = ring.words_to_pass(moved).expect("a closed tail");
    let seen = ring_slot.cell(map).expect("a cell");
    assert!(map.replace_cell(ring_slot.at, seen, word).expect("a cell"), "not closed");
}

/// Closes the ring as a thread that dies after the first step.
pub fn begin_to_close(map: &Map) {
    if let Tail::Free(ring_slot) = <MessageRing>::read(map, RING).expect("a ring").tail() {
        let _ = map
            .replace(ring_slot.at.word(), ring_slot.word, ring_slot.word | 1 << 27)
            .expect("a word");
    }
}

/// Closes the ring and takes what is left, as the change under the lock does.
pub fn leave(map: &Map) -> Vec<u32> {
    <MessageRing>::close(map, RING).expect("a close");
    let ring = <MessageRing>::read(map, RING).expect("a ring");
    assert!(ring.is_frozen() && ring.makes_sense(), "{ring:x?}");
    for (ring_slot, word) in ring.words_to_empty() {
        let seen = ring_slot.cell(map).expect("a cell");
        assert!(map.replace_cell(ring_slot.at, seen, word).expect("a cell"), "not frozen");
    }
    ring.messages().filter_map(|ring_slot| ring_slot.chunk()).collect()
}

/// Opens it again, as the change under the lock does.
pub fn open(map: &Map) {
    let ring = <MessageRing>::read(map, RING).expect("a ring");
    let (ring_slot, word) = ring.words_to_open().expect("a closed ring");
    let seen = ring_slot.cell(map).expect("a cell");
    assert!(map.replace_cell(ring_slot.at, seen, word).expect("a cell"), "not closed");
}
