//! Data pages: extents, bins, and the segments that lie in them.

use std::collections::{HashMap, HashSet};

use vshmem_sync::{Fault, field};
use vshmem_wire::{ObjectState, PAGE_BINS, PAGE_BYTES, PageMeta, Registry, ShmSlot};

use super::Look;
use super::objects::Objects;
use crate::extent;
use crate::id::Kind;
use crate::registry;

impl Look<'_> {
    /// Extents from first page to last: length and state of each.
    pub(super) fn extents(&mut self) -> Result<HashMap<u32, (u32, u32)>, Fault> {
        let layout = self.layout;
        let limit = layout.page_meta.count as u32;
        let mut extents = HashMap::new();
        let (mut page, mut free_before) = (0, false);
        while page < limit {
            let (length, state) = self.boundary(page)?;
            if length == 0 || length > limit - page {
                self.wrong(format!("the extent at page {page} of {limit} is {length} pages long"));
                break;
            }
            if self.boundary(page + length - 1)? != (length, state) {
                self.wrong(format!("the extent at page {page} ends otherwise than it begins"));
            }
            let free = state & 0xff == PageMeta::FREE && state & !PageMeta::DIRTY == PageMeta::FREE;
            if !free && state != PageMeta::USED {
                self.wrong(format!(
                    "the extent at page {page} is in state {state:#x}, which is none"
                ));
            }
            if free && free_before {
                self.wrong(format!("the free extent at page {page} follows a free one"));
            }
            free_before = free;
            extents.insert(page, (length, state));
            page += length;
        }
        Ok(extents)
    }

    fn boundary(&self, page: u32) -> Result<(u32, u32), Fault> {
        let at = extent::meta(self.layout, page)?;
        let length = self.get(field!(at, PageMeta, length))?;
        Ok((length, self.get(field!(at, PageMeta, state))?))
    }

    pub(super) fn pages(&mut self, objects: &Objects) -> Result<(), Fault> {
        let extents = self.extents()?;
        self.bins(&extents)?;
        let mut used: u64 = 0;
        let mut owners = HashMap::new();
        for (index, standing) in objects.of(Kind::Segment) {
            let slot = registry::slot_at(self.layout, Kind::Segment, index)?;
            let first = self.get(field!(slot, ShmSlot, first_page))?;
            let pages = self.get(field!(slot, ShmSlot, pages))?;
            if extents.get(&first) != Some(&(pages, PageMeta::USED)) {
                self.wrong(format!(
                    "segment {index} lies in {pages} pages from {first}, which are no extent in use"
                ));
            } else if let Some(other) = owners.insert(first, index) {
                self.wrong(format!("segments {index} and {other} lie in the same pages"));
            }
            let size = u64::from(self.get(field!(slot, ShmSlot, size_high))?) << 32
                | u64::from(self.get(field!(slot, ShmSlot, size_low))?);
            let complete = !standing.is(ObjectState::Creating);
            if complete && size.div_ceil(PAGE_BYTES) != u64::from(pages) {
                self.wrong(format!("segment {index} has {size} bytes and {pages} pages"));
            }
        }
        for (first, (length, state)) in &extents {
            if *state == PageMeta::USED {
                used += u64::from(*length);
                if !owners.contains_key(first) {
                    self.wrong(format!(
                        "{length} pages from {first} are in use and belong to no segment"
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
    fn bins(&mut self, extents: &HashMap<u32, (u32, u32)>) -> Result<(), Fault> {
        let mut listed = HashSet::new();
        for bin in 0..PAGE_BINS {
            let mut next = self.get(extent::bin_at(self.layout, bin))?;
            let mut before = 0;
            while let Some(first) = next.checked_sub(1) {
                let free = extents.get(&first).filter(|(_, state)| state & 0xff == PageMeta::FREE);
                let Some((length, _)) = free else {
                    self.wrong(format!(
                        "bin {bin} lists page {first}, where no free extent begins"
                    ));
                    break;
                };
                if !listed.insert(first) {
                    self.wrong(format!("the free extent at page {first} is listed twice"));
                    break;
                }
                if extent::bin_of(*length) != bin {
                    self.wrong(format!(
                        "the free extent at page {first} ({length} pages) is in bin {bin}"
                    ));
                }
                let at = extent::meta(self.layout, first)?;
                if self.get(field!(at, PageMeta, previous))? != before {
                    self.wrong(format!(
                        "the free extent at page {first} does not lead back in bin {bin}"
                    ));
                }
                before = next;
                next = self.get(field!(at, PageMeta, next))?;
            }
        }
        for (first, (_, state)) in extents {
            if state & 0xff == PageMeta::FREE && !listed.contains(first) {
                self.wrong(format!("the free extent at page {first} is in no bin"));
            }
        }
        Ok(())
    }
}
