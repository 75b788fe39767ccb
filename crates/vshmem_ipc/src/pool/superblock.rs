//! A superblock as bytes.

use std::fmt;
use std::fmt::Write as _;

use vshmem_wire::{Geometry, NodeRange, Superblock};

/// Zero padded bytes as text. They may be a peer's: nothing in them commands a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a>(pub &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        for chunk in self.0[..used].utf8_chunks() {
            for c in chunk.valid().chars() {
                f.write_char(if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })?;
            }
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

/// Reads the fields of a superblock from bytes, without a cast.
pub(crate) struct Reader<'a> {
    pub bytes: &'a [u8],
}

impl Reader<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        out
    }

    pub(crate) fn superblock(&self) -> Superblock {
        macro_rules! at {
            ($type:ty, $field:ident) => {
                <$type>::from_ne_bytes(self.array(std::mem::offset_of!(Superblock, $field)))
            };
        }
        Superblock {
            magic: self.array(std::mem::offset_of!(Superblock, magic)),
            version: at!(u32, version),
            bytes: at!(u32, bytes),
            uuid: self.array(std::mem::offset_of!(Superblock, uuid)),
            name: self.array(std::mem::offset_of!(Superblock, name)),
            total_bytes: at!(u64, total_bytes),
            created: at!(u64, created),
            evict_after: at!(u64, evict_after),
            owner_uid: at!(u32, owner_uid),
            mode: at!(u32, mode),
            prepare: at!(u64, prepare),
            backed: at!(u64, backed),
            geometry: Geometry::from_bytes(&self.array(std::mem::offset_of!(Superblock, geometry))),
            node_ranges: std::array::from_fn(|nth| {
                let at = std::mem::offset_of!(Superblock, node_ranges);
                NodeRange::from_bytes(&self.array(at + nth * size_of::<NodeRange>()))
            }),
            signing_key: std::array::from_fn(|nth| {
                let at = std::mem::offset_of!(Superblock, signing_key);
                u64::from_ne_bytes(self.array(at + nth * size_of::<u64>()))
            }),
            checksum: at!(u64, checksum),
        }
    }
}

/// Writes them.
pub(crate) struct Writer;

impl Writer {
    pub(crate) fn superblock(superblock: &Superblock) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<Superblock>()];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        macro_rules! at {
            ($($field:ident),*) => {
                $(put(std::mem::offset_of!(Superblock, $field), &superblock.$field.to_ne_bytes());)*
            };
        }
        put(std::mem::offset_of!(Superblock, magic), &superblock.magic);
        put(std::mem::offset_of!(Superblock, uuid), &superblock.uuid);
        put(std::mem::offset_of!(Superblock, name), &superblock.name);
        at!(
            version,
            bytes,
            total_bytes,
            created,
            evict_after,
            owner_uid,
            mode,
            prepare,
            backed,
            checksum
        );
        put(std::mem::offset_of!(Superblock, geometry), &superblock.geometry.to_bytes());
        for (nth, range) in superblock.node_ranges.iter().enumerate() {
            let at = std::mem::offset_of!(Superblock, node_ranges);
            put(at + nth * size_of::<NodeRange>(), &range.to_bytes());
        }
        for (nth, half) in superblock.signing_key.iter().enumerate() {
            let at = std::mem::offset_of!(Superblock, signing_key);
            put(at + nth * size_of::<u64>(), &half.to_ne_bytes());
        }
        bytes
    }
}
