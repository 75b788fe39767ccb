//! The heap: slabs, chunks, and who refers to them.

use std::collections::HashMap;

use vshmem_sync::Fault;
use vshmem_wire::{
    Adjustment, ArrayWord, CELL_BYTES, CHUNK_CLASSES, MSG_HEADER_BYTES, MsgSlot, ObjectState,
    Place, RawCell, SLAB_BYTES, SemSlot, SemWord, SlabMeta, UNIT_BYTES, UndoSlot, field,
};

use crate::check::checker::Checker;
use crate::check::client_lists::Listed;
use crate::check::client_table::{ClientTable, Owner};
use crate::check::objects::Objects;
use crate::msg::message::Header;
use crate::pool::chunk::{Chunk, IN_OBJECT, LONGEST_RUN, SLAB_UNITS};
use crate::pool::id::Kind;

/// Chunks that objects refer to, by unit.
#[derive(Default)]
pub(super) struct Uses(HashMap<u32, Use>);

/// What a chunk is used for.
pub(super) struct Use {
    pub what: String,
    pub bytes: u64,
    /// It carries a message through a ring: it is its sender's, not an object's.
    pub in_ring: bool,
}

impl Checker<'_> {
    /// Notes a reference; false when there is one already.
    pub(super) fn refer(&mut self, uses: &mut Uses, unit: u32, what: String, bytes: u64) -> bool {
        self.note_use(uses, unit, Use { what, bytes, in_ring: false })
    }

    pub(super) fn note_use(&mut self, uses: &mut Uses, unit: u32, noted: Use) -> bool {
        if let Some(other) = uses.0.get(&unit) {
            let (what, other) = (&noted.what, &other.what);
            self.wrong(format!("{what} and {other} share the chunk at unit {unit}"));
            return false;
        }
        uses.0.insert(unit, noted);
        true
    }

    /// Undo records against the lists of their sets.
    pub(super) fn undos(
        &mut self,
        client_table: &ClientTable,
        objects: &Objects,
        uses: &mut Uses,
    ) -> Result<(), Fault> {
        let layout = self.layout;
        let records = layout.undos.count as usize;
        let mut listed = vec![false; records];
        for (index, _) in objects.of(Kind::Semaphore) {
            let slot = layout.sem.row(index)?;
            let count = self.get(field!(slot, SemSlot, count))?;
            let mut next = self.get(field!(slot, SemSlot, undos))?;
            let mut clients = HashMap::new();
            while let Some(record) = next.checked_sub(1) {
                let Some(seen) = listed.get_mut(record as usize) else {
                    self.wrong(format!(
                        "semaphore set {index} lists undo record {record}, which does not exist"
                    ));
                    break;
                };
                if std::mem::replace(seen, true) {
                    self.wrong(format!("undo record {record} is listed twice"));
                    break;
                }
                let at = layout.undos.row(record)?;
                let client = self.word(field!(at, UndoSlot, client))?;
                let set = self.get(field!(at, UndoSlot, set))?;
                if set != index + 1 || client == 0 {
                    self.wrong(format!(
                        "undo record {record} of semaphore set {index} names set {set}, counted from 1"
                    ));
                }
                if let Some(other) = clients.insert(client, record) {
                    self.wrong(format!(
                        "undo records {record} and {other} are of the same client and set"
                    ));
                }
                if let Some(unit) = self.get(field!(at, UndoSlot, adjustments))?.checked_sub(1) {
                    let what = format!("undo record {record}");
                    self.refer(uses, unit, what, u64::from(count) * CELL_BYTES);
                    self.adjustments(record, unit, count)?;
                } else {
                    self.wrong(format!("undo record {record} has no room for adjustments"));
                }
                next = self.get(field!(at, UndoSlot, next))?;
            }
        }
        self.owners_of_undos(client_table, &listed)
    }

    /// Records on the list of a set, and those on none, against their owners.
    fn owners_of_undos(
        &mut self,
        client_table: &ClientTable,
        listed: &[bool],
    ) -> Result<(), Fault> {
        let layout = self.layout;
        let held = self.listed(Listed::UndoRecords, client_table)?;
        for (record, listed) in listed.iter().enumerate() {
            let at = layout.undos.row(record as u32)?;
            let client = self.word(field!(at, UndoSlot, client))?;
            let set = self.get(field!(at, UndoSlot, set))?;
            let serves = set != 0 && set != UndoSlot::TAKEN;
            match client_table.owner(client) {
                _ if client == 0 && !serves => {}
                Owner::Client if serves && !held[record] => self.wrong(format!(
                    "undo record {record} is in use, and its client does not list it"
                )),
                Owner::Client => {}
                Owner::Ended if !serves => {}
                _ => self.wrong(format!(
                    "undo record {record} is of {client:#x}, which is not the id of a client"
                )),
            }
            if !listed && serves {
                self.wrong(format!("undo record {record} is in use and on no list"));
            }
        }
        Ok(())
    }

    fn adjustments(&mut self, record: u32, unit: u32, count: u32) -> Result<(), Fault> {
        let Ok(base) = Chunk(unit).place::<RawCell>(self.layout) else {
            return Ok(());
        };
        if base.nth(count.into()).offset() > self.layout.heap.end() {
            return Ok(());
        }
        for number in 0..u64::from(count) {
            let adjustment = Adjustment::unpack(self.word(base.nth(number))?);
            if adjustment.total.checked_add(adjustment.prepared).is_none() {
                self.wrong(format!(
                    "undo record {record} adjusts semaphore {number} by {} and {}",
                    adjustment.total, adjustment.prepared
                ));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Semaphore words.
    pub(super) fn sets(&mut self, objects: &Objects, uses: &mut Uses) -> Result<(), Fault> {
        let (layout, geometry) = (self.layout, self.pool.geometry());
        for (index, _) in objects.of(Kind::Semaphore) {
            let slot = layout.sem.row(index)?;
            let count = self.get(field!(slot, SemSlot, count))?;
            let unit = self.get(field!(slot, SemSlot, words))?;
            if count == 0 || count > geometry.semmsl {
                self.wrong(format!("semaphore set {index} has {count} semaphores"));
                continue;
            }
            let bytes = u64::from(count) * CELL_BYTES;
            self.refer(uses, unit, format!("semaphore set {index}"), bytes);
            let Ok(base) = Chunk(unit).place::<RawCell>(layout) else {
                continue;
            };
            if base.nth(count.into()).offset() > layout.heap.end() {
                continue;
            }
            for number in 0..u64::from(count) {
                let word = SemWord::unpack(self.word(base.nth(number))?);
                if word.value > geometry.semvmx || word.before > geometry.semvmx {
                    self.wrong(format!(
                        "semaphore {number} of set {index} is {}, above the limit",
                        word.value
                    ));
                }
                let array = ArrayWord::unpack(self.word(field!(slot, SemSlot, array))?);
                if word.tentative && array.value_of(word).is_none() {
                    self.wrong(format!(
                        "semaphore {number} of set {index} names an array of operations that is \
                         not the set's"
                    ));
                }
                if word.undo {
                    let set = match layout.undos.row(word.operator) {
                        Ok(at) => self.get(field!(at, UndoSlot, set))?,
                        Err(_) => 0,
                    };
                    if set != index + 1 {
                        self.wrong(format!(
                            "semaphore {number} of set {index} names undo record {}, which is of \
                             set {set}, counted from 1",
                            word.operator
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Messages of every queue.
    pub(super) fn queues(&mut self, objects: &Objects, uses: &mut Uses) -> Result<(), Fault> {
        let layout = self.layout;
        for (index, slot_state) in objects.of(Kind::Queue) {
            let slot = layout.msg.row(index)?;
            let mut next = self.get(field!(slot, MsgSlot, head))?;
            let (mut count, mut bytes, mut last) = (0u64, 0u64, 0);
            while let Some(unit) = next.checked_sub(1) {
                let chunk = Chunk(unit);
                if u64::from(unit) >= layout.unit_meta.count {
                    self.wrong(format!(
                        "the messages of queue {index} lead to unit {unit}, which does not exist"
                    ));
                    break;
                }
                let header = Header::read(self.pool.map(), layout, chunk)?;
                let what = format!("message {count} of queue {index}");
                if header.mtype < 1 || header.size > u64::from(self.pool.geometry().msgmax) {
                    self.wrong(format!(
                        "{what} has type {} and {} bytes",
                        header.mtype, header.size
                    ));
                }
                let room = header.size.saturating_add(MSG_HEADER_BYTES);
                if !self.refer(uses, unit, what, room) {
                    break;
                }
                count += 1;
                bytes = bytes.saturating_add(header.size);
                last = next;
                next = self.get(chunk.next(layout)?)?;
            }
            if !slot_state.is(ObjectState::Live) {
                continue;
            }
            let said = u64::from(self.get(field!(slot, MsgSlot, count))?);
            if said != count {
                self.wrong(format!("queue {index} has {count} messages and counts {said}"));
            }
            let said = u64::from(self.get(field!(slot, MsgSlot, bytes))?);
            if said != bytes {
                self.wrong(format!("queue {index} has {bytes} bytes and counts {said}"));
            }
            if last != 0 && self.get(field!(slot, MsgSlot, tail_or_reserve))? != last {
                self.wrong(format!("the tail of queue {index} is wrong"));
            }
        }
        Ok(())
    }

    /// Slabs and chunks against those references.
    pub(super) fn heap(&mut self, client_table: &ClientTable, uses: &Uses) -> Result<(), Fault> {
        let layout = self.layout;
        let slabs = layout.slab_meta.count as u32;
        let mut found = 0;
        let mut slab = 0;
        while slab < slabs {
            let meta = layout.slab_meta.row(slab)?;
            let class = self.get(field!(meta, SlabMeta, class))?;
            let first = slab * SLAB_UNITS;
            let chunk_units = match class {
                0 => 0,
                SlabMeta::TAIL => {
                    self.wrong(format!("slab {slab} continues a run that does not begin"));
                    slab += 1;
                    continue;
                }
                SlabMeta::RUN => {
                    let length = self.run(slab, meta)?;
                    found +=
                        u32::from(self.chunk(client_table, uses, first, length * SLAB_UNITS)?);
                    slab += length;
                    continue;
                }
                class => match CHUNK_CLASSES.get(class as usize - 1) {
                    Some(units) => *units,
                    None => {
                        self.wrong(format!("slab {slab} is of class {class}, which is none"));
                        slab += 1;
                        continue;
                    }
                },
            };
            for unit in 0..SLAB_UNITS {
                let begins =
                    chunk_units != 0 && unit % chunk_units == 0 && unit + chunk_units <= SLAB_UNITS;
                if begins {
                    found +=
                        u32::from(self.chunk(client_table, uses, first + unit, chunk_units)?);
                } else {
                    self.no_chunk(client_table, first + unit, class)?;
                }
            }
            slab += 1;
        }
        if found as usize != uses.0.len() {
            for (unit, Use { what, in_ring, .. }) in &uses.0 {
                let owner = Chunk(*unit).owner(layout).ok();
                let owner = owner.map(|at| self.word(at)).transpose()?;
                if owner != Some(IN_OBJECT) && !in_ring {
                    self.wrong(format!("{what} lies at unit {unit}, which is not its own"));
                } else {
                    let starts =
                        format!("{what} lies at unit {unit}; see whether a chunk begins there");
                    self.note_stray(*unit, starts)?;
                }
            }
        }
        Ok(())
    }

    /// A unit that an object refers to, and in which no chunk begins.
    fn note_stray(&mut self, unit: u32, what: String) -> Result<(), Fault> {
        let slab = self.layout.slab_meta.row(unit / SLAB_UNITS)?;
        let class = self.get(field!(slab, SlabMeta, class))?;
        let begins = match class {
            SlabMeta::RUN => unit.is_multiple_of(SLAB_UNITS),
            _ => class
                .checked_sub(1)
                .and_then(|class| CHUNK_CLASSES.get(class as usize))
                .is_some_and(|units| (unit % SLAB_UNITS).is_multiple_of(*units)),
        };
        if !begins {
            self.wrong(what);
        }
        Ok(())
    }

    /// Slabs of the run that begins at `slab`; 1 when it cannot be.
    fn run(&mut self, slab: u32, meta: Place<SlabMeta>) -> Result<u32, Fault> {
        let length = self.get(field!(meta, SlabMeta, run))?;
        let slabs = self.layout.slab_meta.count as u32;
        if length == 0 || length > LONGEST_RUN || length > slabs - slab {
            self.wrong(format!("the run at slab {slab} is {length} slabs long"));
            return Ok(1);
        }
        for inner in slab + 1..slab + length {
            let meta = self.layout.slab_meta.row(inner)?;
            if self.get(field!(meta, SlabMeta, class))? != SlabMeta::TAIL {
                self.wrong(format!("slab {inner} is inside a run and is not marked so"));
                return Ok(inner - slab);
            }
        }
        Ok(length)
    }

    /// Looks at one chunk; whether an object refers to it.
    fn chunk(
        &mut self,
        client_table: &ClientTable,
        uses: &Uses,
        unit: u32,
        units: u32,
    ) -> Result<bool, Fault> {
        let owner = self.word(Chunk(unit).owner(self.layout)?)?;
        let used = uses.0.get(&unit);
        if let Some(Use { what, bytes, .. }) = used
            && *bytes > u64::from(units) * UNIT_BYTES
        {
            self.wrong(format!(
                "{what} needs {bytes} bytes and has {}",
                u64::from(units) * UNIT_BYTES
            ));
        }
        match (owner, used) {
            (IN_OBJECT, None) => {
                self.wrong(format!(
                    "the chunk at unit {unit} is said to be in an object, and none refers to it"
                ));
            }
            (IN_OBJECT, Some(Use { in_ring: false, .. })) => return Ok(true),
            (2.., Some(Use { in_ring: true, .. })) => {
                self.owner(client_table, unit, owner);
                return Ok(true);
            }
            (2.., Some(Use { what, .. })) if client_table.owner(owner) == Owner::Client => {
                self.unfinished(format!(
                    "{what} lies in the chunk at unit {unit}, which is a client's ({owner:#x})"
                ));
                return Ok(true);
            }
            (_, Some(Use { what, .. })) => {
                self.wrong(format!(
                    "{what} lies in the chunk at unit {unit}, whose owner is {owner}"
                ));
                return Ok(true);
            }
            (0, None) if units > SLAB_UNITS || self.is_run(unit)? => {
                self.wrong(format!("the run at unit {unit} has no owner"));
            }
            (0, None) => {}
            (owner, None) => self.owner(client_table, unit, owner),
        }
        Ok(false)
    }

    fn is_run(&self, unit: u32) -> Result<bool, Fault> {
        let slab = self.layout.slab_meta.row(unit / SLAB_UNITS)?;
        Ok(self.get(field!(slab, SlabMeta, class))? == SlabMeta::RUN)
    }

    fn owner(&mut self, client_table: &ClientTable, unit: u32, owner: u64) {
        match client_table.owner(owner) {
            // A chunk of a client that has ended is freed later, by an agent or a client that
            // needs chunks.
            Owner::Client | Owner::Ended => {}
            Owner::Joining => self.unfinished(format!(
                "the chunk at unit {unit} is held by a process that was joining"
            )),
            Owner::NoClient => self.wrong(format!(
                "the chunk at unit {unit} belongs to {owner:#x}, which is not the id of a client"
            )),
        }
    }

    /// A unit in which no chunk begins has no owner, unless its slab is just being given another
    /// class.
    fn no_chunk(&mut self, client_table: &ClientTable, unit: u32, class: u32) -> Result<(), Fault> {
        let owner = self.word(Chunk(unit).owner(self.layout)?)?;
        if owner == 0 {
            return Ok(());
        }
        if class == 0 && owner != IN_OBJECT {
            self.owner(client_table, unit, owner);
        } else {
            self.wrong(format!("unit {unit} has owner {owner}, and no chunk begins there"));
        }
        Ok(())
    }
}

const _: () = assert!(SLAB_BYTES == SLAB_UNITS as u64 * UNIT_BYTES);
