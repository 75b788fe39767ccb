//! Where the pages of a new pool lie.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use vshmem_mem::{PageNodes, on_nodes, place_pages};
use vshmem_wire::{Layout, NODE_RANGES, NODES_WITH_DISTANCE, NodeRange, PAGE_BYTES};

/// Where the kernel lists the nodes.
const NODES: &str = "/sys/devices/system/node";

/// Where pages are to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// All pages by one rule.
    Uniform(PageNodes),
    /// A range of pages for segments on each of these nodes, of equal size; the tables on all of
    /// them in turn.
    RangeEach(Vec<u32>),
}

impl Placement {
    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        match self {
            Self::Uniform(nodes) => nodes.nodes(),
            Self::RangeEach(nodes) => nodes,
        }
    }
}

/// A part of a pool's file, and where its pages are to lie.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    pub offset: u64,
    pub bytes: u64,
    pub nodes: PageNodes,
}

/// Cuts the data pages into a range for each node, at whole pages of `unit` bytes in the file;
/// `None` when there is not one for each.
pub fn cut(nodes: &[u32], front: u64, layout: &Layout, unit: u64) -> Option<Vec<NodeRange>> {
    let start = front + layout.data.offset();
    let bytes = layout.data.count * PAGE_BYTES;
    let count = nodes.len() as u64;
    if nodes.len() > NODE_RANGES {
        return None;
    }
    let page_of = |nth: u64| {
        let even = start + bytes / count * nth;
        let cut = match nth {
            0 => start,
            _ if nth == count => start + bytes,
            _ => (even + unit / 2) / unit * unit,
        };
        u32::try_from(cut.checked_sub(start)? / PAGE_BYTES).ok()
    };
    let range = |(nth, node): (u64, &u32)| {
        let (first, end) = (page_of(nth)?, page_of(nth + 1)?);
        let pages = end.checked_sub(first).filter(|pages| *pages > 0)?;
        let distances = distances_to(Path::new(NODES), *node);
        Some(NodeRange { first, pages, node: *node, spare: 0, distances })
    };
    (0..).zip(nodes).map(range).collect()
}

/// How far a node's memory is from each node, as the kernel says.
fn distances_to(nodes: &Path, node: u32) -> [u8; NODES_WITH_DISTANCE] {
    let mut distances = [0; NODES_WITH_DISTANCE];
    let Ok(entries) = std::fs::read_dir(nodes) else { return distances };
    let number = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.strip_prefix("node")?.parse::<u32>().ok()
    };
    let mut online: Vec<u32> = entries.flatten().filter_map(number).collect();
    online.sort_unstable();
    let Some(column) = online.iter().position(|other| *other == node) else { return distances };
    for from in online {
        let list = std::fs::read_to_string(nodes.join(format!("node{from}/distance")));
        let distance = list.ok().and_then(|list| list.split_whitespace().nth(column)?.parse().ok());
        if let (Some(slot), Some(distance)) = (distances.get_mut(from as usize), distance) {
            *slot = distance;
        }
    }
    distances
}

/// The parts of a file of `total` bytes that are to lie on nodes, with `ranges` from `data` on. The
/// cuts are at whole pages of `page` bytes.
pub fn parts(
    placement: &Placement,
    ranges: &[NodeRange],
    data: u64,
    total: u64,
    page: u64,
) -> Vec<Part> {
    let nodes = match placement {
        Placement::Uniform(nodes) => {
            return vec![Part { offset: 0, bytes: total, nodes: nodes.clone() }];
        }
        Placement::RangeEach(nodes) => PageNodes::Interleave(nodes.clone()),
    };
    let mut parts = vec![Part { offset: 0, bytes: data / page * page, nodes }];
    for (nth, range) in ranges.iter().enumerate() {
        let offset = (data + u64::from(range.first) * PAGE_BYTES) / page * page;
        let is_last = nth + 1 == ranges.len();
        let end = data + u64::from(range.end()) * PAGE_BYTES;
        let bytes = if is_last { total } else { end } - offset;
        parts.push(Part { offset, bytes, nodes: PageNodes::Bind(range.node) });
    }
    parts.retain(|part| part.bytes > 0);
    parts
}

/// Why a file could not be placed or backed.
#[derive(Debug, PartialEq, Eq)]
pub enum BackError {
    /// There are no such nodes, or they have no memory.
    Nodes(Errno),
    /// There is no room for so many bytes on the node; `None`: nowhere.
    Room(Option<u32>, u64, Errno),
}

