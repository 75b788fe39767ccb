//! The first page of a pool.

use crate::{Geometry, NODE_RANGES, NodeRange, Place};

/// The first eight bytes of every pool.
pub const MAGIC: [u8; 8] = *b"VSHMEM\xF0\x01";
/// Version of the layout in this crate. A pool of another version is refused.
pub const FORMAT_VERSION: u32 = 10;
/// Bytes of a pool's name, padded with zeros.
pub const POOL_NAME_BYTES: usize = 64;

/// What never changes after creation. At offset 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// Bytes of this structure, so that a reader can tell a longer one.
    pub bytes: u32,
    /// Identity of the pool: two pools of one name differ here.
    pub uuid: [u8; 16],
    /// Name in UTF-8, zero padded.
    pub name: [u8; POOL_NAME_BYTES],
    /// Bytes of the whole pool.
    pub total_bytes: u64,
    /// Seconds since 1970 at creation.
    pub created: u64,
    /// Seconds of silence after which a domain is evicted by the first agent that notices; 0:
    /// never.
    pub evict_after: u64,
    /// Owner of the pool: a domain-local wait file must belong to root or to this uid.
    pub owner_uid: u32,
    /// Mode of the pool's device or file at creation, for wait files.
    pub mode: u32,
    /// Bytes of free pages that agents keep zeroed ahead of demand.
    pub prepare: u64,
    /// 1 when every page was backed with memory at creation; 0 when `shmget` has to.
    pub backed: u64,
    /// Every count that the layout and the limits follow from.
    pub geometry: Geometry,
    /// Where the data pages lie, if each node has a range of its own.
    pub node_ranges: [NodeRange; NODE_RANGES],
    /// Random, and never shown: who knows it can open the pool. The files behind descriptors of
    /// POSIX objects are signed with it.
    pub signing_key: [u64; 2],
    /// FNV-1a over all bytes before this field.
    pub checksum: u64,
}

impl Superblock {
    /// The name without its padding. It may be a peer's: show it with control characters replaced.
    #[must_use]
    pub fn name_bytes(&self) -> &[u8] {
        let used = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        &self.name[..used]
    }

    /// The ranges of data pages that lie on one node each; none when the pool has no such ranges.
    #[must_use]
    pub fn node_ranges(&self) -> &[NodeRange] {
        let used = self.node_ranges.iter().position(|range| range.pages == 0);
        &self.node_ranges[..used.unwrap_or(NODE_RANGES)]
    }
}

/// Where the host's words lie in the first page, behind the superblock.
pub const HOST_RECORD_OFFSET: u64 = 2048;

/// What the host writes down about the pool's own file, so that a copy can be recognised. Zeros:
/// nothing.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HostRecord {
    /// Boot id of the host's kernel.
    pub boot_id: [u64; 2],
    /// Device number of the pool's file.
    pub device: u64,
    /// Inode number of the pool's file.
    pub inode: u64,
    /// 1 when the words before it are written.
    pub known: u64,
    /// The heartbeat: changes about once a second while the host serves the pool; 0 when it does
    /// not.
    pub heartbeat: u64,
}

impl HostRecord {
    /// Where every pool has it.
    pub const PLACE: Place<Self> = Place::at(HOST_RECORD_OFFSET);
}

const _: () = assert!(
    size_of::<Superblock>() <= HOST_RECORD_OFFSET as usize
        && HOST_RECORD_OFFSET as usize + size_of::<HostRecord>() <= 4096,
    "the superblock and the host's words are one page"
);
const _: () = assert!(size_of::<Superblock>().is_multiple_of(8), "the superblock is made of words");

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver has a copy of its own of the superblock's beginning, in C.
    #[test]
    fn the_driver_reads_the_superblock_as_it_is_laid_out() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/ivshmem/core.c");
        let source = std::fs::read_to_string(path).unwrap();
        let (_, body) = source.split_once("struct superblock {\n").unwrap();
        let (body, rest) = body.split_once("};").unwrap();
        let mut offset = 0;
        let fields: Vec<(&str, usize, usize)> = body
            .lines()
            .map(|line| {
                let (kind, field) = line.trim().trim_end_matches(';').split_once(' ').unwrap();
                let (name, count) = match field.trim_end_matches(']').split_once('[') {
                    Some((name, count)) => (name, count.parse().unwrap()),
                    None => (field, 1),
                };
                let bytes = count * if kind == "__le32" { 4 } else { 1 };
                offset += bytes;
                (name, offset - bytes, bytes)
            })
            .collect();
        let of = |name, at, bytes| (name, at, bytes);
        assert_eq!(
            fields,
            [
                of("magic", std::mem::offset_of!(Superblock, magic), MAGIC.len()),
                of("version", std::mem::offset_of!(Superblock, version), 4),
                of("bytes", std::mem::offset_of!(Superblock, bytes), 4),
                of("uuid", std::mem::offset_of!(Superblock, uuid), 16),
                of("name", std::mem::offset_of!(Superblock, name), POOL_NAME_BYTES),
            ]
        );
        let magic = MAGIC.map(|byte| match byte {
            b' '..=b'~' => format!("'{}'", byte as char),
            byte => format!("0x{byte:02X}"),
        });
        assert!(rest.contains(&format!("{{ {} }};", magic.join(", "))), "its magic is another");
    }
}
