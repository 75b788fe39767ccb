//! Waiters: wait queues of objects against the thread slots in them.

use std::collections::{BTreeSet, HashSet};

use vshmem_mem::Ordering;
use vshmem_sync::Fault;
use vshmem_wire::{
    AddressWait, ArrayWord, INLINE_OPS, MsgSlot, ObjectState, Operation, Place, RawCell,
    ReceiveWait, SemSlot, SemWord, SemaphoreWait, SendWait, ThreadSlot, WaitKind, WaitState, field,
};

use crate::check::checker::{Checker, name_of};
use crate::check::client_table::ClientTable;
use crate::check::objects::Objects;
use crate::futex::Bucket;
use crate::msg::message::{Header, Search};
use crate::msg::mode::{AwaitedTypes, says_list};
use crate::pool::chunk::Chunk;
use crate::pool::id::Kind;
use crate::sem::set;
use crate::wait::wait_queue::WaitQueue;

impl Checker<'_> {
    pub(super) fn wait_queues(
        &mut self,
        client_table: &ClientTable,
        objects: &Objects,
    ) -> Result<(), Fault> {
        let layout = self.layout;
        let mut seen = HashSet::new();
        for (index, slot_state) in objects.of(Kind::Semaphore) {
            let slot = layout.sem.row(index)?;
            let wait_queue = set::wait_queue_of(slot);
            let place = (name_of(Kind::Semaphore), index);
            let waiters = self.wait_queue(place, WaitKind::Semaphore, wait_queue, &mut seen)?;
            let counted = self.get(set::waiting_of(slot))?;
            if slot_state.is(ObjectState::Live) {
                if counted as usize != waiters.len() {
                    self.wrong(format!(
                        "semaphore set {index} has {} waiters and counts {counted}",
                        waiters.len()
                    ));
                }
                for thread in waiters {
                    self.waiter_at_set(index, slot, thread)?;
                }
            }
        }
        for (index, slot_state) in objects.of(Kind::Queue) {
            let slot = layout.msg.row(index)?;
            for kind in [WaitKind::Receive, WaitKind::Send, WaitKind::Notify] {
                let wait_queue = crate::msg::queue::wait_queue_of(slot, kind);
                let place = (name_of(Kind::Queue), index);
                let waiters = self.wait_queue(place, kind, wait_queue, &mut seen)?;
                if slot_state.is(ObjectState::Live) && !waiters.is_empty() {
                    let of_receivers = kind == WaitKind::Receive;
                    let kinds = if of_receivers { self.kinds(slot)? } else { BTreeSet::new() };
                    for thread in waiters {
                        self.waiter_at_queue(index, slot, thread, kind, &kinds)?;
                    }
                }
            }
        }
        self.queues_by_address(&mut seen)?;
        for thread in &client_table.waiting {
            if !seen.contains(thread) {
                self.wrong(format!("thread slot {thread} waits and is in no wait queue"));
            }
        }
        Ok(())
    }

    /// Those who sleep by address.
    fn queues_by_address(&mut self, seen: &mut HashSet<u32>) -> Result<(), Fault> {
        for index in 0..self.layout.futexes.count as u32 {
            let bucket = Bucket::nth(self.layout, index)?;
            let place = ("address", index);
            let waiters = self.wait_queue(place, WaitKind::Address, bucket.wait_queue(), seen)?;
            let counted = self.get(bucket.length())?;
            if counted as usize != waiters.len() {
                self.wrong(format!(
                    "wait queue by address {index} has {} waiters and counts {counted}",
                    waiters.len()
                ));
            }
            for thread in waiters {
                let at = self.layout.threads.row(thread)?;
                let offset = self.plain(field!(at.address_wait(), AddressWait, offset))?;
                if Bucket::of_any(self.layout, offset).map(|own| own.index) != Ok(index) {
                    self.wrong(format!(
                        "thread slot {thread} waits for offset {offset:#x} in wait queue by address {index}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn wait_queue(
        &mut self,
        (name, object): (&str, u32),
        wanted: WaitKind,
        wait_queue: WaitQueue,
        seen: &mut HashSet<u32>,
    ) -> Result<Vec<u32>, Fault> {
        let mut waiters = Vec::new();
        let (mut next, mut before) = (self.get(wait_queue.head)?, 0);
        while let Some(thread) = next.checked_sub(1) {
            let Ok(at) = self.layout.threads.row(thread) else {
                self.wrong(format!(
                    "the wait queue of {name} {object} leads to thread slot {thread}, which does not exist"
                ));
                return Ok(waiters);
            };
            if !seen.insert(thread) {
                self.wrong(format!(
                    "thread slot {thread} is in two wait queues, or twice in that of {name} {object}"
                ));
                return Ok(waiters);
            }
            let waits = self.state(field!(at, ThreadSlot, wait))? == Some(WaitState::Waiting)
                && self.state(field!(at, ThreadSlot, kind))? == Some(wanted)
                && self.get(field!(at, ThreadSlot, object))? == object;
            if !waits {
                self.wrong(format!(
                    "thread slot {thread} is in the wait queue of {name} {object} and does not wait there"
                ));
            }
            if self.get(field!(at, ThreadSlot, previous))? != before {
                self.wrong(format!(
                    "thread slot {thread} does not lead back in the wait queue of {name} {object}"
                ));
            }
            waiters.push(thread);
            before = next;
            next = self.get(field!(at, ThreadSlot, next))?;
        }
        if self.get(wait_queue.tail)? != before {
            self.wrong(format!("the tail of the wait queue of {name} {object} is wrong"));
        }
        Ok(waiters)
    }

    fn plain(&self, at: Place<u64>) -> Result<u64, Fault> {
        Ok(self.pool.map().load(at, Ordering::Relaxed)?)
    }

    /// The semaphore that blocks a waiter has its fast path closed, and does block.
    fn waiter_at_set(
        &mut self,
        index: u32,
        slot: Place<SemSlot>,
        thread: u32,
    ) -> Result<(), Fault> {
        let at = self.layout.threads.row(thread)?;
        let semaphores = self.get(field!(slot, SemSlot, count))?;
        let unit = self.get(field!(slot, SemSlot, words))?;
        let Ok(base) = Chunk(unit).place::<RawCell>(self.layout) else {
            return Ok(());
        };
        let blocked = self.get(field!(at, ThreadSlot, blocked))? & 0xffff;
        if blocked >= semaphores || base.nth(semaphores.into()).offset() > self.layout.heap.end() {
            self.wrong(format!(
                "thread slot {thread} is blocked at semaphore {blocked} of set {index}, which has {semaphores}"
            ));
            return Ok(());
        }
        if !SemWord::unpack(self.word(base.nth(blocked.into()))?).slow {
            self.wrong(format!(
                "semaphore {blocked} of set {index} can be changed past thread slot {thread}, which waits for it"
            ));
        }
        let count = self.plain(field!(at.semaphore_wait(), SemaphoreWait, count))?;
        if count == 0 || count > INLINE_OPS as u64 {
            return Ok(());
        }
        let mut values = std::collections::HashMap::new();
        for nth in 0..count {
            let operation = Operation::unpack(
                self.plain(field!(at.semaphore_wait(), SemaphoreWait, operations).element(nth))?,
            );
            let number = u32::from(operation.number);
            if number >= semaphores {
                self.wrong(format!(
                    "thread slot {thread} waits at semaphore {number} of set {index}, which has {semaphores}"
                ));
                return Ok(());
            }
            let word = SemWord::unpack(self.word(base.nth(u64::from(number)))?);
            let array = ArrayWord::unpack(self.word(field!(slot, SemSlot, array))?);
            let tentative = if word.tentative { array.value_of(word) } else { None };
            let now = tentative.unwrap_or(word.value);
            let value = values.entry(number).or_insert(now as i32);
            let blocks =
                (operation.change == 0 && *value != 0) || *value + i32::from(operation.change) < 0;
            if blocks {
                return Ok(());
            }
            *value += i32::from(operation.change);
        }
        self.unfinished(format!(
            "thread slot {thread} waits at semaphore set {index} and could continue"
        ));
        Ok(())
    }

    /// The types of the messages in the queue of a slot.
    fn kinds(&self, slot: Place<MsgSlot>) -> Result<BTreeSet<i64>, Fault> {
        let mut kinds = BTreeSet::new();
        let mut next = self.get(field!(slot, MsgSlot, head))?;
        for _ in 0..self.layout.unit_meta.count {
            let Some(unit) = next.checked_sub(1) else {
                break;
            };
            let Ok(at) = Chunk(unit).next(self.layout) else {
                break;
            };
            kinds.insert(Header::read(self.pool.map(), self.layout, Chunk(unit))?.mtype);
            next = self.get(at)?;
        }
        kinds.extend(self.kinds_in_ring(slot)?);
        Ok(kinds)
    }

    fn waiter_at_queue(
        &mut self,
        index: u32,
        slot: Place<MsgSlot>,
        thread: u32,
        wait_kind: WaitKind,
        kinds: &BTreeSet<i64>,
    ) -> Result<(), Fault> {
        let at = self.layout.threads.row(thread)?;
        let could = if wait_kind == WaitKind::Notify {
            // Whether it is told depends on what was there when the first message came.
            false
        } else if wait_kind == WaitKind::Send {
            let size = self.plain(field!(at.send_wait(), SendWait, size))?;
            let limit = u64::from(self.get(field!(slot, MsgSlot, limit))?);
            let bytes = u64::from(self.get(field!(slot, MsgSlot, bytes))?);
            let count = u64::from(self.get(field!(slot, MsgSlot, count))?);
            match u64::from(self.get(field!(slot, MsgSlot, most_messages))?) {
                0 => bytes.saturating_add(size) <= limit && count < limit,
                most => count < most,
            }
        } else {
            let mode = self.plain(field!(at.receive_wait(), ReceiveWait, mode))?;
            let kind = self.plain(field!(at.receive_wait(), ReceiveWait, mtype))?;
            let search = Search::unpack(mode, kind);
            let mode = self.word(field!(slot, MsgSlot, mode))?;
            let awaited = AwaitedTypes::in_mode(mode);
            if !says_list(mode) && awaited.with(search) != awaited {
                self.wrong(format!(
                    "the mode of queue {index} does not show that thread slot {thread} waits"
                ));
            }
            search.accepts_any(kinds)
        };
        if could {
            self.unfinished(format!(
                "thread slot {thread} waits at queue {index} and could continue"
            ));
        }
        Ok(())
    }
}
