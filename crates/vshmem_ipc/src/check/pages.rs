//! Data pages: extents, bins, marks, and the segments that lie in them.

use std::collections::{HashMap, HashSet};

use vshmem_sync::Fault;
use vshmem_wire::{
    ExtentSlot, ExtentState, ObjectName, ObjectState, PAGE_BINS, PAGE_BYTES, Place, Registry,
    ShmSlot, field,
};

use crate::check::checker::Checker;
use crate::check::objects::Objects;
use crate::memory::{dirty, extents};
use crate::pool::id::Kind;
use crate::registry::table::SlotState;

/// An extent as the walk from the first page to the last has found it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub state: Option<ExtentState>,
    pub first: u32,
    pub pages: u32,
}

impl Found {
    pub(super) fn is(&self, state: ExtentState) -> bool {
        self.state == Some(state)
    }
}

impl Checker<'_> {
    /// Extents from first page to last, by slot.
    pub(super) fn extents(&mut self) -> Result<HashMap<u32, Found>, Fault> {
        let layout = self.layout;
        let limit = extents::pages_in(layout);
        let mut extents = HashMap::new();
        let (mut slot, mut page, mut before) = (0, 0, 0);
        let mut free_before = false;
        loop {
            let at = layout.extents.row(slot)?;
            let found = Found {
                state: self.state(field!(at, ExtentSlot, state))?,
                first: self.get(field!(at, ExtentSlot, first))?,
                pages: self.get(field!(at, ExtentSlot, pages))?,
            };
            if found.first != page || found.pages == 0 || found.pages > limit - page {
                self.wrong(format!(
                    "extent {slot} has {} pages from {} and should begin at {page} of {limit}",
                    found.pages, found.first
                ));
                break;
            }
            if self.get(field!(at, ExtentSlot, before))? != before {
                self.wrong(format!("the extent at page {page} does not lead back"));
            }
            let free = found.is(ExtentState::Free);
            let known = free || found.is(ExtentState::Used) || found.is(ExtentState::Cleaning);
            if !known {
                let number = self.get(field!(at, ExtentSlot, state).cell())?;
                self.wrong(format!(
                    "the extent at page {page} is in state {number:#x}, which is none"
                ));
            }
            if free && free_before {
                self.wrong(format!("the free extent at page {page} follows a free one"));
            }
            free_before = free;
            extents.insert(slot, found);
            page += found.pages;
            let after = self.get(field!(at, ExtentSlot, after))?;
            let Some(next) = after.checked_sub(1) else { break };
            if u64::from(next) >= layout.extents.count || page == limit {
                self.wrong(format!("behind the extent in slot {slot} is slot {next}"));
                break;
            }
            before = slot + 1;
            slot = next;
        }
        if page < limit {
            self.wrong(format!("the extents end at page {page} of {limit}"));
        }
        Ok(extents)
    }

    fn is_posix(&mut self, slot: Place<ShmSlot>, slot_state: SlotState) -> Result<bool, Fault> {
        let word = self.word(field!(slot, ShmSlot, name))?;
        Ok(ObjectName::is_posix(word) && !slot_state.is(ObjectState::Creating))
    }

    /// A System V segment has as many pages as its bytes take; a POSIX object may have more.
    fn bytes_and_pages(
        &mut self,
        index: u32,
        slot: Place<ShmSlot>,
        slot_state: SlotState,
        pages: u32,
    ) -> Result<(), Fault> {
        let size = u64::from(self.get(field!(slot, ShmSlot, size_high))?) << 32
            | u64::from(self.get(field!(slot, ShmSlot, size_low))?);
        let (needed, has) = (size.div_ceil(PAGE_BYTES), u64::from(pages));
        if needed > has || needed < has && !self.is_posix(slot, slot_state)? {
            self.wrong(format!("segment {index} has {size} bytes and {pages} pages"));
        }
        Ok(())
    }

    pub(super) fn pages(&mut self, objects: &Objects) -> Result<(), Fault> {
        let extents = self.extents()?;
        self.bins(&extents)?;
        self.unused_slots(&extents)?;
        self.cleaning(&extents)?;
        let mut owners = HashMap::new();
        for (index, slot_state) in objects.of(Kind::Segment) {
            let slot = self.layout.shm.row(index)?;
            let first = self.get(field!(slot, ShmSlot, first_page))?;
            let pages = self.get(field!(slot, ShmSlot, pages))?;
            let extent = self.get(field!(slot, ShmSlot, extent))?;
            if pages == 0 && self.is_posix(slot, slot_state)? {
                self.bytes_and_pages(index, slot, slot_state, 0)?;
                continue;
            }
            let there = extents.get(&extent).is_some_and(|found| {
                found.is(ExtentState::Used) && found.first == first && found.pages == pages
            });
            if !there {
                self.wrong(format!(
                    "segment {index} lies in {pages} pages from {first}, which are no extent in use"
                ));
                continue;
            }
            if let Some(other) = owners.insert(extent, index) {
                self.wrong(format!("segments {index} and {other} lie in the same pages"));
            }
            if slot_state.is(ObjectState::Creating) {
                continue;
            }
            self.bytes_and_pages(index, slot, slot_state, pages)?;
            let marked = dirty::count(self.pool.map(), self.layout, first, pages)?;
            if marked != u64::from(pages) {
                self.wrong(format!(
                    "{} of the {pages} pages of segment {index} are marked clean, though it may have written to them",
                    u64::from(pages) - marked
                ));
            }
        }
        let mut used: u64 = 0;
        for (slot, found) in &extents {
            if found.is(ExtentState::Used) {
                used += u64::from(found.pages);
                if !owners.contains_key(slot) {
                    self.wrong(format!(
                        "{} pages from {} are in use and belong to no segment",
                        found.pages, found.first
                    ));
                }
            }
        }
        let counted = self.get(field!(self.layout.registry, Registry, pages_used))?;
        if u64::from(counted) != used {
            self.wrong(format!("{used} pages are in use, and {counted} are counted"));
        }
        Ok(())
    }

    /// The bins hold exactly the free extents.
    fn bins(&mut self, extents: &HashMap<u32, Found>) -> Result<(), Fault> {
        let mut listed = HashSet::new();
        for bin in 0..PAGE_BINS {
            let mut next = self.get(extents::bin_at(self.layout, bin))?;
            let mut before = 0;
            while let Some(slot) = next.checked_sub(1) {
                let Some(found) = extents.get(&slot).filter(|found| found.is(ExtentState::Free))
                else {
                    self.wrong(format!("bin {bin} lists extent {slot}, which is not free"));
                    break;
                };
                if !listed.insert(slot) {
                    self.wrong(format!("the free extent at page {} is listed twice", found.first));
                    break;
                }
                if extents::bin_of(found.pages) != bin {
                    self.wrong(format!(
                        "the free extent at page {} ({} pages) is in bin {bin}",
                        found.first, found.pages
                    ));
                }
                let at = self.layout.extents.row(slot)?;
                if self.get(field!(at, ExtentSlot, previous))? != before {
                    self.wrong(format!(
                        "the free extent at page {} does not lead back in bin {bin}",
                        found.first
                    ));
                }
                before = next;
                next = self.get(field!(at, ExtentSlot, next))?;
            }
        }
        for (slot, found) in extents {
            if found.is(ExtentState::Free) && !listed.contains(slot) {
                self.wrong(format!("the free extent at page {} is in no bin", found.first));
            }
        }
        Ok(())
    }

    /// The slots of the table that hold no extent are exactly those that are listed as unused.
    fn unused_slots(&mut self, extents: &HashMap<u32, Found>) -> Result<(), Fault> {
        let high = self.get(field!(self.layout.registry, Registry, extents_high))?;
        let mut unused = HashSet::new();
        let mut next = self.get(field!(self.layout.registry, Registry, extents_unused))?;
        while let Some(slot) = next.checked_sub(1) {
            if slot >= high || extents.contains_key(&slot) || !unused.insert(slot) {
                self.wrong(format!("extent slot {slot} is listed as unused"));
                break;
            }
            let at = self.layout.extents.row(slot)?;
            if self.state(field!(at, ExtentSlot, state))? != Some(ExtentState::Unused) {
                self.wrong(format!("extent slot {slot} is listed as unused and has a state"));
            }
            next = self.get(field!(at, ExtentSlot, next))?;
        }
        if extents.len() + unused.len() != high as usize {
            self.wrong(format!(
                "{high} extent slots have been used, and there are {} extents and {} unused slots",
                extents.len(),
                unused.len()
            ));
        }
        Ok(())
    }

    /// The extent that is being cleaned is the one that the registry names, and another thread
    /// cleans it.
    fn cleaning(&mut self, extents: &HashMap<u32, Found>) -> Result<(), Fault> {
        let named = self.get(field!(self.layout.registry, Registry, cleaning))?;
        for (slot, found) in extents {
            if found.is(ExtentState::Cleaning) && named != slot + 1 {
                self.wrong(format!(
                    "no thread cleans the {} pages from {}",
                    found.pages, found.first
                ));
            }
        }
        let Some(slot) = named.checked_sub(1) else { return Ok(()) };
        if !extents.get(&slot).is_some_and(|found| found.is(ExtentState::Cleaning)) {
            self.wrong(format!("extent {slot} is said to be cleaned, and is not"));
        }
        let cleaner = self.word(field!(self.layout.registry, Registry, cleaner))?;
        if !self.lives(cleaner)? {
            self.unfinished(format!("extent {slot} was being cleaned by a client that has ended"));
        }
        Ok(())
    }
}
