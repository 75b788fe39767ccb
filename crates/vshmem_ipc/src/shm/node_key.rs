//! Keys that ask for a node of the host.

/// The upper half of such a key. The node is in the byte below, the rest is the program's.
const NODE_KEYS: u32 = 0x4e4f;

/// The node that a key asks for. It matters where a pool spans nodes, and nowhere else.
pub(super) fn node_of_key(key: i32) -> Option<u32> {
    let key = key as u32;
    (key >> 16 == NODE_KEYS).then_some(key >> 8 & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_range_asks_for_a_node() {
        assert_eq!(node_of_key(0x4e4f_0107), Some(1));
        assert_eq!(node_of_key(0x4e4f_ff00), Some(255));
        for other in [0, 0x4e4e_0107, 0x5e4f_0107, -1] {
            assert_eq!(node_of_key(other), None);
        }
    }
}
