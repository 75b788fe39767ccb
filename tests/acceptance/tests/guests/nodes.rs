//! A pool with a range of pages on each of the host's nodes, and a guest that was told where it
//! lies. The ranges are written by the test: the host may have one node.

use std::fs;
use std::mem::offset_of;
use std::path::Path;

use vshmem_acceptance::Guests;
use vshmem_acceptance::suite::Test;
use vshmem_wire::{Geometry, NodeRange, Superblock};

pub const TESTS: &[Test] = &[("a_guest_makes_segments_on_the_node_that_it_was_told_of", told_node)];

/// Makes a segment with this key and text.
const MAKE: &str = "import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(int(sys.argv[1]), 65536, 0o1600)
assert segment >= 0, ctypes.get_errno()
text = sys.argv[2].encode()
ctypes.memmove(libc.shmat(segment, None, 0), text, len(text))
";

/// Gives nodes 0 and 1 half of a pool's pages each, before anybody has opened it; the offset at
/// which node 1's begin.
fn give_ranges(path: &Path) -> usize {
    let mut pool = fs::read(path).unwrap();
    let at = offset_of!(Superblock, geometry);
    let bytes = pool[at..at + size_of::<Geometry>()].try_into().unwrap();
    let geometry = Geometry::from_bytes(&bytes);
    let pages = u32::try_from(geometry.pages).unwrap();
    let half = pages / 2;
    let ranges = [(0, half, 0), (half, pages - half, 1)];
    for (nth, (first, pages, node)) in ranges.into_iter().enumerate() {
        let range = NodeRange { first, pages, node, ..NodeRange::NONE };
        let at = offset_of!(Superblock, node_ranges) + nth * size_of::<NodeRange>();
        pool[at..at + size_of::<NodeRange>()].copy_from_slice(&range.to_bytes());
    }
    let end = offset_of!(Superblock, checksum);
    let checksum = pool[..end].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    pool[end..end + 8].copy_from_slice(&checksum.to_ne_bytes());
    fs::write(path, &pool).unwrap();
    let data = usize::try_from(geometry.layout().unwrap().data.offset()).unwrap();
    data + half as usize * 4096
}

fn told_node() {
    let pool = crate::machine().pool("32M");
    let path = pool.path();
    let border = give_ranges(&path);
    let guests = Guests::boot(crate::machine(), "nodes", 1, pool, &[]);
    let mut key = 0x5e50;
    // On which node a segment lies that is made after these commands.
    let mut node_after = |commands: &str, words: &str| {
        key += 1;
        let text = format!("segment-{key:x}-of-this-test");
        let line = format!("{commands}\n{words} vshmem run -- python3 -c '{MAKE}' {key} {text}");
        guests.shell(1, &line).ok();
        let pool = fs::read(&path).unwrap();
        let found = pool.windows(text.len()).position(|bytes| bytes == text.as_bytes());
        u32::from(found.expect("the segment's text is in the pool") >= border)
    };
    let note = "/run/vshmem/node";
    assert_eq!(node_after("", ""), 0, "anywhere");
    assert_eq!(node_after(&format!("echo 1 >{note}"), ""), 1, "told by the host");
    assert_eq!(node_after("", "VSHMEM_NODE=0"), 0, "the variable is for this program");
    assert_eq!(node_after(&format!("chown 1000 {note}"), ""), 0, "not root's word");
    assert_eq!(node_after(&format!("chown 0 {note}; chmod 666 {note}"), ""), 0, "anyone's");
    assert_eq!(node_after(&format!("echo node1 >{note}; chmod 644 {note}"), ""), 0, "no number");
    assert_eq!(node_after(&format!("echo 9 >{note}"), ""), 0, "a node that the pool is not on");
    assert_eq!(node_after(&format!("echo 1 >{note}"), ""), 1, "told again");
    let said = guests.shell(1, "vshmem doctor | grep 'memory node'").ok();
    assert!(said.contains("1 (/run/vshmem/node)"), "{said}");
    guests.pool().assert_clean();
}
