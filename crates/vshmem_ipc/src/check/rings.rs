//! The rings of queues against their modes, and the messages in them.

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, MessageRing, field};
use vshmem_wire::{
    CELL_BYTES, MSG_HEADER_BYTES, MsgSlot, ObjectState, QueueMode, RING_INLINE_BYTES,
    RING_PAYLOAD_BYTES, RING_SLOTS, RingReserve,
};

use crate::check::checker::Checker;
use crate::check::heap::{Use, Uses};
use crate::check::objects::Objects;
use crate::msg::awaited_types::says_list;
use crate::msg::fast_send::is_large_in;
use crate::msg::message::Header;
use crate::msg::ring;
use crate::pool::chunk::Chunk;
use crate::pool::id::Kind;
use crate::registry::table;

impl Checker<'_> {
    pub(super) fn rings(&mut self, objects: &Objects, uses: &mut Uses) -> Result<(), Fault> {
        for (index, slot_state) in objects.of(Kind::Queue) {
            let slot = table::slot_at(self.layout, Kind::Queue, index)?;
            let ring = self.ring_of(slot)?;
            if !ring.makes_sense() {
                self.wrong(format!("the words in the ring of queue {index} do not fit together"));
                continue;
            }
            let mode = self.word(field!(slot, MsgSlot, mode))?;
            if mode == QueueMode::List as u64 {
                if !ring.is_frozen() || ring.messages().next().is_some() {
                    self.wrong(format!("queue {index} uses its list, and its ring is in use"));
                }
            } else if says_list(mode) {
                self.wrong(format!("queue {index} is in mode {mode}, which is none"));
            } else if slot_state.is(ObjectState::Live) {
                self.only_the_ring_has_messages(index, slot)?;
                self.reserve_of(index, slot, &ring, uses)?;
            } else {
                self.wrong(format!("queue {index} is removed, and its ring is in use"));
            }
            self.messages_in(index, slot, &ring, uses)?;
        }
        Ok(())
    }

    /// The ring of the queue in a slot, as it will be.
    pub(super) fn ring_of(&self, slot: u64) -> Result<MessageRing, Fault> {
        let base = field!(slot, MsgSlot, ring);
        let mut words = [0; RING_SLOTS];
        for (word, nth) in words.iter_mut().zip(0..) {
            *word = self.word(base + nth * CELL_BYTES)?;
        }
        Ok(MessageRing::of(base, words))
    }

    fn only_the_ring_has_messages(&mut self, index: u32, slot: u64) -> Result<(), Fault> {
        for (at, what) in [
            (field!(slot, MsgSlot, head), "there are messages in its list"),
            (field!(slot, MsgSlot, send_head), "a sender sleeps"),
        ] {
            if self.get(at)? != 0 {
                self.wrong(format!("queue {index} uses its ring, and {what}"));
            }
        }
        Ok(())
    }

    /// The chunks that are kept for messages in slots.
    fn reserve_of(
        &mut self,
        index: u32,
        slot: u64,
        ring: &MessageRing,
        uses: &mut Uses,
    ) -> Result<(), Fault> {
        let value = self.get(field!(slot, MsgSlot, tail))?;
        let mut reserve = RingReserve::unpack(value);
        let inline = ring.messages().filter(|ring_slot| ring_slot.is_inline()).count();
        if inline > reserve.map_or(0, |reserve| reserve.count as usize) {
            self.wrong(format!(
                "queue {index} has {inline} messages in slots, and too few chunks in reserve"
            ));
        }
        for nth in 0..RING_SLOTS {
            let Some(RingReserve { unit, count }) = reserve else { break };
            let what = format!("chunk {nth} in reserve of queue {index}");
            if Chunk(unit).offset(self.layout).is_err() {
                self.wrong(format!("{what} lies at unit {unit}, which does not exist"));
                break;
            }
            let next = self.get(Chunk(unit).next(self.layout)?)?.checked_sub(1);
            let bytes = MSG_HEADER_BYTES + RING_INLINE_BYTES as u64;
            self.note_use(uses, unit, Use { what, bytes, in_ring: false });
            if next.is_none() && count > 1 {
                self.wrong(format!(
                    "{} chunks are missing in the reserve of queue {index}",
                    count - 1
                ));
            }
            reserve = next.filter(|_| count > 1).map(|unit| RingReserve { unit, count: count - 1 });
        }
        Ok(())
    }

    fn messages_in(
        &mut self,
        index: u32,
        slot: u64,
        ring: &MessageRing,
        uses: &mut Uses,
    ) -> Result<(), Fault> {
        let limit = self.get(field!(slot, MsgSlot, limit))?.into();
        for (ring_slot, nth) in ring.messages().zip(0..) {
            let what = format!("message {nth} in the ring of queue {index}");
            if let Some((kind, _)) = ring_slot.inline() {
                if kind < 1 {
                    self.wrong(format!("{what} has type {kind}"));
                }
                continue;
            }
            let unit = ring_slot.chunk().unwrap_or(u32::MAX);
            if Chunk(unit).offset(self.layout).is_err() {
                self.wrong(format!("{what} lies at unit {unit}, which does not exist"));
                continue;
            }
            let header = Header::read(self.pool.map(), self.layout, Chunk(unit))?;
            if header.mtype < 1 || header.size > RING_PAYLOAD_BYTES {
                self.wrong(format!("{what} has type {} and {} bytes", header.mtype, header.size));
            }
            // One behind a large one has the mark as well.
            if is_large_in(limit, header.size) && !ring_slot.is_large() {
                self.wrong(format!(
                    "{what} has {} bytes, and its slot says that they need not be counted",
                    header.size
                ));
            }
            let place = ring::place_in(self.layout, Chunk(unit))?;
            let place = self.pool.map().load(place, Ordering::Relaxed)?;
            if place != ring::place_of(index, ring_slot.position()) {
                self.wrong(format!("{what} does not say where it is"));
            }
            self.note_use(
                uses,
                unit,
                Use { what, bytes: header.size.saturating_add(MSG_HEADER_BYTES), in_ring: true },
            );
        }
        Ok(())
    }
}
