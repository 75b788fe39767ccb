//! read(2), write(2) and their kin on an object: what a file in /dev/shm would do, through a
//! mapping for a moment.
//!
//! A transfer is not one step for others, as it is not for files in memory. The place of a
//! descriptor is asked for before it and set after it, so two threads that read from one descriptor
//! at the same time may read the same bytes.

use std::ptr::NonNull;

use libc::{c_int, iovec, off_t};
use vshmem_ipc::Errno;
use vshmem_mem::{Mapping, Protection};
use vshmem_session::Session;

use crate::attached::addresses::PAGE;
use crate::attached::mapping_cache;
use crate::mapping::user;
use crate::next::system_call;
use crate::object_descriptors::{Descriptor, open};
use crate::posix::{seek, size};
use crate::session::{current, exit};
use crate::{errno, process};

/// IOV_MAX.
const MOST_PARTS: usize = 1024;

/// From an object to the program, or the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// read(2).
    Read,
    /// write(2).
    Write,
}

/// A call that transfers bytes.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// The descriptor.
    pub file: c_int,
    /// From the object, or to it.
    pub way: Way,
    /// Where, if not at the descriptor's place.
    pub at: Option<off_t>,
}

impl Transfer {
    /// The call on one buffer.
    #[inline]
    pub fn of(self, start: *mut u8, bytes: usize, call: impl FnOnce() -> isize) -> isize {
        open::on_shared_memory(self.file, call, |id, known| {
            let part = iovec { iov_base: start.cast(), iov_len: bytes };
            errno::answer(self.carry_out(id, known, &[part]).map(|n| n as i64)) as isize
        })
    }

    /// The call on several buffers.
    ///
    /// # Safety
    /// `parts` is as readv(2) wants it.
    #[inline]
    pub unsafe fn of_several(
        self,
        parts: *const iovec,
        count: c_int,
        call: impl FnOnce() -> isize,
    ) -> isize {
        open::on_shared_memory(self.file, call, |id, known| {
            // SAFETY: by this function's own contract.
            let parts = unsafe { parts_at(parts, count) };
            let done = parts.and_then(|parts| self.carry_out(id, known, parts));
            errno::answer(done.map(|n| n as i64)) as isize
        })
    }

    #[cold]
    fn carry_out(self, id: i32, known: Descriptor, parts: &[iovec]) -> Result<usize, Errno> {
        let may = if self.way == Way::Read { known.access.read } else { known.access.write };
        if !may {
            return Err(Errno::BADF);
        }
        let session = current::session()?;
        let wanted = checked_length(parts, self.way)?;
        let at = self.begin(session, id)?;
        let done = match self.way {
            Way::Read => read(session, id, at, wanted, parts),
            Way::Write => write(session, id, at, wanted, parts),
        }?;
        if self.at.is_none() && done > 0 {
            seek::set_position(self.file, (at + done as u64) as off_t)?;
        }
        Ok(done)
    }

    /// Where it begins.
    fn begin(self, session: &Session, id: i32) -> Result<u64, Errno> {
        let at = match self.at {
            Some(at) => u64::try_from(at).map_err(|_| Errno::INVAL)?,
            None => seek::position_of(self.file)?,
        };
        if self.way == Way::Write && appends(self.file) {
            return session.client().posix_shm_stat(id).map(|state| state.size);
        }
        Ok(at)
    }
}

/// Whether a descriptor writes at the end: pwrite(2) as well, as Linux has it.
fn appends(file: c_int) -> bool {
    // SAFETY: the call reads what it is asked for.
    let flags = unsafe { system_call(libc::SYS_fcntl, [file as usize, libc::F_GETFL as usize]) };
    flags >= 0 && flags as c_int & libc::O_APPEND != 0
}

/// # Safety
/// As for [`Transfer::of_several`].
unsafe fn parts_at<'a>(parts: *const iovec, count: c_int) -> Result<&'a [iovec], Errno> {
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST_PARTS);
    let count = count.ok_or(Errno::INVAL)?;
    user::check(parts.cast(), count * size_of::<iovec>(), false)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: they were just found to be readable, and are the program's for the time of its call.
    Ok(unsafe { std::slice::from_raw_parts(parts, count) })
}

