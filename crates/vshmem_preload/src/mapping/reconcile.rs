//! After a call that has failed: whether it had unmapped something by then.
//!
//! mremap(2) and mmap(2) with a place of the program's choice may unmap what lies there, and fail
//! afterwards; since Linux 6.17 an mremap(2) of several mappings may have moved some of them. The
//! kernel alone knows, and tells in /proc/self/maps. The caller holds the attach table
//! ([`crate::mapping::change::change`]), so that no thread attaches there meanwhile.

use rustix::fs::{Mode, OFlags};
use vshmem_ipc::Client;
use vshmem_mem::unless_confined;

use crate::attached::attach_table::Piece;
use crate::attached::pieces;
use crate::errno;

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
fn each_mapping(mut each: impl FnMut(Mapping)) -> Option<()> {
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

/// The first part of a range in which no mapping is as `wanted`. `None`: there is none, or nothing
/// can say.
fn first_gap(start: usize, end: usize, wanted: impl Fn(Mapping) -> bool) -> Option<(usize, usize)> {
    let (mut at, mut until) = (start, end);
    each_mapping(|mapping| {
        if mapping.end <= at || mapping.start >= until || !wanted(mapping) {
            return;
        }
        if mapping.start <= at {
            at = mapping.end;
        } else {
            until = mapping.start;
        }
    })?;
    (at < until).then_some((at, until))
}

/// Calls `each` with every part of a range at which no piece can lie any more.
fn each_gone(start: usize, bytes: usize, mut each: impl FnMut(usize, usize)) {
    let (mut at, end) = (start, start.saturating_add(bytes));
    let may_be_attached = |mapping: Mapping| mapping.is_shared_file || mapping.is_reserved;
    while let Some((from, to)) = first_gap(at, end, may_be_attached) {
        each(from, to);
        at = to;
    }
}

/// Takes what a failed call has unmapped of a range out of the attach table.
pub fn unmapped(this_client: &Client, start: usize, bytes: usize) {
    let look = || {
        each_gone(start, bytes, |from, to| pieces::forget_range(this_client, from, to - from));
    };
    errno::untouched(|| unless_confined(look));
}

/// Follows a failed mremap(2) of a range to a given place in the attach table: what it has moved,
/// and what it has unmapped.
pub fn half_moved(this_client: &Client, start: usize, bytes: usize, target: usize) {
    let look = || {
        each_gone(start, bytes, |from, to| {
            while let Some(piece) = pieces::find(|piece| piece.touches(from, to)) {
                let (first, end) = (piece.start.max(from), piece.end().min(to));
                follow(this_client, first, end, first - start + target);
            }
        });
    };
    errno::untouched(|| unless_confined(look));
}

/// Follows the part of a piece that has gone from its place: to `target`, if a segment is shown
/// there now, and else nowhere.
fn follow(this_client: &Client, start: usize, end: usize, target: usize) {
    let bytes = end - start;
    let shows_segment = |mapping: Mapping| mapping.is_shared_file;
    let has_moved = first_gap(target, target + bytes, shows_segment).is_none();
    if has_moved {
        pieces::forget_range(this_client, target, bytes);
    }
    let moved = |piece: Piece| has_moved.then(|| piece.moved(start, target));
    pieces::recut(this_client, start, bytes, |_| true, moved);
}

#[cfg(test)]
mod tests {
    use super::Mapping;

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
