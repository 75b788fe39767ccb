//! On which memory node of the host a thread runs.

use std::sync::OnceLock;

use vshmem_link::Link;
use vshmem_mem::current_node;

/// What `VSHMEM_NODE` says: the host's nodes that this machine's nodes lie on, in order. One alone
/// stands for the whole machine.
fn declared() -> &'static [u32] {
    static NODES: OnceLock<Vec<u32>> = OnceLock::new();
    NODES.get_or_init(|| parse(&std::env::var("VSHMEM_NODE").unwrap_or_default()))
}

/// Nothing, when it is no list of numbers.
fn parse(list: &str) -> Vec<u32> {
    list.split(',').map(|node| node.trim().parse().ok()).collect::<Option<_>>().unwrap_or_default()
}

fn node_among(declared: &[u32], own: impl FnOnce() -> Option<u32>) -> Option<u32> {
    match declared {
        [] => None,
        [node] => Some(*node),
        nodes => nodes.get(own()? as usize).copied(),
    }
}

/// The host's node on which the calling thread runs, if it is known. Where the pool is a file of
/// this kernel's, this is the host.
pub fn home_node(link: &dyn Link) -> Option<u32> {
    if let Some(node) = node_among(declared(), current_node) {
        return Some(node);
    }
    link.file().and_then(|_| current_node())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_stands_for_the_machine_and_several_for_its_nodes_in_order() {
        assert_eq!(node_among(&parse("3"), || Some(1)), Some(3));
        assert_eq!(node_among(&parse("2, 0"), || Some(1)), Some(0));
        assert_eq!(node_among(&parse("2,0"), || Some(2)), None);
        assert_eq!(node_among(&parse("2,0"), || None), None);
        for nothing in ["", "node0", "0,x", "-1"] {
            assert_eq!(node_among(&parse(nothing), || Some(0)), None, "{nothing}");
        }
    }
}
