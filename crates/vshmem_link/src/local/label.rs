//! The label that makes Linux in a guest show a pool as `/dev/daxX.Y`, with nothing to set up
//! there.
//!
//! A persistent memory namespace (an emulated nvdimm without a label area of its own, virtio-pmem)
//! becomes a device-dax device when it carries an "info block" at 4 KiB (struct nd_pfn_sb of
//! Linux's drivers/nvdimm/pfn.h; its numbers are little endian). The block says at which offset the
//! device's memory begins; there the pool lies.

use std::os::fd::BorrowedFd;

/// Bytes in front of a pool with a label: one large page, so that the pool begins on one.
pub const DAX_FRONT: u64 = 2 << 20;

/// Where the info block lies.
const BLOCK_AT: u64 = 4096;
/// Its size.
const BLOCK_BYTES: usize = 4096;
const SIGNATURE: &[u8; 16] = b"NVDIMM_DAX_INFO\0";
/// The guest keeps its page structures in its own memory (PFN_MODE_RAM, `ndctl --map=mem`).
const MODE_RAM: u32 = 1;
const PAGE: u64 = 4096;
/// Size of Linux's struct page where nothing is being debugged.
const PAGE_STRUCT: u16 = 64;

// Offsets of the fields.
const UUID: usize = 16;
const VERSION_MAJOR: usize = 52;
const VERSION_MINOR: usize = 54;
const DATA_OFFSET: usize = 56;
const FRAMES: usize = 64;
const MODE: usize = 72;
const ALIGN: usize = 84;
const PAGE_SIZE: usize = 88;
const PAGE_STRUCT_SIZE: usize = 92;
const CHECKSUM: usize = BLOCK_BYTES - 8;

/// What the label's UUID begins with: "vshmem", then the version of UUIDs that mean something of
/// their own (RFC 9562, version 8). A guest's udev knows a pool's device by it.
const OURS: &[u8; 6] = b"vshmem";
const UUID_VERSION: u8 = 0x80;

/// The UUID of the device, made of the pool's.
fn device_uuid(pool: &[u8; 16]) -> [u8; 16] {
    let mut uuid = *pool;
    uuid[..6].copy_from_slice(OURS);
    uuid[6] = UUID_VERSION | uuid[6] & 0x0f;
    uuid
}

/// The front of a file of `file_bytes` in all, up to the end of the info block. `uuid` is the
/// pool's.
#[must_use]
pub fn dax_label(file_bytes: u64, uuid: &[u8; 16]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut put = |at: usize, value: &[u8]| block[at..at + value.len()].copy_from_slice(value);
    put(0, SIGNATURE);
    put(UUID, &device_uuid(uuid));
    // The namespace has no identity of its own: the parent's uuid stays zero.
    put(VERSION_MAJOR, &1u16.to_le_bytes());
    put(VERSION_MINOR, &4u16.to_le_bytes());
    put(DATA_OFFSET, &DAX_FRONT.to_le_bytes());
    put(FRAMES, &(file_bytes.saturating_sub(DAX_FRONT) / PAGE).to_le_bytes());
    put(MODE, &MODE_RAM.to_le_bytes());
    put(ALIGN, &(DAX_FRONT as u32).to_le_bytes());
    put(PAGE_SIZE, &(PAGE as u32).to_le_bytes());
    put(PAGE_STRUCT_SIZE, &PAGE_STRUCT.to_le_bytes());
    let sum = fletcher(&block);
    block[CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
    let mut front = vec![0; BLOCK_AT as usize];
    front.extend(block);
    front
}

/// Bytes in front of the pool in a file: [`DAX_FRONT`] behind a label of this crate, else 0.
pub(crate) fn front_of(file: BorrowedFd<'_>, file_bytes: u64) -> u64 {
    let mut front = [0; BLOCK_AT as usize + BLOCK_BYTES];
    let read = rustix::io::pread(file, &mut front[..], 0);
    if file_bytes > DAX_FRONT && read == Ok(front.len()) && is_label(&front) {
        DAX_FRONT
    } else {
        0
    }
}

fn is_label(front: &[u8]) -> bool {
    let (before, block) = front.split_at(BLOCK_AT as usize);
    let field = |at: usize| &block[at..at + 8];
    // A pool begins with its magic number.
    before[..8] == [0; 8]
        && &block[..16] == SIGNATURE
        && field(DATA_OFFSET) == DAX_FRONT.to_le_bytes()
        && field(CHECKSUM) == fletcher(block).to_le_bytes()
}

/// Fletcher's sum over 32-bit words, with the checksum itself taken as zero.
fn fletcher(block: &[u8]) -> u64 {
    let (mut low, mut high) = (0u32, 0u64);
    for (index, word) in block.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        low = low.wrapping_add(if index * 4 < CHECKSUM { word } else { 0 });
        high = high.wrapping_add(u64::from(low));
    }
    high << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// kernel/ivshmem/60-vshmem.rules has this in the words of sysfs.
    #[test]
    fn a_guests_udev_knows_the_label_by_its_uuid() {
        let label = dax_label(DAX_FRONT + (8 << 20), &[0xff; 16]);
        let uuid = &label[BLOCK_AT as usize + UUID..][..16];
        let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, "7673686d656d8fffffffffffffffffff");
        let rules = include_str!("../../../../kernel/ivshmem/60-vshmem.rules");
        assert!(rules.contains("ATTRS{uuid}==\"7673686d-656d-8*\""), "{rules}");
    }

    #[test]
    fn a_label_is_recognised_and_a_damaged_one_is_not() {
        let file = tempfile::tempfile().unwrap();
        use std::os::unix::fs::FileExt;
        let bytes = DAX_FRONT + (8 << 20);
        file.set_len(bytes).unwrap();
        assert_eq!(front_of(file.as_fd(), bytes), 0);
        let label = dax_label(bytes, &[9; 16]);
        file.write_all_at(&label, 0).unwrap();
        assert_eq!(front_of(file.as_fd(), bytes), DAX_FRONT);
        assert_eq!(front_of(file.as_fd(), DAX_FRONT), 0, "nothing behind it");
        file.write_all_at(b"VSHMEM", 0).unwrap();
        assert_eq!(front_of(file.as_fd(), bytes), 0, "a pool that a member has scribbled on");
        file.write_all_at(&[0; 8], 0).unwrap();
        file.write_all_at(&[1], BLOCK_AT + UUID as u64).unwrap();
        assert_eq!(front_of(file.as_fd(), bytes), 0);
    }
}