fn allocate(file: &File, offset: u64, bytes: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, offset, bytes) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Backs the first `bytes` of a file whose parts are to lie on nodes.
pub fn back(file: &File, parts: &[Part], bytes: u64, huge: bool) -> Result<(), BackError> {
    if !huge {
        for part in parts {
            // Before the first page is there: one that is there stays where it is.
            place_pages(file.as_fd(), part.offset, part.bytes as usize, &part.nodes)
                .map_err(BackError::Nodes)?;
        }
    }
    if !huge || parts.is_empty() {
        return allocate(file, 0, bytes).map_err(|errno| BackError::Room(None, bytes, errno));
    }
    for part in parts {
        // hugetlbfs stores no policy with a file: a thread with that policy allocates the pages.
        on_nodes(&part.nodes, || allocate(file, part.offset, part.bytes))
            .map_err(BackError::Nodes)?
            .map_err(|errno| {
                // Parts of the same node share its pages.
                let on_same = parts.iter().filter(|other| other.nodes == part.nodes);
                let needed = on_same.map(|other| other.bytes).sum();
                match part.nodes {
                    PageNodes::Bind(node) => BackError::Room(Some(node), needed, errno),
                    PageNodes::Interleave(_) => BackError::Room(None, bytes, errno),
                }
            })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use vshmem_wire::Geometry;

    use super::*;

    const M: u64 = 1 << 20;

    #[test]
    fn each_node_gets_a_range_cut_at_whole_pages() {
        let geometry = Geometry::for_size(64 * M).unwrap();
        let layout = geometry.layout().unwrap();
        for (nodes, front, unit) in
            [(&[4, 1][..], 0, 2 * M), (&[0, 1, 2], 2 * M, 2 * M), (&[0, 1], 0, 4096)]
        {
            let ranges = cut(nodes, front, &layout, unit).unwrap();
            let mut next = 0;
            for (range, node) in ranges.iter().zip(nodes) {
                assert_eq!((range.first, range.node), (next, *node));
                let at = front + layout.data.offset() + u64::from(range.first) * PAGE_BYTES;
                assert!(range.first == 0 || at.is_multiple_of(unit));
                next = range.end();
            }
            assert_eq!(u64::from(next), geometry.pages);
            let sizes = ranges.iter().map(|range| range.pages);
            let spread = sizes.clone().max().unwrap() - sizes.min().unwrap();
            assert!(u64::from(spread) * PAGE_BYTES <= 2 * unit, "{ranges:?}");
        }
        assert_eq!(cut(&[0, 1], 0, &layout, 64 * M), None, "one piece for two");
        assert_eq!(cut(&[0; 17], 0, &layout, 4096), None);
    }

    #[test]
    fn the_parts_of_a_file_are_the_tables_and_a_range_for_each_node() {
        let layout = Geometry::for_size(64 * M).unwrap().layout().unwrap();
        let data = layout.data.offset();
        for page in [4096, 2 * M, 32 * M] {
            let ranges = cut(&[1, 0], 0, &layout, page.max(2 * M)).unwrap();
            let parts = parts(&Placement::RangeEach(vec![1, 0]), &ranges, data, 64 * M, page);
            let mut next = 0;
            for part in &parts {
                assert_eq!(part.offset, next);
                assert!(part.offset.is_multiple_of(page) && part.bytes.is_multiple_of(page));
                next += part.bytes;
            }
            assert_eq!(next, 64 * M);
            let (last, first) = (parts.len() - 1, parts.len() - 2);
            assert_eq!(parts[first].nodes, PageNodes::Bind(1));
            assert_eq!(parts[last].nodes, PageNodes::Bind(0));
            assert_eq!(parts.len() == 2, page > data, "tables of their own");
        }
    }

    #[test]
    fn distances_are_read_as_the_kernel_lists_them() {
        let root = tempfile::tempdir().unwrap();
        for (node, list) in [(0, "10 21 31"), (2, "21 10 16"), (11, "31 17 10")] {
            let folder = root.path().join(format!("node{node}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("distance"), list).unwrap();
        }
        let distances = distances_to(root.path(), 2);
        assert_eq!((distances[0], distances[2], distances[11], distances[1]), (21, 10, 17, 0));
        assert_eq!(distances_to(root.path(), 1), [0; NODES_WITH_DISTANCE]);
    }
}
