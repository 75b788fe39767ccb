//! Names of POSIX objects: whole, in the index by their hash, and each there once.

use std::collections::HashMap;

use vshmem_sync::Fault;
use vshmem_wire::{NAME_BYTES, ObjectHeader, ObjectKey, ObjectName, ObjectState, field};

use crate::check::checker::{Checker, name_of};
use crate::check::heap::Uses;
use crate::check::objects::Objects;
use crate::pool::id::Kind;
use crate::registry::name;

impl Checker<'_> {
    pub(super) fn names(&mut self, objects: &Objects, uses: &mut Uses) -> Result<(), Fault> {
        for kind in [Kind::Segment, Kind::Queue] {
            let mut found = HashMap::new();
            for (index, slot_state) in objects.of(kind) {
                if slot_state.is(ObjectState::Creating) {
                    continue;
                }
                let noun = name_of(kind);
                let slot = kind.row(self.layout, index)?;
                let key = ObjectKey::of_word(self.word(field!(slot, ObjectHeader, key))?);
                let word = self.word(name::cell_at(self.layout, kind, index)?)?;
                let ObjectName::Chunk { unit, bytes } = ObjectName::unpack(word) else {
                    if key.is_name() {
                        self.wrong(format!("{noun} {index} is listed by a name and has none"));
                    }
                    continue;
                };
                self.refer(uses, unit, format!("the name of {noun} {index}"), u64::from(bytes));
                let (map, layout) = (self.pool.map(), self.layout);
                let Some(name) = name::read(map, layout, word).ok().flatten() else {
                    self.wrong(format!(
                        "the name of {noun} {index} has {bytes} bytes at unit {unit}; at most \
                         {NAME_BYTES} can be"
                    ));
                    continue;
                };
                if slot_state.is(ObjectState::Doomed) || key != ObjectKey::of_name(&name) {
                    self.wrong(format!("{noun} {index} has a name and is not listed by it"));
                }
                if let Some(other) = found.insert(name, index) {
                    self.wrong(format!("{noun}s {index} and {other} have the same name"));
                }
            }
        }
        Ok(())
    }
}
