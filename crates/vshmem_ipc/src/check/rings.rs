//! The rings of queues against their modes, and the messages in them.

use std::collections::BTreeSet;

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, MessageRing};
use vshmem_wire::{
    LONG_RING_BYTES, LONG_RING_SLOTS, MSG_HEADER_BYTES, MsgSlot, ObjectState, Place, QueueMode,
    RING_INLINE_BYTES, RING_PAYLOAD_BYTES, RING_SLOTS, RawCell, RingReserve, field,
};

use crate::check::checker::Checker;
use crate::check::heap::{Use, Uses};
use crate::check::objects::Objects;
use crate::msg::message::Header;
use crate::msg::mode::{RingInUse, is_large_in, long_ring_at};
use crate::msg::ring::header_of;
use crate::msg::ring_chunk::{ring_position, ring_position_in};
use crate::pool::chunk::Chunk;
use crate::pool::id::Kind;

/// A queue, where it lies in the table.
#[derive(Clone, Copy)]
struct InTable {
    index: u32,
    slot: Place<MsgSlot>,
    in_use: Option<RingInUse>,
}

impl Checker<'_> {
    pub(super) fn rings(&mut self, objects: &Objects, uses: &mut Uses) -> Result<(), Fault> {
        for (index, slot_state) in objects.of(Kind::Queue) {
            let slot = self.layout.msg.row(index)?;
            let mode = self.word(field!(slot, MsgSlot, mode))?;
            let in_use = RingInUse::of(mode);
            if in_use.is_none() && mode != QueueMode::List as u64 {
                self.wrong(format!("queue {index} is in mode {mode}, which is none"));
            }
            if in_use.is_some() && !slot_state.is(ObjectState::Live) {
                self.wrong(format!("queue {index} is removed, and its ring is in use"));
            }
            if in_use == Some(RingInUse::Long) && self.get(field!(slot, MsgSlot, long_ring))? == 0 {
                self.wrong(format!("queue {index} uses a long ring, and has none"));
            }
            let queue = InTable { index, slot, in_use };
            let ring: MessageRing<RING_SLOTS> = self.words_of(field!(slot, MsgSlot, ring))?;
            self.ring(queue, &ring, uses)?;
            if in_use == Some(RingInUse::Short) {
                self.reserve_of(index, slot, &ring, uses)?;
            }
        }
        Ok(())
    }

    /// The long rings that slots of the table have, of queues and of those that are no more.
    pub(super) fn long_rings(&mut self, objects: &Objects, uses: &mut Uses) -> Result<(), Fault> {
        let queues: BTreeSet<u32> = objects.of(Kind::Queue).map(|(index, _)| index).collect();
        for index in 0..self.layout.msg.count as u32 {
            let slot = self.layout.msg.row(index)?;
            let Some(unit) = self.get(field!(slot, MsgSlot, long_ring))?.checked_sub(1) else {
                continue;
            };
            let what = format!("the long ring of queue {index}");
            let Some(base) = long_ring_at(self.layout, unit + 1) else {
                self.wrong(format!("{what} lies at unit {unit}, where there is no room for it"));
                continue;
            };
            self.note_use(uses, unit, Use { what, bytes: LONG_RING_BYTES, in_ring: false });
            let ring: MessageRing<LONG_RING_SLOTS> = self.words_of(base)?;
            let mode = self.word(field!(slot, MsgSlot, mode))?;
            let in_use = RingInUse::of(mode).filter(|_| queues.contains(&index));
            self.ring(InTable { index, slot, in_use }, &ring, uses)?;
        }
        Ok(())
    }

    /// One of the rings of a queue, against the mode.
    fn ring<const N: usize>(
        &mut self,
        queue: InTable,
        ring: &MessageRing<N>,
        uses: &mut Uses,
    ) -> Result<(), Fault> {
        let InTable { index, slot, in_use } = queue;
        let name = if N == RING_SLOTS { "ring" } else { "long ring" };
        if !ring.makes_sense() {
            self.wrong(format!("the words in the {name} of queue {index} do not fit together"));
            return Ok(());
        }
        let is_idle = ring.is_frozen() && ring.messages().next().is_none();
        if in_use != Some(RingInUse::of_slots::<N>()) && !is_idle {
            self.wrong(format!("queue {index} does not use its {name}, and that is not closed"));
        }
        // While a long ring is emptied into the list, it is closed.
        if in_use == Some(RingInUse::of_slots::<N>()) && !(N != RING_SLOTS && ring.is_frozen()) {
            self.only_the_ring_has_messages(index, slot)?;
        }
        self.messages_in(index, slot, ring, uses)
    }

    /// The ring of `N` slots that begins at `base`, as it will be.
    fn words_of<const N: usize>(&self, base: Place<[RawCell; N]>) -> Result<MessageRing<N>, Fault> {
        let mut words = [0; N];
        for (word, nth) in words.iter_mut().zip(0..) {
            *word = self.word(base.element(nth))?;
        }
        Ok(MessageRing::of(base, words))
    }

    /// The types of the messages in the ring that the queue in a slot uses.
    pub(super) fn kinds_in_ring(&self, slot: Place<MsgSlot>) -> Result<BTreeSet<i64>, Fault> {
        match RingInUse::of(self.word(field!(slot, MsgSlot, mode))?) {
            None => Ok(BTreeSet::new()),
            Some(RingInUse::Short) => {
                Ok(self.kinds_of(&self.words_of::<RING_SLOTS>(field!(slot, MsgSlot, ring))?))
            }
            Some(RingInUse::Long) => {
                // A place that cannot be has been reported.
                let said = self.get(field!(slot, MsgSlot, long_ring))?;
                let Some(base) = long_ring_at(self.layout, said) else {
                    return Ok(BTreeSet::new());
                };
                Ok(self.kinds_of(&self.words_of::<LONG_RING_SLOTS>(base)?))
            }
        }
    }

    fn kinds_of<const N: usize>(&self, ring: &MessageRing<N>) -> BTreeSet<i64> {
        ring.messages()
            .filter_map(|ring_slot| header_of(self.pool.map(), self.layout, ring_slot).ok())
            .map(|header| header.mtype)
            .collect()
    }

    fn only_the_ring_has_messages(
        &mut self,
        index: u32,
        slot: Place<MsgSlot>,
    ) -> Result<(), Fault> {
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
        slot: Place<MsgSlot>,
        ring: &MessageRing<RING_SLOTS>,
        uses: &mut Uses,
    ) -> Result<(), Fault> {
        let value = self.get(field!(slot, MsgSlot, tail_or_reserve))?;
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

    fn messages_in<const N: usize>(
        &mut self,
        index: u32,
        slot: Place<MsgSlot>,
        ring: &MessageRing<N>,
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
            if is_large_in::<N>(limit, header.size) && !ring_slot.is_large() {
                self.wrong(format!(
                    "{what} has {} bytes, and its slot says that they need not be counted",
                    header.size
                ));
            }
            let place = ring_position_in(self.layout, Chunk(unit))?;
            let place = self.pool.map().load(place, Ordering::Relaxed)?;
            if place != ring_position::<N>(index, ring_slot.position()) {
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
