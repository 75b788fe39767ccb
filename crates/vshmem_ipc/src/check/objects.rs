//! Object slots: free queues, counters, key chains, attaches.

use std::collections::{HashMap, HashSet};

use vshmem_sync::Fault;
use vshmem_wire::{
    ATTACHED_QUEUE, AttachCount, AttachSlot, ClientId, ClientSlot, MsgSlot, ObjectHeader,
    ObjectKey, ObjectName, ObjectState, ShmSlot, field,
};

use crate::check::checker::{Checker, name_of};
use crate::check::client_table::{ClientTable, Owner};
use crate::pool::id::Kind;
use crate::registry::table::{self, SlotState, per_kind};

/// State of every object slot, kind by kind.
pub(super) struct Objects {
    pub slot_states: [Vec<SlotState>; 3],
}

impl Objects {
    /// The slots in use of a kind: number and state.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = (u32, SlotState)> + '_ {
        self.slot_states[kind as usize]
            .iter()
            .enumerate()
            .map(|(index, slot_state)| (index as u32, *slot_state))
            .filter(|(_, slot_state)| !slot_state.is(ObjectState::Free))
    }

    /// Whether a slot has that state.
    pub fn is(&self, kind: Kind, index: u32, state: ObjectState) -> bool {
        self.slot_states[kind as usize]
            .get(index as usize)
            .is_some_and(|slot_state| slot_state.is(state))
    }
}

impl Objects {
    /// Whether there is what the word of an attach record says.
    fn has_held(&self, held: u32) -> bool {
        let Some(index) = (held & !ATTACHED_QUEUE).checked_sub(1) else { return false };
        if held & ATTACHED_QUEUE != 0 {
            return self.is(Kind::Queue, index, ObjectState::Live);
        }
        self.is(Kind::Segment, index, ObjectState::Live)
            || self.is(Kind::Segment, index, ObjectState::Doomed)
    }
}

