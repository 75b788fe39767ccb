//! Where a pool can be scribbled over, and with what.

use vshmem_wire::{Area, Layout, PAGE_BYTES, WORD_BYTES};

/// A range of words that belong together.
#[derive(Debug, Clone, Copy)]
pub struct WordRange {
    pub name: &'static str,
    pub offset: u64,
    pub words: u64,
    /// Words of one structure; 1 where there are none.
    pub each: u64,
}

impl WordRange {
    fn of<T>(name: &'static str, area: Area<T>) -> Self {
        let each = size_of::<T>() as u64 / WORD_BYTES;
        Self { name, offset: area.offset(), words: each * area.count, each }
    }

    pub fn word(&self, nth: u64) -> u64 {
        self.offset + nth % self.words * WORD_BYTES
    }
}

/// Every structure of the pool.
pub fn all(layout: &Layout) -> Vec<WordRange> {
    vec![
        WordRange { name: "superblock", offset: 0, words: PAGE_BYTES / WORD_BYTES, each: 1 },
        WordRange { name: "registry", offset: layout.registry.offset(), words: 128, each: 128 },
        WordRange::of("domains", layout.domains),
        WordRange::of("clients", layout.clients),
        WordRange::of("threads", layout.threads),
        WordRange::of("segments", layout.shm),
        WordRange::of("sets", layout.sem),
        WordRange::of("queues", layout.msg),
        WordRange::of("keys of segments", layout.keys[0]),
        WordRange::of("keys of sets", layout.keys[1]),
        WordRange::of("keys of queues", layout.keys[2]),
        WordRange::of("attaches", layout.attaches),
        WordRange::of("undos", layout.undos),
        WordRange::of("futexes", layout.futexes),
        WordRange::of("locks", layout.locks),
        WordRange::of("slabs", layout.slab_meta),
        WordRange::of("units", layout.unit_meta),
        WordRange::of("extents", layout.extents),
        WordRange::of("dirty marks", layout.dirty),
        WordRange { each: 1, ..WordRange::of("heap", layout.heap) },
    ]
}

pub fn named(layout: &Layout, names: &[&str]) -> Vec<WordRange> {
    all(layout).into_iter().filter(|place| names.contains(&place.name)).collect()
}

/// Replaces the number of 32 bits in a cell.
fn cell(old: u64, value: u32) -> u64 {
    old & 0xffff_ffff_0000_0000 | u64::from(value)
}

/// How many kinds of nonsense [`nasty`] knows.
pub const NASTY: u64 = 20;

/// A value that a hostile member would write over `old`.
pub fn nasty(old: u64, nth: u64) -> u64 {
    let value = old as u32;
    match nth % NASTY {
        0 => 0,
        1 => u64::MAX,
        2 => cell(old, 0),
        3 => cell(old, 1),
        4 => cell(old, 2),
        5 => cell(old, 3),
        6 => cell(old, 4),
        7 => cell(old, u32::MAX),
        8 => cell(old, u32::MAX - 1),
        9 => cell(old, i32::MAX as u32),
        10 => cell(old, i32::MIN as u32),
        11 => cell(old, value.wrapping_add(1)),
        12 => cell(old, value.wrapping_sub(1)),
        13 => cell(old, value ^ 1 << 8),
        14 => cell(old, value.rotate_left(16)),
        15 => u64::MAX - 7,
        16 => i64::MIN as u64,
        17 => 4096,
        18 => old ^ 0x8000,
        _ => cell(old, 7),
    }
}
