//! One look at a pool: its words as they will be, and what was found.

use std::collections::HashMap;

use vshmem_mem::Ordering;
use vshmem_sync::{Fault, field, holder_of};
use vshmem_wire::{Cell, IntentEntry, IntentHead, Layout, ObjectHeader, ThreadSlot, WORD_BYTES};

use crate::pool::id::Kind;
use crate::pool::open::Pool;
use crate::pool::threads::thread_at;

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
    pub(crate) fn word(&self, at: u64) -> Result<u64, Fault> {
        match self.pending.get(&at) {
            Some(word) => Ok(*word),
            None => Ok(self.pool.map().load(at, Ordering::Acquire)?),
        }
    }

    /// The value of a cell as it will be.
    pub(crate) fn get(&self, at: u64) -> Result<u32, Fault> {
        Ok(self.word(at)? as u32)
    }

    /// All lock words, and the changes that are committed and not carried out.
    pub(crate) fn locks(&mut self) -> Result<(), Fault> {
        let mut locks = vec![(self.pool.registry_lock(), "the registry".to_owned())];
        for kind in [Kind::Semaphore, Kind::Queue] {
            let area = kind.area(self.layout);
            for index in 0..area.count as u32 {
                if let Some(slot) = area.at(index) {
                    let name = format!("{} {index}", name_of(kind));
                    locks.push((field!(slot, ObjectHeader, lock), name));
                }
            }
        }
        for index in 0..self.layout.futexes.count as u32 {
            let name = format!("wait queue by address {index}");
            locks.extend(self.layout.futexes.at(index).map(|at| (at, name)));
        }
        for (at, name) in locks {
            let Some(holder) = holder_of(self.pool.map(), at)? else {
                continue;
            };
            let Ok(thread) = thread_at(self.layout, holder.slot) else {
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
            let owner = self.pool.map().load(thread, Ordering::Acquire)?;
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
    pub(crate) fn read_record(&mut self, lock: u64, thread: u64) -> Result<(), Fault> {
        let map = self.pool.map();
        let committed = map.load_cell(lock)?;
        let head = map.load(field!(thread, ThreadSlot, intent_head), Ordering::Acquire)?;
        let of = map.load(field!(thread, ThreadSlot, intent_lock), Ordering::Relaxed)?;
        let Some(entries) = IntentHead::entries_for(head, committed.tag).filter(|_| of == lock)
        else {
            return Ok(());
        };
        let stride = size_of::<IntentEntry>() as u64;
        let near = vshmem_wire::INTENT_ENTRIES as u64;
        let more = map.load(field!(thread, ThreadSlot, more_intents), Ordering::Relaxed)?;
        let count = entries.min(near + vshmem_wire::MORE_LOG_ENTRIES as u64);
        for index in 0..count {
            let at = if index < near {
                Some(field!(thread, ThreadSlot, intents) + index * stride)
            } else {
                more.checked_add((index - near) * stride)
            };
            let Some(at) = at.filter(|at| *at <= self.layout.data.offset - stride) else {
                return Ok(());
            };
            let load = |nth: u64| map.load(at + nth * WORD_BYTES, Ordering::Relaxed);
            let (offset, new) = (load(0)?, load(3)?);
            let old = Cell { word: load(1)?, tag: load(2)? };
            let inside = (vshmem_wire::PAGE_BYTES..self.layout.data.offset).contains(&offset);
            if inside && map.load_cell(offset).is_ok_and(|now| now == old) {
                self.pending.insert(offset, new);
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
