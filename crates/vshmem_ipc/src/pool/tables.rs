//! The tables of a pool by name: what a fault's offset lies in.

use vshmem_wire::{Area, Layout, PAGE_BYTES};

use crate::pool::limits::limit_name;

/// Where a table lies, and how large its rows are.
#[derive(Debug, Clone, Copy)]
struct Table {
    start: u64,
    end: u64,
    row: u64,
}

impl Table {
    fn of<T>(area: Area<T>) -> Self {
        Self { start: area.offset(), end: area.end(), row: size_of::<T>() as u64 }
    }
}

/// Every table, as `--limit` and the documentation call it.
fn tables(layout: &Layout) -> [(&'static str, Table); 19] {
    [
        (limit_name!(domains), Table::of(layout.domains)),
        (limit_name!(clients), Table::of(layout.clients)),
        (limit_name!(threads), Table::of(layout.threads)),
        ("segments", Table::of(layout.shm)),
        ("semaphore sets", Table::of(layout.sem)),
        ("message queues", Table::of(layout.msg)),
        ("keys of segments", Table::of(layout.keys[0])),
        ("keys of semaphore sets", Table::of(layout.keys[1])),
        ("keys of message queues", Table::of(layout.keys[2])),
        (limit_name!(attaches), Table::of(layout.attaches)),
        (limit_name!(undos), Table::of(layout.undos)),
        (limit_name!(futexes), Table::of(layout.futexes)),
        (limit_name!(locks), Table::of(layout.locks)),
        (limit_name!(slabs), Table::of(layout.slab_meta)),
        ("units of the heap", Table::of(layout.unit_meta)),
        ("extents", Table::of(layout.extents)),
        ("page marks", Table::of(layout.dirty)),
        ("heap", Table::of(layout.heap)),
        (limit_name!(pages), Table::of(layout.data)),
    ]
}

/// The table that an offset lies in, and the row there.
pub(crate) fn table_of(layout: &Layout, offset: u64) -> (&'static str, u64) {
    let found = tables(layout)
        .into_iter()
        .find(|(_, table)| (table.start..table.end).contains(&offset))
        .map(|(name, table)| (name, (offset - table.start) / table.row));
    let first_page = if offset < PAGE_BYTES { "superblock" } else { "registry" };
    found.unwrap_or((if offset < layout.domains.offset() { first_page } else { "no table" }, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vshmem_wire::Geometry;

    #[test]
    fn an_offset_names_its_table_and_row() {
        let layout = Geometry::for_size(16 << 20).and_then(|g| g.layout()).expect("a layout");
        assert_eq!(table_of(&layout, 0), ("superblock", 0));
        assert_eq!(table_of(&layout, layout.registry.offset()), ("registry", 0));
        for (name, table) in tables(&layout) {
            let rows = (table.end - table.start) / table.row;
            assert_eq!(table_of(&layout, table.start), (name, 0));
            assert_eq!(table_of(&layout, table.end - 1), (name, rows - 1));
        }
        assert_eq!(table_of(&layout, layout.total_bytes), ("no table", 0));
    }
}
