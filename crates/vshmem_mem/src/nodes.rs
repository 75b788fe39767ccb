//! On which nodes the pages of a file lie.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::mapping::Mapping;
use crate::system_call::system_call;

/// mbind(2)'s modes.
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
}

/// Says where the pages of a file of memory (tmpfs, hugetlbfs) are to lie that it does not have
/// yet. The kernel keeps it with the file: it holds for every process and guest that maps it
/// (mbind(2), "shared memory").
///
/// # Errors
/// What mmap(2) and mbind(2) say; `EINVAL`: there is no such node, or it has no memory.
pub fn place_pages(file: BorrowedFd<'_>, bytes: usize, nodes: &PageNodes) -> Result<(), Errno> {
    let hint = std::ptr::null_mut();
    // Nothing is touched by it: a page that is there already stays where it is.
    // SAFETY: the kernel chooses a free range.
    let start =
        unsafe { rustix::mm::mmap(hint, bytes, ProtFlags::empty(), MapFlags::SHARED, file, 0) }?;
    let mapping = Mapping::adopt(start.cast(), bytes)?;
    let mut mask = [0_u64; 16];
    for node in nodes.nodes() {
        let word = mask.get_mut(*node as usize / 64).ok_or(Errno::INVAL)?;
        *word |= 1 << (node % 64);
    }
    let mode = match nodes {
        PageNodes::Bind(_) => MPOL_BIND,
        PageNodes::Interleave(_) => MPOL_INTERLEAVE,
    };
    let words = [
        mapping.start().as_ptr() as usize,
        mapping.bytes(),
        mode,
        mask.as_ptr() as usize,
        // The kernel takes one bit less than the call says.
        mask.len() * 64 + 1,
        0,
    ];
    // SAFETY: the range is this function's own mapping, and the mask outlives the call.
    match unsafe { system_call(libc::SYS_mbind, words) } {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(i32::try_from(-error).unwrap_or(libc::EINVAL))),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::mapping::{Protection, map_file};

    const BYTES: usize = 1 << 20;

    fn file() -> std::fs::File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file: std::fs::File = rustix::fs::memfd_create("nodes", flags).unwrap().into();
        file.set_len(BYTES as u64).unwrap();
        file
    }

    /// What the kernel says of the mapping's policy.
    fn policy(mapping: &Mapping) -> String {
        let start = format!("{:x} ", mapping.start().as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
        line.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    /// How many pages of a mapping lie on which node: (node, pages). Pages that are not there, and
    /// those that this process has not touched, count nowhere.
    fn pages_by_node(mapping: &Mapping, page_bytes: usize) -> Result<Vec<(u32, u64)>, Errno> {
        const AT_ONCE: usize = 4096;
        let mut counts: Vec<(u32, u64)> = Vec::new();
        let starts: Vec<usize> = (0..mapping.bytes())
            .step_by(page_bytes)
            .map(|offset| mapping.start().as_ptr() as usize + offset)
            .collect();
        for pages in starts.chunks(AT_ONCE) {
            let mut status = [-1_i32; AT_ONCE];
            let words =
                [0, pages.len(), pages.as_ptr() as usize, 0, status.as_mut_ptr() as usize, 0];
            // SAFETY: both arrays have room for so many pages and outlive the call; without nodes
            // it moves nothing.
            let result = unsafe { system_call(libc::SYS_move_pages, words) };
            if result < 0 {
                let number = i32::try_from(-result).unwrap_or(libc::EINVAL);
                return Err(Errno::from_raw_os_error(number));
            }
            for node in status[..pages.len()].iter().filter_map(|node| u32::try_from(*node).ok()) {
                match counts.iter_mut().find(|(other, _)| *other == node) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((node, 1)),
                }
            }
        }
        counts.sort_unstable();
        Ok(counts)
    }

    #[test]
    fn the_file_keeps_where_its_pages_lie_and_they_lie_there() {
        for (nodes, word) in
            [(PageNodes::Bind(0), "bind:0"), (PageNodes::Interleave(vec![0]), "interleave:0")]
        {
            let file = file();
            place_pages(file.as_fd(), BYTES, &nodes).unwrap();
            let mapping = map_file(file.as_fd(), 0, BYTES, Protection::READ_WRITE).unwrap();
            let map = crate::Map::of(mapping);
            map.zero(0, BYTES).unwrap();
            let again = map_file(file.as_fd(), 0, BYTES, Protection::READ_WRITE).unwrap();
            // Another mapping: the policy is the file's.
            assert_eq!(policy(&again), word);
            let page = 4096;
            let pages = pages_by_node(&again, page).unwrap();
            assert_eq!(pages, [(0, (BYTES / page) as u64)]);
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let file = file();
        for node in [999, 5000] {
            let refused = place_pages(file.as_fd(), BYTES, &PageNodes::Bind(node));
            assert_eq!(refused, Err(Errno::INVAL));
        }
    }
}
