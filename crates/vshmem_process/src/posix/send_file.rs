//! sendfile(2) from or to an object: the bytes go through memory of this call's own, since the
//! kernel would see the empty file behind the descriptor.

use libc::{c_int, off_t};
use vshmem_ipc::Errno;
use vshmem_mem::Scratch;

use crate::errno;
use crate::mapping::user;
use crate::next::system_call;
use crate::posix::seek;
use crate::posix::transfer::{Transfer, Way, involves_object};

/// Bytes that are moved at a time.
const STEP: usize = 1 << 18;

/// sendfile(2), by whatever call.
#[inline]
pub fn send(
    to: c_int,
    from: c_int,
    at: *mut off_t,
    bytes: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    if !involves_object(to, from) {
        return call();
    }
    errno::answer(send_known(to, from, at, bytes).map(|done| done as i64)) as isize
}

#[cold]
fn send_known(to: c_int, from: c_int, at: *mut off_t, bytes: usize) -> Result<usize, Errno> {
    let begin = if at.is_null() {
        seek::position_of(from)? as off_t
    } else {
        user::check(at.cast(), size_of::<off_t>(), true)?;
        // SAFETY: it was just found to be readable.
        unsafe { at.read() }
    };
    let mut room = Scratch::<u8>::new(bytes.min(STEP)).ok_or(Errno::NOMEM)?;
    let mut done = 0;
    let result = carry(to, from, begin, bytes, room.values(), &mut done);
    if done == 0 {
        result?;
    }
    let end = begin + done as off_t;
    if at.is_null() {
        seek::set_position(from, end)?;
    } else {
        // SAFETY: it was found to be writable above.
        unsafe { at.write(end) };
    }
    Ok(done)
}

/// Until all is there, the file ends, or less is taken than was offered.
fn carry(
    to: c_int,
    from: c_int,
    begin: off_t,
    bytes: usize,
    room: &mut [u8],
    done: &mut usize,
) -> Result<(), Errno> {
    while *done < bytes {
        let wanted = room.len().min(bytes - *done);
        let at = begin.checked_add(*done as off_t).ok_or(Errno::OVERFLOW)?;
        let had = moved(Transfer { file: from, way: Way::Read, at: Some(at) }, room, wanted)?;
        let put = moved(Transfer { file: to, way: Way::Write, at: None }, room, had)?;
        *done += put;
        if put < wanted {
            break;
        }
    }
    Ok(())
}

fn moved(transfer: Transfer, room: &mut [u8], bytes: usize) -> Result<usize, Errno> {
    let start = room.as_mut_ptr();
    let (file, address) = (transfer.file as usize, start.addr());
    let done = transfer.of(start, bytes, || {
        // SAFETY: the room has so many bytes.
        let done = unsafe {
            match transfer.at {
                Some(at) => system_call(libc::SYS_pread64, [file, address, bytes, at as usize]),
                None => system_call(libc::SYS_write, [file, address, bytes]),
            }
        };
        done as isize
    });
    usize::try_from(done).map_err(|_| Errno::from_raw_os_error(errno::get()))
}