/// Bytes of all parts, whose memory is good.
fn checked_length(parts: &[iovec], way: Way) -> Result<usize, Errno> {
    let mut sum = 0_usize;
    for part in parts {
        user::check(part.iov_base.cast(), part.iov_len, way == Way::Read)?;
        let more = sum.checked_add(part.iov_len).filter(|sum| *sum <= isize::MAX as usize);
        sum = more.ok_or(Errno::INVAL)?;
    }
    Ok(sum)
}

fn read(
    session: &Session,
    id: i32,
    at: u64,
    wanted: usize,
    parts: &[iovec],
) -> Result<usize, Errno> {
    let size = session.client().posix_shm_stat(id)?.size;
    let bytes = size.saturating_sub(at).min(wanted as u64) as usize;
    if bytes == 0 {
        return Ok(0);
    }
    copy(session, id, at, bytes, parts, Way::Read)
}

fn write(
    session: &Session,
    id: i32,
    at: u64,
    wanted: usize,
    parts: &[iovec],
) -> Result<usize, Errno> {
    if wanted == 0 {
        return Ok(0);
    }
    let end = at.checked_add(wanted as u64).ok_or(Errno::FBIG)?;
    if end > session.client().posix_shm_stat(id)?.size {
        size::extend(session, id, end)?;
    }
    copy(session, id, at, wanted, parts, Way::Write)
}

/// Copies bytes that the object has, through a mapping for a moment.
fn copy(
    session: &Session,
    id: i32,
    at: u64,
    bytes: usize,
    parts: &[iovec],
    way: Way,
) -> Result<usize, Errno> {
    with_mapping(session, id, at, bytes, way == Way::Write, |start, bytes| {
        let mut done = 0;
        for part in parts {
            let length = part.iov_len.min(bytes - done);
            let (own, theirs) = (start.as_ptr().wrapping_add(done), part.iov_base.cast::<u8>());
            // SAFETY: the mapping has `bytes` bytes; the program's memory was checked for this way.
            unsafe {
                match way {
                    Way::Read => std::ptr::copy(own, theirs, length),
                    Way::Write => std::ptr::copy(theirs, own, length),
                }
            }
            done += length;
        }
        done
    })
}

/// Maps some bytes of an object for a moment; fewer if it has become shorter.
///
/// # Errors
/// What attaching and mapping say.
pub fn with_mapping(
    session: &Session,
    id: i32,
    at: u64,
    bytes: usize,
    write: bool,
    work: impl FnOnce(NonNull<u8>, usize) -> usize,
) -> Result<usize, Errno> {
    let this_client = session.client();
    // Attached, its memory does not move.
    let attach = || this_client.posix_shm_attach(id);
    let object = match exit::retry_after_reaping(this_client, &[Errno::NOMEM], attach) {
        Err(Errno::NXIO) => return Ok(0),
        other => other?,
    };
    let result = map(session, object.offset, object.bytes, at, bytes, write).map(|mapped| {
        mapped.map_or(0, |(mapping, start, bytes)| {
            let done = work(start, bytes);
            drop(mapping);
            done
        })
    });
    // There is nothing to do with a failure of that.
    let _ = this_client.shmdt(id);
    result
}

/// The mapping, where in it the bytes begin, and how many there are.
type Part = (Mapping, NonNull<u8>, usize);

fn map(
    session: &Session,
    offset: u64,
    whole: u64,
    at: u64,
    bytes: usize,
    write: bool,
) -> Result<Option<Part>, Errno> {
    let bytes = whole.saturating_sub(at).min(bytes as u64) as usize;
    if bytes == 0 {
        return Ok(None);
    }
    let before = (at % PAGE as u64) as usize;
    let length = (before + bytes).next_multiple_of(PAGE);
    let protection = if write { Protection::READ_WRITE } else { Protection::default() };
    let map = || session.link().map(offset + at - before as u64, length, protection);
    let mapping = mapping_cache::map_with_room(map)?;
    let start = NonNull::new(mapping.start().as_ptr().wrapping_add(before)).ok_or(Errno::FAULT)?;
    Ok(Some((mapping, start, bytes)))
}

/// Whether a call between two descriptors has an object on one side, where it would see the empty
/// file behind it: copy_file_range(2) and its like may refuse, so that programs read and write.
pub fn involves_object(one: c_int, other: c_int) -> bool {
    let is_object =
        |file| open::object_of(file).is_some() && open::surely_object_of(file).is_some();
    process::joined().is_some() && (is_object(one) || is_object(other))
}
