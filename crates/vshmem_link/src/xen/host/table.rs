//! The pool domain's grant table: version 1 of public/grant_table.h, written by dom0.

use rustix::io::Errno;
use vshmem_mem::{Map, Ordering};

/// Access is granted.
const PERMIT: u16 = 1;
/// A domain has it mapped.
const READING: u16 = 1 << 3;
const WRITING: u16 = 1 << 4;

/// An entry: flags, domain, frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    flags: u16,
    domid: u16,
    frame: u32,
}

impl Entry {
    fn pack(self) -> u64 {
        let (flags, domid) = (self.flags.to_ne_bytes(), self.domid.to_ne_bytes());
        let frame = self.frame.to_ne_bytes();
        u64::from_ne_bytes([
            flags[0], flags[1], domid[0], domid[1], frame[0], frame[1], frame[2], frame[3],
        ])
    }

    fn unpack(word: u64) -> Self {
        let b = word.to_ne_bytes();
        Self {
            flags: u16::from_ne_bytes([b[0], b[1]]),
            domid: u16::from_ne_bytes([b[2], b[3]]),
            frame: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    fn is_mapped(self) -> bool {
        self.flags & (READING | WRITING) != 0
    }
}

/// The state of a member's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Entries that permit access.
    pub granted: u32,
    /// Entries that are mapped.
    pub mapped: u32,
}

/// The table.
#[derive(Debug)]
pub struct Table {
    map: Map,
}

fn outside(_: vshmem_mem::OutOfPool) -> Errno {
    Errno::INVAL
}

impl Table {
    /// The grant table that lies in `map`.
    pub fn of(map: Map) -> Self {
        Self { map }
    }

    fn entry(&self, reference: u32) -> Result<Entry, Errno> {
        self.map
            .load(u64::from(reference) * 8, Ordering::Acquire)
            .map(Entry::unpack)
            .map_err(outside)
    }

    /// The frame that an entry speaks of.
    pub fn frame(&self, reference: u32) -> Result<u32, Errno> {
        Ok(self.entry(reference)?.frame)
    }

    /// Grants a row of entries to a domain. The hypervisor sees frame and domain before the flags
    /// that make it look at them.
    pub fn grant(
        &self,
        first: u32,
        frames: impl Iterator<Item = Result<u32, Errno>>,
        domid: u16,
    ) -> Result<(), Errno> {
        for (reference, frame) in (first..).zip(frames) {
            let at = u64::from(reference) * 8;
            let entry = Entry { flags: 0, domid, frame: frame? };
            self.map.store(at, entry.pack(), Ordering::Release).map_err(outside)?;
            self.map
                .store(at, Entry { flags: PERMIT, ..entry }.pack(), Ordering::Release)
                .map_err(outside)?;
        }
        Ok(())
    }

    /// Takes a row of entries back. Those that are mapped can be mapped by no other any more,
    /// but stay until they are unmapped. Says how many those are.
    pub fn revoke(&self, first: u32, pages: u32) -> Result<u32, Errno> {
        let mut mapped = 0;
        for reference in first..first.saturating_add(pages) {
            let at = u64::from(reference) * 8;
            loop {
                let word = self.map.load(at, Ordering::Acquire).map_err(outside)?;
                let entry = Entry::unpack(word);
                let kept = entry.flags & (READING | WRITING);
                let after = Entry { flags: kept, ..entry };
                if word == after.pack()
                    || self.map.replace(at, word, after.pack()).map_err(outside)?
                {
                    mapped += u32::from(entry.is_mapped());
                    break;
                }
            }
        }
        Ok(mapped)
    }

    /// Counts a row of entries.
    pub fn count(&self, first: u32, pages: u32) -> Result<Count, Errno> {
        let mut count = Count::default();
        for reference in first..first.saturating_add(pages) {
            let entry = self.entry(reference)?;
            count.granted += u32::from(entry.flags & PERMIT != 0);
            count.mapped += u32::from(entry.is_mapped());
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_lie_as_the_hypervisor_reads_them() {
        let bytes = Entry { flags: PERMIT, domid: 3, frame: 0x0102_0304 }.pack().to_ne_bytes();
        assert_eq!(bytes[..2], 1u16.to_ne_bytes());
        assert_eq!(bytes[2..4], 3u16.to_ne_bytes());
        assert_eq!(bytes[4..], 0x0102_0304u32.to_ne_bytes());
    }

    #[test]
    fn what_is_mapped_is_revoked_as_far_as_it_goes() {
        let table = Table::of(Map::anonymous(4096));
        table.grant(8, [10, 11, 12].into_iter().map(Ok), 2).unwrap();
        assert_eq!(table.count(8, 3).unwrap(), Count { granted: 3, mapped: 0 });
        // The hypervisor notes a mapping in the flags.
        let entry = table.entry(9).unwrap();
        let mapped = Entry { flags: entry.flags | READING | WRITING, ..entry };
        table.map.store(72, mapped.pack(), Ordering::Relaxed).unwrap();
        assert_eq!(table.revoke(8, 3).unwrap(), 1);
        assert_eq!(table.count(8, 3).unwrap(), Count { granted: 0, mapped: 1 });
        assert_eq!(table.frame(10).unwrap(), 12);
        table.map.store(72, Entry { flags: 0, ..mapped }.pack(), Ordering::Relaxed).unwrap();
        assert_eq!(table.revoke(8, 3).unwrap(), 0);
    }

    #[test]
    fn entries_outside_the_table_are_an_error() {
        let table = Table::of(Map::anonymous(4096));
        assert_eq!(table.revoke(510, 3), Err(Errno::INVAL));
        assert_eq!(table.grant(512, [1].into_iter().map(Ok), 2), Err(Errno::INVAL));
    }
}
