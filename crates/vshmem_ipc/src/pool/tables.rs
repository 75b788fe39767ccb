//! The tables of a pool by name: what a fault's offset lies in.

use vshmem_wire::{Area, Layout, PAGE_BYTES};

use crate::pool::limits::limit_name;

/// Every table, as `--limit` and the documentation call it.
fn tables(layout: &Layout) -> [(&'static str, Area); 18] {
    [
        (limit_name!(domains), layout.domains),
        (limit_name!(clients), layout.clients),
        (limit_name!(threads), layout.threads),
        ("segments", layout.shm),
        ("semaphore sets", layout.sem),
        ("message queues", layout.msg),
        ("keys of segments", layout.keys[0]),
        ("keys of semaphore sets", layout.keys[1]),
        ("keys of message queues", layout.keys[2]),
        (limit_name!(attaches), layout.attaches),
        (limit_name!(undos), layout.undos),
        (limit_name!(futexes), layout.futexes),
        (limit_name!(slabs), layout.slab_meta),
        ("units of the heap", layout.unit_meta),
        ("extents", layout.extents),
        ("page marks", layout.dirty),
        ("heap", layout.heap),
        (limit_name!(pages), layout.data),
    ]
}

/// The table that an offset lies in, and the row there.
pub(crate) fn table_of(layout: &Layout, offset: u64) -> (&'static str, u64) {
    let found = tables(layout)
        .into_iter()
        .find(|(_, area)| (area.offset..area.end()).contains(&offset))
        .map(|(name, area)| (name, (offset - area.offset) / area.stride));
    let first_page = if offset < PAGE_BYTES { "superblock" } else { "registry" };
    found.unwrap_or((if offset < layout.domains.offset { first_page } else { "no table" }, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vshmem_wire::Geometry;

    #[test]
    fn an_offset_names_its_table_and_row() {
        let layout = Geometry::for_size(16 << 20).and_then(|g| g.layout()).expect("a layout");
        assert_eq!(table_of(&layout, 0), ("superblock", 0));
        assert_eq!(table_of(&layout, layout.registry), ("registry", 0));
        for (name, area) in tables(&layout) {
            assert_eq!(table_of(&layout, area.offset), (name, 0));
            assert_eq!(table_of(&layout, area.end() - 1), (name, area.count - 1));
        }
        assert_eq!(table_of(&layout, layout.total_bytes), ("no table", 0));
    }
}
