//! On which nodes the pages of a pool lie, where its file is this machine's.

use vshmem_ipc::Pool;
use vshmem_link::Link;
use vshmem_mem::{PagesByNode, Protection, pages_by_node};

/// Bytes on nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesByNode {
    /// (node, bytes), in order of the nodes.
    pub nodes: Vec<(u32, u64)>,
    /// Only one page in so many was looked at, and the bytes are reckoned from those.
    pub one_in: u64,
}

impl BytesByNode {
    fn of(found: &PagesByNode, bytes: u64, page: u64) -> Self {
        let pages = bytes.div_ceil(page);
        let reckon = |count: u64| {
            let share = u128::from(bytes) * u128::from(count);
            (share / u128::from(found.looked_at.max(1))) as u64
        };
        Self {
            nodes: found.nodes.iter().map(|(node, count)| (*node, reckon(*count))).collect(),
            one_in: pages.div_ceil(found.looked_at.max(1)).max(1),
        }
    }
}

/// On which nodes a part of a pool lies, by at most `most` of its pages. `None` where that cannot
/// be known: the pool is a device, or the kernel does not tell.
#[must_use]
pub fn nodes_of(
    link: &dyn Link,
    pool: &Pool,
    offset: u64,
    bytes: u64,
    most: usize,
) -> Option<BytesByNode> {
    link.file()?;
    let page = link.capabilities().page_bytes;
    let mapping = link.map(offset, usize::try_from(bytes).ok()?, Protection::default()).ok()?;
    let backed = pool.superblock().backed == 1;
    let found = pages_by_node(&mapping, page as usize, most, backed).ok()?;
    Some(BytesByNode::of(&found, bytes, page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_reckoned_from_the_pages_that_were_looked_at() {
        let all = PagesByNode { nodes: vec![(0, 3), (1, 1)], looked_at: 5 };
        let of_all = BytesByNode { nodes: vec![(0, 12288), (1, 4096)], one_in: 1 };
        assert_eq!(BytesByNode::of(&all, 5 * 4096, 4096), of_all);
        let some = BytesByNode { nodes: vec![(0, 122_880), (1, 40960)], one_in: 10 };
        assert_eq!(BytesByNode::of(&all, 50 * 4096, 4096), some);
    }
}
