//! After a call that has failed: whether it had unmapped something by then.
//!
//! mremap(2) and mmap(2) with a place of the program's choice may unmap what lies there, and fail
//! afterwards; since Linux 6.17 an mremap(2) of several mappings may have moved some of them. The
//! kernel alone knows. It tells in /proc/self/maps; where that cannot be read, or must not be
//! because the program has confined itself, each page is asked for: the kernel does not map over
//! another mapping unless the call asks for it. The caller holds the attach table
//! ([`crate::mapping::change::change`]), so that no thread attaches there meanwhile.

use rustix::fs::{Mode, OFlags};
use vshmem_ipc::Client;
use vshmem_mem::unless_confined;

use crate::attached::addresses::{PAGE, drop_range, no_access};
use crate::attached::attach_table::Piece;
use crate::attached::pieces;
use crate::errno;
use crate::session::cancel::uncancelled;

/// A line of /proc/self/maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    /// Shared, and of a file: what shows a segment is.
    is_shared_file: bool,
    /// Without any access, and of no file: what lies behind a segment's end is.
    is_reserved: bool,
}

impl Mapping {
    /// `START-END RIGHTS OFFSET DEVICE INODE ...`
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let of_file = words.nth(2)? != "0";
        Some(Self {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            is_shared_file: of_file && rights.ends_with('s'),
            is_reserved: !of_file && rights == "---p",
        })
    }
}

/// Calls `each` with every mapping of this process, in the order of addresses. `None`: they could
/// not be read.
fn each_mapping(each: impl FnMut(Mapping)) -> Option<()> {
    // Closing the file would be a cancellation point; mmap(2) and mremap(2) are none.
    uncancelled(|| each_line(each))
}

fn each_line(mut each: impl FnMut(Mapping)) -> Option<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/self/maps", flags, Mode::empty()).ok()?;
    // What is wanted stands in front of a line's path.
    let (mut line, mut length) = ([0; 96], 0);
    let mut part = [0; 1024];
    loop {
        let bytes = rustix::io::read(&file, &mut part).ok()?;
        if bytes == 0 {
            return Some(());
        }
        for &byte in &part[..bytes] {
            if byte == b'\n' {
                each(Mapping::parse(&line[..length])?);
                length = 0;
            } else if length < line.len() {
                line[length] = byte;
                length += 1;
            }
        }
    }
}

/// The first part of a range in which no mapping is as `wanted`; `Some(None)`: there is no such
/// part. `None`: the mappings cannot be read.
fn first_gap_by_maps(
    start: usize,
    end: usize,
    wanted: impl Fn(Mapping) -> bool,
) -> Option<Option<(usize, usize)>> {
    let (mut at, mut until) = (start, end);
    let look = |mapping: Mapping| {
        if mapping.end <= at || mapping.start >= until || !wanted(mapping) {
            return;
        }
        if mapping.start <= at {
            at = mapping.end;
        } else {
            until = mapping.start;
        }
    };
    unless_confined(|| each_mapping(look)).flatten()?;
    Some((at < until).then_some((at, until)))
}

