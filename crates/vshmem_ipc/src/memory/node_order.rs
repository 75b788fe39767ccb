//! In which order the nodes of a pool are searched for the pages of a new segment.

use std::ops::Range;

use vshmem_wire::{NODE_RANGES, NodeRange};

/// Ranges of pages, the nearest to a node first.
#[derive(Debug)]
pub(crate) struct NodeOrder<'a> {
    ranges: &'a [NodeRange],
    order: [usize; NODE_RANGES],
}

impl<'a> NodeOrder<'a> {
    /// That of a pool's ranges for a node; empty where nothing is known of it.
    pub(crate) fn of(ranges: &'a [NodeRange], node: Option<u32>) -> Self {
        let mut order = std::array::from_fn(|nth| nth);
        let Some(node) = node.filter(|_| ranges.len() <= NODE_RANGES) else {
            return Self { ranges: &[], order };
        };
        order[..ranges.len()].sort_unstable_by_key(|&nth| (ranges[nth].distance_from(node), nth));
        Self { ranges, order }
    }

    /// The ranges' pages, in that order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let order = &self.order[..self.ranges.len()];
        order.iter().map(|&nth| self.ranges[nth].first..self.ranges[nth].end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, node: u32, distances: [u8; 4]) -> NodeRange {
        let mut range = NodeRange { first, pages: 10, node, ..NodeRange::NONE };
        range.distances[..4].copy_from_slice(&distances);
        range
    }

    fn order(ranges: &[NodeRange], node: Option<u32>) -> Vec<u32> {
        NodeOrder::of(ranges, node).pages().map(|pages| pages.start).collect()
    }

    #[test]
    fn the_callers_own_node_comes_first_then_the_nearest() {
        // Node 3 has no range, and node 9 is not known.
        let ranges = [
            range(0, 0, [10, 21, 31, 31]),
            range(10, 1, [21, 10, 31, 21]),
            range(20, 2, [31, 16, 10, 12]),
        ];
        assert_eq!(order(&ranges, Some(0)), [0, 10, 20]);
        assert_eq!(order(&ranges, Some(1)), [10, 20, 0]);
        assert_eq!(order(&ranges, Some(3)), [20, 10, 0]);
        assert_eq!(order(&ranges, Some(9)), [0, 10, 20]);
        assert!(order(&ranges, None).is_empty());
        assert!(order(&[], Some(0)).is_empty());
    }
}