impl Checker<'_> {
    pub(super) fn objects(&mut self, client_table: &ClientTable) -> Result<Objects, Fault> {
        let mut objects = Objects { slot_states: [Vec::new(), Vec::new(), Vec::new()] };
        for kind in Kind::ALL {
            for index in 0..kind.slots(self.layout) as u32 {
                let slot = kind.row(self.layout, index)?;
                let slot_state = SlotState::unpack(self.get(field!(slot, ObjectHeader, state))?);
                self.slot_state(client_table, kind, index, slot_state)?;
                objects.slot_states[kind as usize].push(slot_state);
            }
            self.slots(&objects, kind)?;
            self.keys(&objects, kind)?;
        }
        Ok(objects)
    }

    fn slot_state(
        &mut self,
        client_table: &ClientTable,
        kind: Kind,
        index: u32,
        slot_state: SlotState,
    ) -> Result<(), Fault> {
        let name = name_of(kind);
        let segment = kind == Kind::Segment;
        let makes_sense = match slot_state.state {
            s if s == ObjectState::Free as u32 || s == ObjectState::Live as u32 => true,
            s if s == ObjectState::Dying as u32 => !segment,
            s if s == ObjectState::Doomed as u32 || s == ObjectState::Creating as u32 => segment,
            _ => false,
        };
        if !makes_sense {
            self.wrong(format!(
                "{name} {index} is in state {}, which is none of its kind's",
                slot_state.state
            ));
        } else if slot_state.is(ObjectState::Dying) {
            self.unfinished(format!("{name} {index} is removed and not taken apart"));
        } else if slot_state.is(ObjectState::Creating) {
            let slot = self.layout.shm.row(index)?;
            let maker = self.word(field!(slot, ShmSlot, maker))?;
            if client_table.owner(maker) != Owner::Client {
                self.unfinished(format!(
                    "{name} {index} was being created by a client that has ended"
                ));
            }
        }
        Ok(())
    }

    /// The queue of free slots and the counters.
    fn slots(&mut self, objects: &Objects, kind: Kind) -> Result<(), Fault> {
        let layout = self.layout;
        let name = name_of(kind);
        let slot_states = &objects.slot_states[kind as usize];
        let high = self.get(per_kind!(layout, high_water, kind))? as usize;
        if high > slot_states.len() {
            self.wrong(format!(
                "{name} slots are said to be used up to {high} of {}",
                slot_states.len()
            ));
        }
        let mut free = HashSet::new();
        let (mut next, mut last) = (self.get(per_kind!(layout, free_head, kind))?, 0);
        for _ in 0..=slot_states.len() {
            let Some(index) = next.checked_sub(1) else {
                break;
            };
            if index as usize >= high.min(slot_states.len()) || !free.insert(index) {
                self.wrong(format!(
                    "the free {name} slots lead to slot {index}, which is never used or listed twice"
                ));
                break;
            }
            if !slot_states[index as usize].is(ObjectState::Free) {
                self.wrong(format!("{name} {index} is in use and listed as free"));
                break;
            }
            last = next;
            let slot = kind.row(layout, index)?;
            next = self.get(field!(slot, ObjectHeader, next))?;
        }
        let tail = self.get(per_kind!(layout, free_tail, kind))?;
        if tail != last {
            self.wrong(format!(
                "the free {name} slots end with {last}, and {tail} is said to be the last"
            ));
        }
        let mut used = 0;
        for (index, slot_state) in slot_states.iter().enumerate() {
            if slot_state.is(ObjectState::Free) {
                if index < high && !free.contains(&(index as u32)) {
                    self.wrong(format!("{name} slot {index} is free and not listed as such"));
                }
            } else {
                used += 1;
                if index >= high {
                    self.wrong(format!("{name} {index} is in use, above the highest, {high}"));
                }
            }
        }
        let counted = self.get(per_kind!(layout, in_use, kind))?;
        if counted != used {
            self.wrong(format!("{used} {name} slots are in use, and {counted} are counted"));
        }
        Ok(())
    }

    /// Every live key is found exactly once, and nothing else is.
    fn keys(&mut self, objects: &Objects, kind: Kind) -> Result<(), Fault> {
        let layout = self.layout;
        let name = name_of(kind);
        let buckets = layout.keys[kind as usize];
        let mut found = HashSet::new();
        let mut live = HashMap::new();
        for number in 0..buckets.count {
            let bucket = buckets.first().nth(number);
            let mut next = self.get(bucket)?;
            while let Some(index) = next.checked_sub(1) {
                let Ok(slot) = kind.row(layout, index) else {
                    self.wrong(format!(
                        "the {name} keys of bucket {number} lead to slot {index}, which does not exist"
                    ));
                    break;
                };
                if !found.insert(index) {
                    self.wrong(format!("the key of {name} {index} is listed twice"));
                    break;
                }
                let key = ObjectKey::of_word(self.word(field!(slot, ObjectHeader, key))?);
                if key == ObjectKey::NONE || table::bucket(layout, kind, key)? != bucket {
                    self.wrong(format!("the key of {name} {index} is in the wrong place"));
                }
                if objects.is(kind, index, ObjectState::Live) {
                    // Names may have the same hash.
                    if let Some(other) = live.insert(key, index).filter(|_| !key.is_name()) {
                        self.wrong(format!(
                            "{name}s {index} and {other} have the same key {:#x}",
                            key.system_v()
                        ));
                    }
                } else if !objects.is(kind, index, ObjectState::Dying) {
                    self.wrong(format!("a key leads to {name} {index}, which is not alive"));
                }
                next = self.get(field!(slot, ObjectHeader, next))?;
            }
        }
        for (index, slot_state) in objects.of(kind) {
            let slot = kind.row(layout, index)?;
            let key = self.word(field!(slot, ObjectHeader, key))?;
            if slot_state.is(ObjectState::Live) && key != 0 && !found.contains(&index) {
                self.wrong(format!("{name} {index} has key {key:#x} and is not found by it"));
            }
            if slot_state.is(ObjectState::Doomed) && key != 0 {
                self.wrong(format!("{name} {index} is removed and has still a key"));
            }
        }
        Ok(())
    }

    /// Attach records against clients' lists and segments' counters.
    pub(super) fn attaches(
        &mut self,
        client_table: &ClientTable,
        objects: &Objects,
    ) -> Result<(), Fault> {
        let layout = self.layout;
        let records = layout.attaches.count as usize;
        let mut listed = vec![false; records];
        let mut attached: HashMap<u32, AttachCount> = HashMap::new();
        for client in 0..layout.clients.count as u32 {
            let slot = layout.clients.row(client)?;
            let mut next = self.get(field!(slot, ClientSlot, attaches))?;
            if next != 0 && !client_table.is_in_use(client) {
                self.wrong(format!("client slot {client} is free and has attaches"));
            }
            let mut segments = HashSet::new();
            while let Some(record) = next.checked_sub(1) {
                let Some(seen) = listed.get_mut(record as usize) else {
                    self.wrong(format!(
                        "client {client} lists attach record {record}, which does not exist"
                    ));
                    break;
                };
                if std::mem::replace(seen, true) {
                    self.wrong(format!("attach record {record} is listed twice"));
                    break;
                }
                let at = layout.attaches.row(record)?;
                let segment = self.get(field!(at, AttachSlot, segment))?;
                let count = self.word(field!(at, AttachSlot, count))?;
                let owner = self.word(field!(at, AttachSlot, client))?;
                if client_table.id(client).map(ClientId::word) != Some(owner)
                    || count == 0
                    || !objects.has_held(segment)
                    || !segments.insert(segment)
                {
                    self.wrong(format!(
                        "attach record {record} of client {client} ({count} of segment \
                         {segment}, counted from 1, for owner {owner}) is invalid"
                    ));
                }
                let counted = attached.entry(segment).or_default();
                *counted = counted.plus(AttachCount::unpack(count));
                next = self.get(field!(at, AttachSlot, next))?;
            }
        }
        for (record, listed) in listed.iter().enumerate() {
            let at = layout.attaches.row(record as u32)?;
            if !listed && self.get(field!(at, AttachSlot, segment))? != 0 {
                self.wrong(format!("attach record {record} is in use and on no list"));
            }
        }
        self.counts_of_attaches(objects, &attached)
    }

    /// What segments count against what clients have attached.
    fn counts_of_attaches(
        &mut self,
        objects: &Objects,
        attached: &HashMap<u32, AttachCount>,
    ) -> Result<(), Fault> {
        for (index, slot_state) in objects.of(Kind::Segment) {
            let slot = self.layout.shm.row(index)?;
            let counted = AttachCount::unpack(self.word(field!(slot, ShmSlot, attached))?);
            let found = attached.get(&(index + 1)).copied().unwrap_or_default();
            for (what, counted, found) in [
                ("attaches", counted.attached, found.attached),
                ("descriptors", counted.opened, found.opened),
            ] {
                if counted != found {
                    self.wrong(format!(
                        "segment {index} counts {counted} {what}, and clients have {found}"
                    ));
                }
            }
            if slot_state.is(ObjectState::Doomed) && counted.is_none() {
                self.wrong(format!("segment {index} is removed, not attached, and still exists"));
            }
        }
        for (index, slot_state) in objects.of(Kind::Queue) {
            let slot = self.layout.msg.row(index)?;
            let name = self.word(field!(slot, MsgSlot, name))?;
            if !slot_state.is(ObjectState::Live) || !ObjectName::is_posix(name) {
                continue;
            }
            let counted = self.get(field!(slot, MsgSlot, opened))?;
            let found = attached.get(&(ATTACHED_QUEUE | (index + 1))).copied().unwrap_or_default();
            if counted != found.opened {
                let found = found.opened;
                self.wrong(format!(
                    "queue {index} counts {counted} descriptors, and clients have {found}"
                ));
            }
        }
        Ok(())
    }
}
