//! One look at a pool: its words as they will be, and what was found.

use std::collections::HashMap;

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, holder_of, load_word, read_entry};
use vshmem_wire::{
    Cell, FutexBucket, IntentEntry, IntentHead, Layout, ObjectHeader, Place, RawCell, Registry,
    State, StateCell, ThreadSlot, field,
};

use crate::pool::id::Kind;
use crate::pool::open::Pool;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// A crash can leave this behind; the next client or `--repair` repairs it.
    Unfinished,
    /// No crash leaves this behind: a hostile member or an error in this library did it.
    Wrong,
}

/// One inconsistency.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// What, in a sentence.
    pub what: String,
}

/// Findings after which the check stops.
const ENOUGH: usize = 1000;

/// Whether there was more than was written down.
pub(crate) fn is_cut(findings: &[Finding]) -> bool {
    findings.len() > ENOUGH
}

/// One check of a pool.
pub(crate) struct Checker<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) layout: &'a Layout,
    /// Words that a committed change is about to write.
    pub(crate) pending: HashMap<u64, u64>,
    pub(crate) findings: Vec<Finding>,
}

impl Checker<'_> {
    pub(crate) fn wrong(&mut self, what: String) {
        self.note(Severity::Wrong, what);
    }

    pub(crate) fn unfinished(&mut self, what: String) {
        self.note(Severity::Unfinished, what);
    }

    pub(crate) fn note(&mut self, severity: Severity, what: String) {
        if self.findings.len() < ENOUGH {
            self.findings.push(Finding { severity, what });
        } else if self.findings.len() == ENOUGH {
            let what = "there is more; it was not written down".to_owned();
            self.findings.push(Finding { severity, what });
        }
    }

    /// A word as it will be.
    pub(crate) fn word(&self, at: Place<RawCell>) -> Result<u64, Fault> {
        match self.pending.get(&at.offset()) {
            Some(word) => Ok(*word),
            None => Ok(load_word(self.pool.map(), at)?),
        }
    }

    /// The value of a cell as it will be.
    pub(crate) fn get(&self, at: Place<RawCell>) -> Result<u32, Fault> {
        Ok(self.word(at)? as u32)
    }

    /// The state in a cell as it will be; `None` when it is none.
    pub(crate) fn state<S: State>(&self, at: Place<StateCell<S>>) -> Result<Option<S>, Fault> {
        self.get(at.cell()).map(S::of)
    }

    /// All lock words, and the changes that are committed and not carried out.
    pub(crate) fn locks(&mut self) -> Result<(), Fault> {
        let lock_table = field!(self.layout.registry, Registry, lock_table);
        let mut locks = vec![
            (self.pool.registry_lock(), "the registry".to_owned()),
            (lock_table, "the lock table".to_owned()),
        ];
        for kind in [Kind::Semaphore, Kind::Queue] {
            for index in 0..kind.slots(self.layout) as u32 {
                if let Ok(slot) = kind.row(self.layout, index) {
                    let name = format!("{} {index}", name_of(kind));
                    locks.push((field!(slot, ObjectHeader, lock), name));
                }
            }
        }
        for index in 0..self.layout.futexes.count as u32 {
            let name = format!("wait queue by address {index}");
            let bucket = self.layout.futexes.at(index);
            locks.extend(bucket.map(|at| (field!(at, FutexBucket, lock), name)));
        }
        for (at, name) in locks {
            let Some(holder) = holder_of(self.pool.map(), at)? else {
                continue;
            };
            let Ok(thread) = self.layout.threads.row(holder.slot) else {
                self.wrong(format!(
                    "the lock of {name} is held by thread slot {}, which does not exist",
                    holder.slot
                ));
                continue;
            };
            if holder.committed {
                self.unfinished(format!(
                    "a change to {name} by thread slot {} is committed and not carried out",
                    holder.slot
                ));
                self.read_record(at, thread)?;
                continue;
            }
            let owner = load_word(self.pool.map(), field!(thread, ThreadSlot, owner))?;
            if !self.lives(owner)? {
                self.unfinished(format!(
                    "the lock of {name} is held by thread slot {}, whose owner is gone",
                    holder.slot
                ));
            }
        }
        Ok(())
    }

    /// Notes what the committed change of a thread slot is about to write.
    pub(crate) fn read_record(
        &mut self,
        lock: Place<RawCell>,
        thread: Place<ThreadSlot>,
    ) -> Result<(), Fault> {
        let map = self.pool.map();
        let committed = map.load_cell(lock)?;
        let head = map.load(field!(thread, ThreadSlot, intent_head), Ordering::Acquire)?;
        let of = map.load(field!(thread, ThreadSlot, intent_lock), Ordering::Relaxed)?;
        let Some(entries) =
            IntentHead::entries_for(head, committed.tag).filter(|_| of == lock.offset())
        else {
            return Ok(());
        };
        let near = vshmem_wire::INTENT_ENTRIES as u64;
        let more_at = field!(thread, ThreadSlot, more_intents);
        let more = Place::<IntentEntry>::at(map.load(more_at, Ordering::Relaxed)?);
        let count = entries.min(near + vshmem_wire::MORE_INTENT_ENTRIES as u64);
        for index in 0..count {
            let at = if index < near {
                field!(thread, ThreadSlot, intents).element(index)
            } else {
                more.nth(index - near)
            };
            // A record that no honest client writes ends here, as for who carries it out.
            let Some(entry) = read_entry(map, at) else { return Ok(()) };
            let old = Cell { word: entry.old, tag: entry.tag };
            let inside =
                (vshmem_wire::PAGE_BYTES..self.layout.data.offset()).contains(&entry.offset);
            if inside && map.load_cell(entry.offset).is_ok_and(|now| now == old) {
                self.pending.insert(entry.offset, entry.new);
            }
        }
        Ok(())
    }
}

/// What an object of a kind is called in a finding.
pub(crate) fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Segment => "segment",
        Kind::Semaphore => "semaphore set",
        Kind::Queue => "queue",
    }
}
