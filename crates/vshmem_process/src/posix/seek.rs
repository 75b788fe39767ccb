//! lseek(2) of a descriptor of an object: the place is the file's behind it, which descriptors that
//! were duplicated have in common, and whose end is the object's.

use libc::{c_int, off_t};
use vshmem_ipc::Errno;

use crate::errno;
use crate::next::system_call;
use crate::object_descriptors::open;
use crate::session::current;

/// lseek(2), by whatever call.
#[inline]
pub fn seek(file: c_int, offset: off_t, from: c_int, call: impl FnOnce() -> off_t) -> off_t {
    if matches!(from, libc::SEEK_SET | libc::SEEK_CUR) {
        return call();
    }
    open::on_shared_memory(file, call, |id, _| errno::answer(from_size(file, id, offset, from)))
}

#[cold]
fn from_size(file: c_int, id: i32, offset: off_t, from: c_int) -> Result<off_t, Errno> {
    let size = current::session()?.client().posix_shm_stat(id)?.size as off_t;
    let position = match from {
        libc::SEEK_END => size.checked_add(offset).ok_or(Errno::OVERFLOW)?,
        libc::SEEK_DATA | libc::SEEK_HOLE if offset < 0 || offset >= size => {
            return Err(Errno::NXIO);
        }
        libc::SEEK_DATA => offset,
        libc::SEEK_HOLE => size,
        _ => return Err(Errno::INVAL),
    };
    set_position(file, position)
}

/// Where the next read or write begins.
pub fn position_of(file: c_int) -> Result<u64, Errno> {
    moved(file, 0, libc::SEEK_CUR).map(|position| position as u64)
}

/// The next read or write is to begin there.
pub fn set_position(file: c_int, position: off_t) -> Result<off_t, Errno> {
    moved(file, position, libc::SEEK_SET)
}

/// lseek(2) of the file behind a descriptor, as C answers it.
pub fn moved_or_failed(file: c_int, offset: off_t, from: c_int) -> off_t {
    errno::answer(moved(file, offset, from))
}

fn moved(file: c_int, offset: off_t, from: c_int) -> Result<off_t, Errno> {
    let words = [file as usize, offset as usize, from as usize];
    // SAFETY: the call changes a descriptor that the program has asked for to be changed.
    match unsafe { system_call(libc::SYS_lseek, words) } {
        -1 => Err(Errno::from_raw_os_error(errno::get())),
        position => Ok(position),
    }
}
