//! On which memory node of the host which data pages lie.

/// Ranges of a pool at most.
pub const NODE_RANGES: usize = 16;
/// Nodes whose distance to a range is written down; from others it is unknown.
pub const NODES_WITH_DISTANCE: usize = 64;
/// Nodes have numbers below this (the kernel's MAX_NUMNODES).
pub const MAX_NODES: u32 = 1024;

/// Data pages that lie on one node of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct NodeRange {
    /// First page.
    pub first: u32,
    /// Pages; 0: no range, and none after it.
    pub pages: u32,
    /// The host's number of the node.
    pub node: u32,
    /// Room for later.
    pub spare: u32,
    /// How far the node's memory is from each node of the host, as its firmware says (10 is
    /// local); 0: not known.
    pub distances: [u8; NODES_WITH_DISTANCE],
}

impl NodeRange {
    /// No range.
    pub const NONE: Self =
        Self { first: 0, pages: 0, node: 0, spare: 0, distances: [0; NODES_WITH_DISTANCE] };

    /// The page behind it.
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.first.saturating_add(self.pages)
    }

    /// How far it is from a node; what is not known is the farthest.
    #[must_use]
    pub fn distance_from(&self, node: u32) -> u8 {
        let known = self.distances.get(node as usize).copied().filter(|distance| *distance > 0);
        match known {
            _ if node == self.node => 0,
            Some(distance) => distance,
            None => u8::MAX,
        }
    }

    /// As it lies in a superblock.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let numbers = [self.first, self.pages, self.node, self.spare];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&number.to_ne_bytes());
        }
        bytes[16..].copy_from_slice(&self.distances);
        bytes
    }

    /// From a superblock.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        let number = |at: usize| {
            let mut value = [0; 4];
            value.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(value)
        };
        let mut distances = [0; NODES_WITH_DISTANCE];
        distances.copy_from_slice(&bytes[16..]);
        Self { first: number(0), pages: number(4), node: number(8), spare: number(12), distances }
    }
}

/// Whether ranges are what they may be: none, or end to end over all pages, and behind them none.
#[must_use]
pub fn are_node_ranges(ranges: &[NodeRange; NODE_RANGES], pages: u64) -> bool {
    let used = ranges.iter().position(|range| range.pages == 0).unwrap_or(NODE_RANGES);
    let (used, rest) = ranges.split_at(used);
    let mut next = 0_u64;
    for range in used {
        if u64::from(range.first) != next || range.node >= MAX_NODES {
            return false;
        }
        next += u64::from(range.pages);
    }
    (used.is_empty() || next == pages) && rest.iter().all(|range| *range == NodeRange::NONE)
}

const _: () = assert!(
    size_of::<NodeRange>() == 16 + NODES_WITH_DISTANCE,
    "a range has no gaps, and its bytes are read one by one"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(of: &[(u32, u32, u32)]) -> [NodeRange; NODE_RANGES] {
        let mut ranges = [NodeRange::NONE; NODE_RANGES];
        for (range, (first, pages, node)) in ranges.iter_mut().zip(of) {
            *range = NodeRange { first: *first, pages: *pages, node: *node, ..NodeRange::NONE };
        }
        ranges
    }

    #[test]
    fn ranges_lie_end_to_end_over_all_pages_or_there_are_none() {
        assert!(are_node_ranges(&ranges(&[]), 100));
        assert!(are_node_ranges(&ranges(&[(0, 100, 0)]), 100));
        assert!(are_node_ranges(&ranges(&[(0, 60, 1), (60, 40, 0)]), 100));
        for wrong in [
            &[(0, 99, 0)][..],
            &[(0, 101, 0)],
            &[(1, 99, 0)],
            &[(0, 60, 0), (61, 39, 1)],
            &[(0, 60, 0), (59, 41, 1)],
            &[(0, 60, 0), (60, u32::MAX, 1), (59, 41, 1)],
            &[(0, 100, MAX_NODES)],
            &[(0, 100, 0), (0, 0, 0), (100, 1, 0)],
            &[(0, 100, 0), (100, 0, 0)],
        ] {
            assert!(!are_node_ranges(&ranges(wrong), 100), "{wrong:?}");
        }
    }

    #[test]
    fn a_range_is_the_same_after_it_was_bytes() {
        let mut range = NodeRange { first: 1, pages: 2, node: 3, spare: 0, ..NodeRange::NONE };
        range.distances[5] = 21;
        assert_eq!(NodeRange::from_bytes(&range.to_bytes()), range);
    }

    #[test]
    fn its_own_node_is_nearest_and_an_unknown_one_farthest() {
        let mut range = NodeRange { node: 70, ..NodeRange::NONE };
        range.distances[1] = 21;
        assert_eq!([70, 1, 2, 80].map(|node| range.distance_from(node)), [0, 21, 255, 255]);
    }
}
