//! On which nodes the pages of a file lie, and this thread.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::confined::unless_confined;
use crate::mapping::Mapping;
use crate::system_call::system_call;

/// The kernel's modes of a memory policy.
const MPOL_BIND: usize = 2;
const MPOL_INTERLEAVE: usize = 3;

/// Where pages are to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageNodes {
    /// All on one node; where that has no memory left, there are no pages.
    Bind(u32),
    /// On each of these in turn.
    Interleave(Vec<u32>),
}

impl PageNodes {
    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        match self {
            Self::Bind(node) => std::slice::from_ref(node),
            Self::Interleave(nodes) => nodes,
        }
    }

    fn mode(&self) -> usize {
        match self {
            Self::Bind(_) => MPOL_BIND,
            Self::Interleave(_) => MPOL_INTERLEAVE,
        }
    }

    fn mask(&self) -> Result<[u64; MASK_WORDS], Errno> {
        let mut mask = [0; MASK_WORDS];
        for node in self.nodes() {
            let word = mask.get_mut(*node as usize / 64).ok_or(Errno::INVAL)?;
            *word |= 1 << (node % 64);
        }
        Ok(mask)
    }
}

const MASK_WORDS: usize = 16;
/// The kernel takes one bit less than the call says.
const MASK_BITS: usize = MASK_WORDS * 64 + 1;

fn result_of(result: isize) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    Err(Errno::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EINVAL)))
}

/// Says where the pages of a range of a file on tmpfs are to lie that it does not have yet. The
/// kernel keeps it with the file: it holds for every process and guest that maps it (mbind(2),
/// "shared memory"). hugetlbfs keeps nothing: see [`on_nodes`].
///
/// # Errors
/// What mmap(2) and mbind(2) say; `EINVAL`: there is no such node, or it has no memory.
pub fn place_pages(
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    nodes: &PageNodes,
) -> Result<(), Errno> {
    let mask = nodes.mask()?;
    let hint = std::ptr::null_mut();
    // Nothing is touched by it: a page that is there already stays where it is.
    // SAFETY: the kernel chooses a free range.
    let start = unsafe {
        rustix::mm::mmap(hint, bytes, ProtFlags::empty(), MapFlags::SHARED, file, offset)
    }?;
    let mapping = Mapping::adopt(start.cast(), bytes)?;
    let start = mapping.start().as_ptr() as usize;
    let words = [start, mapping.bytes(), nodes.mode(), mask.as_ptr() as usize, MASK_BITS, 0];
    // SAFETY: the range is this function's own mapping, and the mask outlives the call.
    result_of(unsafe { system_call(libc::SYS_mbind, words) })
}

/// Does some work on a thread whose new pages lie on nodes (set_mempolicy(2)).
///
/// # Errors
/// What set_mempolicy(2) says; `EINVAL`: there is no such node, or it has no memory. Then nothing
/// was done.
pub fn on_nodes<T: Send>(nodes: &PageNodes, work: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    let mask = nodes.mask()?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            let words = [nodes.mode(), mask.as_ptr() as usize, MASK_BITS];
            // SAFETY: the mask outlives the call; the policy is this thread's, which ends here.
            result_of(unsafe { system_call(libc::SYS_set_mempolicy, words) })?;
            Ok(work())
        });
        let thread = thread.map_err(|_| Errno::AGAIN)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The node that the calling thread runs on, by this kernel's numbers.
#[must_use]
pub fn current_node() -> Option<u32> {
    let mut node = 0_u32;
    let words = [0, &raw mut node as usize, 0];
    // SAFETY: the kernel writes one number, into a variable that outlives the call.
    let result = unless_confined(|| unsafe { system_call(libc::SYS_getcpu, words) })?;
    (result == 0).then_some(node)
}

/// How many pages of a mapping lie on which node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PagesByNode {
    /// (node, pages), in order of the nodes.
    pub nodes: Vec<(u32, u64)>,
    /// Pages that were looked at; those of them that are on no node are not there yet.
    pub looked_at: u64,
}

impl PagesByNode {
    fn add(&mut self, node: u32) {
        match self.nodes.iter_mut().find(|(other, _)| *other == node) {
            Some((_, count)) => *count += 1,
            None => self.nodes.push((node, 1)),
        }
    }
}

/// Whether a page of a mapping is there: one that is not is not faulted in.
fn is_resident(page: usize) -> bool {
    let mut resident = 0_u8;
    let words = [page, 1, &raw mut resident as usize];
    // SAFETY: the kernel writes one byte for the one page, into a variable that outlives the call.
    let result = unsafe { system_call(libc::SYS_mincore, words) };
    result == 0 && resident & 1 == 1
}

