//! The list of programs that have left the pool (`vshmem_link::left_programs` reads it): one file
//! for each user in each domain.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags};
use vshmem_mem::Scratch;

use super::file::Outside;
use super::line::Line;
use crate::session::environment;

/// As `vshmem_link` has it.
const MOST_BYTES: usize = 1 << 16;

/// Writes a program down, unless it is on the list already. What cannot be written is not.
pub fn enter(outside: Outside, program: &CStr) {
    let Some(file) = open() else { return };
    let Some(mut room) = Scratch::<u8>::new(MOST_BYTES) else { return };
    let mut used = 0;
    while let Ok(more) = rustix::io::pread(&file, &mut room.values()[used..], used as u64)
        && more > 0
    {
        used += more;
    }
    let mut line = Line::new();
    line.put_number(std::process::id());
    let number_ends = line.written().len();
    line.push(b'\t');
    line.put(outside.what().as_bytes());
    line.push(b'\t');
    line.put(program.to_bytes());
    line.push(b'\n');
    let known = room.values()[..used].split_inclusive(|byte| *byte == b'\n');
    let is_same = |entry: &[u8]| entry.ends_with(&line.written()[number_ends..]);
    if used + line.written().len() <= MOST_BYTES && !known.into_iter().any(is_same) {
        // One write, at the end: whole lines, also when others write at the same time.
        let _ = rustix::io::write(&file, line.written());
    }
}

/// This user's file, if it is one that nobody else can write to.
fn open() -> Option<OwnedFd> {
    let user = rustix::process::geteuid().as_raw();
    let path = path(user)?;
    let flags = OFlags::RDWR
        | OFlags::CREATE
        | OFlags::APPEND
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let path = CStr::from_bytes_until_nul(path.written()).ok()?;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_own = stat.st_uid == user && stat.st_mode & 0o022 == 0;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    (is_own && is_file).then_some(file)
}

/// `vshmem-left.UUID.PIDNS.UID`, beside the mark `vshmem-notice.UUID.PIDNS.RUN` of this run.
fn path(user: u32) -> Option<Line> {
    const MARK: &[u8] = b"/vshmem-notice.";
    let mark = environment::remembered(c"VSHMEM_NOTICE")?.to_bytes();
    let at = mark.windows(MARK.len()).rposition(|part| part == MARK)?;
    let (directory, rest) = (&mark[..at], &mark[at + MARK.len()..]);
    let run = rest.iter().rposition(|byte| *byte == b'.')?;
    let mut path = Line::new();
    for part in [directory, b"/vshmem-left.", &rest[..=run]] {
        path.put(part);
    }
    path.put_number(user);
    path.push(0);
    Some(path)
}