/// Whether nothing is mapped in a range of whole pages.
fn is_free(start: usize, bytes: usize) -> bool {
    match probe(start, bytes) {
        Probe::Free => true,
        Probe::Mapped => false,
        // Refused for another reason: because of a limit of the process's. Where the kernel gets as
        // far as to see that a page of this library is mapped, it has looked here as well, and has
        // found nothing. Otherwise it is not known, and what is attached stays so.
        Probe::Refused => {
            let own = (first_gap_by_asking as fn(usize, usize) -> _ as usize) & !(PAGE - 1);
            probe(own, PAGE) == Probe::Mapped
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    Free,
    Mapped,
    Refused,
}

/// Asks the kernel for a range, which it refuses with EEXIST where anything is mapped in it.
fn probe(start: usize, bytes: usize) -> Probe {
    match no_access(start, bytes, libc::MAP_FIXED_NOREPLACE) {
        Ok(got) => {
            drop_range(got, bytes);
            // Linux before 4.17 takes the address for a hint.
            if got == start { Probe::Free } else { Probe::Mapped }
        }
        Err(_) if errno::get() == libc::EEXIST => Probe::Mapped,
        Err(_) => Probe::Refused,
    }
}

/// The first part of a range in which nothing is mapped.
fn first_gap_by_asking(start: usize, end: usize) -> Option<(usize, usize)> {
    if start < end && is_free(start, end - start) {
        return Some((start, end));
    }
    let mut pages = (start..end).step_by(PAGE);
    let first = pages.find(|&page| is_free(page, PAGE))?;
    Some((first, pages.find(|&page| !is_free(page, PAGE)).unwrap_or(end)))
}

/// Calls `each` with every part of a range at which no piece can lie any more.
fn each_gone(start: usize, bytes: usize, mut each: impl FnMut(usize, usize)) {
    let (mut at, end) = (start, start.saturating_add(bytes));
    let may_be_attached = |mapping: Mapping| mapping.is_shared_file || mapping.is_reserved;
    while let Some(gap) = first_gap_by_maps(at, end, may_be_attached) {
        let Some((from, to)) = gap else { return };
        each(from, to);
        at = to;
    }
    each_attached(at, end, |mut at, end| {
        while let Some((from, to)) = first_gap_by_asking(at, end) {
            each(from, to);
            at = to;
        }
    });
}

/// Calls `each` with every part of a range in which there is a piece.
fn each_attached(mut at: usize, end: usize, mut each: impl FnMut(usize, usize)) {
    while at < end {
        let mut lowest: Option<Piece> = None;
        pieces::each(|piece| {
            if piece.touches(at, end) && lowest.is_none_or(|lowest| piece.start < lowest.start) {
                lowest = Some(piece);
            }
        });
        let Some(piece) = lowest else { return };
        let to = piece.end().min(end);
        each(piece.start.max(at), to);
        at = to;
    }
}

/// Takes what a failed call has unmapped of a range out of the attach table.
pub fn unmapped(this_client: &Client, start: usize, bytes: usize) {
    errno::untouched(|| {
        each_gone(start, bytes, |from, to| pieces::forget_range(this_client, from, to - from));
    });
}

/// Follows a failed mremap(2) of a range to a given place in the attach table: what it has moved,
/// and what it has unmapped.
pub fn half_moved(this_client: &Client, start: usize, bytes: usize, target: usize) {
    errno::untouched(|| {
        each_gone(start, bytes, |from, to| {
            while let Some(piece) = pieces::find(|piece| piece.touches(from, to)) {
                let (first, end) = (piece.start.max(from), piece.end().min(to));
                follow(this_client, first, end, first - start + target);
            }
        });
    });
}

/// Follows the part of a piece that has gone from its place: to `target`, if a segment is shown
/// there now, and else nowhere.
fn follow(this_client: &Client, start: usize, end: usize, target: usize) {
    let bytes = end - start;
    let shows_segment = |mapping: Mapping| mapping.is_shared_file;
    let gap = first_gap_by_maps(target, target + bytes, shows_segment)
        .unwrap_or_else(|| first_gap_by_asking(target, target + bytes));
    let has_moved = gap.is_none();
    if has_moved {
        pieces::forget_range(this_client, target, bytes);
    }
    let moved = |piece: Piece| has_moved.then(|| piece.moved(start, target));
    pieces::recut(this_client, start, bytes, |_| true, moved);
}

#[cfg(test)]
mod tests {
    use super::{Mapping, PAGE, drop_range, first_gap_by_asking, no_access};

    /// In a process of its own: the limit is that of all threads.
    #[test]
    fn a_limit_on_addresses_makes_no_free_page_a_mapped_one() {
        let start = no_access(0, 3 * PAGE, 0).expect("addresses");
        drop_range(start + PAGE, PAGE);
        // SAFETY: the child of a process with threads makes system calls alone, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the call reads the structure; it limits this process alone.
            let limited = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const none) } == 0;
            let gap = first_gap_by_asking(start, start + 3 * PAGE);
            let is_right = limited && gap == Some((start + PAGE, start + 2 * PAGE));
            // SAFETY: it ends this process without anything of its parent's.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: the call writes the status of the child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        drop_range(start, 3 * PAGE);
        assert_eq!(status, 0);
    }

    #[test]
    fn lines_are_read_up_to_their_path() {
        let line = b"7f0000001000-7f0000003000 rw-s 0012a000 00:1a 1234   /dev/shm/pool";
        let (start, end) = (0x7f00_0000_1000, 0x7f00_0000_3000);
        let segment = Mapping { start, end, is_shared_file: true, is_reserved: false };
        assert_eq!(Mapping::parse(line), Some(segment));
        let line = b"7f0000001000-7f0000003000 ---p 00000000 00:00 0 ";
        let reserved = Mapping { is_shared_file: false, is_reserved: true, ..segment };
        assert_eq!(Mapping::parse(line), Some(reserved));
        assert_eq!(Mapping::parse(b"7f0000001000 rw"), None);
    }
}