/// Looks where pages of a mapping lie: all of them, or `most` at equal distances. Where the file is
/// not `backed` in full, pages that it does not have are left out. Pages are `page_bytes` long.
///
/// # Errors
/// What madvise(2) says (`EINVAL`: the kernel is older than 5.14) and move_pages(2).
pub fn pages_by_node(
    mapping: &Mapping,
    page_bytes: usize,
    most: usize,
    backed: bool,
) -> Result<PagesByNode, Errno> {
    const AT_ONCE: usize = 1024;
    const SMALL_PAGE: usize = 4096;
    let pages = mapping.bytes().div_ceil(page_bytes);
    let step = pages.div_ceil(most.max(1)).max(1) * page_bytes;
    let start = mapping.start().as_ptr() as usize;
    let looked_at: Vec<usize> =
        (0..mapping.bytes()).step_by(step).map(|offset| start + offset).collect();
    let mut found = PagesByNode { looked_at: looked_at.len() as u64, ..PagesByNode::default() };
    for &page in looked_at.iter().filter(|page| backed || is_resident(**page)) {
        // The call below knows pages that this process has in its page tables. Unlike a load, this
        // gives an error where another user has shortened the file.
        let words = [page, SMALL_PAGE, libc::MADV_POPULATE_READ as usize];
        // SAFETY: it reads pages of a mapping that is borrowed for as long.
        result_of(unsafe { system_call(libc::SYS_madvise, words) })?;
    }
    for pages in looked_at.chunks(AT_ONCE) {
        let mut status = [-1_i32; AT_ONCE];
        let words = [0, pages.len(), pages.as_ptr() as usize, 0, status.as_mut_ptr() as usize, 0];
        // SAFETY: both arrays have room for so many pages and outlive the call; without nodes it
        // moves nothing.
        result_of(unsafe { system_call(libc::SYS_move_pages, words) })?;
        for node in status[..pages.len()].iter().filter_map(|node| u32::try_from(*node).ok()) {
            found.add(node);
        }
    }
    found.nodes.sort_unstable();
    Ok(found)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::mapping::{Protection, map_file};

    const BYTES: usize = 8 << 20;
    const PAGE: usize = 4096;

    fn file() -> std::fs::File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file: std::fs::File = rustix::fs::memfd_create("nodes", flags).unwrap().into();
        file.set_len(BYTES as u64).unwrap();
        file
    }

    fn map(file: &std::fs::File) -> Mapping {
        map_file(file.as_fd(), 0, BYTES, Protection::READ_WRITE).unwrap()
    }

    /// What the kernel says of the mapping's policy.
    fn policy(mapping: &Mapping) -> String {
        let start = format!("{:x} ", mapping.start().as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
        line.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn the_file_keeps_where_its_pages_lie_and_they_lie_there() {
        for (nodes, word) in
            [(PageNodes::Bind(0), "bind:0"), (PageNodes::Interleave(vec![0]), "interleave:0")]
        {
            let file = file();
            place_pages(file.as_fd(), 0, BYTES, &nodes).unwrap();
            crate::Map::of(map(&file)).zero(0, BYTES).unwrap();
            let again = map(&file);
            // Another mapping: the policy is the file's.
            assert_eq!(policy(&again), word);
            let found = pages_by_node(&again, PAGE, usize::MAX, false).unwrap();
            let pages = (BYTES / PAGE) as u64;
            assert_eq!(found, PagesByNode { nodes: vec![(0, pages)], looked_at: pages });
        }
    }

    #[test]
    fn pages_that_a_file_does_not_have_are_left_out_and_not_made() {
        let file = file();
        crate::Map::of(map(&file)).zero(0, 3 * PAGE).unwrap();
        let found = pages_by_node(&map(&file), PAGE, usize::MAX, false).unwrap();
        assert_eq!(found.nodes, [(0, 3)]);
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_blocks * 512, 3 * PAGE as i64);
        let some = pages_by_node(&map(&file), PAGE, 64, false).unwrap();
        assert_eq!(some, PagesByNode { nodes: vec![(0, 1)], looked_at: 64 });
    }

    #[test]
    fn a_file_that_was_shortened_is_an_error_and_no_signal() {
        let file = file();
        let mapping = map(&file);
        file.set_len(0).unwrap();
        assert!(pages_by_node(&mapping, PAGE, usize::MAX, true).is_err());
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let file = file();
        for node in [999, 5000] {
            let nodes = PageNodes::Bind(node);
            assert_eq!(place_pages(file.as_fd(), 0, BYTES, &nodes), Err(Errno::INVAL));
            assert_eq!(on_nodes(&nodes, || ()), Err(Errno::INVAL));
        }
    }

    #[test]
    fn work_on_a_node_leaves_this_threads_policy_alone() {
        let made = on_nodes(&PageNodes::Bind(0), || {
            let maps = map(&file());
            policy(&maps)
        });
        assert_eq!(made.as_deref(), Ok("bind:0"));
        assert_eq!(policy(&map(&file())), "default");
        assert!(current_node().is_some());
    }
}
