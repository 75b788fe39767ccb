//! The open descriptors of this process that are objects: its table, and the pool that counts. An
//! open descriptor keeps its object alive, as an attach keeps a segment.

use std::os::fd::{IntoRawFd, OwnedFd};

use libc::c_int;
use vshmem_ipc::{Client, Errno};

use super::marker::{self, Signer};
use super::place;
use super::table::{Access, Descriptor, Object, OpenQueue, Table};
use crate::next::system_call;
use crate::{errno, process};

/// Numbers below 2^20: as many descriptors as a process may have where nobody has allowed more
/// (fs.nr_open).
const PAGES: usize = 2048;

static OPEN: Table<PAGES> = Table::new();

/// To be called before addresses may become scarce.
pub fn make_room() {
    OPEN.make_usual();
}

/// Whether no descriptor is an object.
#[inline]
pub fn is_empty() -> bool {
    OPEN.is_empty()
}

/// What a descriptor is of, as far as is known. It costs no system call: for calls that do no harm
/// if the number stands for another file by now.
#[inline]
pub fn object_of(file: c_int) -> Option<Descriptor> {
    OPEN.get(file)
}

/// As [`object_of`], for certain: a number that stands for another file by now, because a call
/// inside libc has closed it, is forgotten.
#[inline]
pub fn surely_object_of(file: c_int) -> Option<Descriptor> {
    let known = OPEN.get(file)?;
    errno::untouched(|| compare(file, known))
}

/// The shared memory object that a descriptor is of, for certain.
pub fn shared_memory(file: c_int) -> Option<(i32, Descriptor)> {
    let known = surely_object_of(file)?;
    match known.object {
        Object::SharedMemory(id) => Some((id, known)),
        Object::Queue(_) => None,
    }
}

/// A call on a descriptor: `known` where it is of a shared memory object, else `call`.
#[inline]
pub fn on_shared_memory<R>(
    file: c_int,
    call: impl FnOnce() -> R,
    known: impl FnOnce(i32, Descriptor) -> R,
) -> R {
    if object_of(file).is_none() {
        return call();
    }
    match shared_memory(file) {
        None => call(),
        Some((id, descriptor)) => known(id, descriptor),
    }
}

#[cold]
#[inline(never)]
fn compare(file: c_int, known: Descriptor) -> Option<Descriptor> {
    if marker::identity_of(file) == Some(known.identity) {
        return Some(known);
    }
    // Not in a child of vfork, where the number may be another file than its parent's.
    if process::owns_its_memory()
        && let Some(gone) = OPEN.take_if(file, |descriptor| descriptor == known)
    {
        give_up(gone.object);
    }
    None
}

/// Makes a descriptor for a queue. The pool counts it already for this process; that is given up
/// when it fails.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM, ENOSYS.
pub fn make_queue(id: i32, access: Access) -> Result<c_int, Errno> {
    let object = Object::Queue(id);
    let made = process::joined().ok_or(Errno::NOSYS).and_then(|session| {
        let generation = marker::generation_of(session, object)?;
        marker::make(&Signer::of(session), object, access, generation, None)
    });
    entered_or_given_up(object, made)
}

/// As [`make_queue`], for a shared memory object, whose file gets the mode that `mode` says if it
/// is made.
///
/// # Errors
/// As [`make_queue`].
pub fn make_shared(id: i32, access: Access, mode: impl Fn() -> u32) -> Result<c_int, Errno> {
    let object = Object::SharedMemory(id);
    let is_it = |descriptor: Descriptor| descriptor.object == object;
    let own = |noted: Option<c_int>| {
        let noted = noted.and_then(|file| Some((file, OPEN.get(file)?)));
        noted.filter(|(_, descriptor)| is_it(*descriptor)).or_else(|| OPEN.find(is_it))
    };
    let made = process::joined()
        .ok_or(Errno::NOSYS)
        .and_then(|session| place::open(session, id, access, own, mode));
    entered_or_given_up(object, made)
}

fn entered_or_given_up(
    object: Object,
    made: Result<(OwnedFd, Descriptor), Errno>,
) -> Result<c_int, Errno> {
    match made {
        Ok((file, descriptor)) => enter(file, descriptor),
        Err(error) => {
            give_up(object);
            Err(error)
        }
    }
}

/// Enters a new descriptor. What cannot be entered is closed, and given up.
fn enter(file: OwnedFd, descriptor: Descriptor) -> Result<c_int, Errno> {
    let number = file.into_raw_fd();
    register(number, descriptor).map(|()| number).inspect_err(|_| close(number))
}

/// Closes a descriptor that was just made, and that no other code knows.
pub fn close(file: c_int) {
    // SAFETY: by what this function is for.
    unsafe { system_call(libc::SYS_close, [file as usize]) };
}

/// Sets flags of a descriptor that was just made: O_APPEND and its like.
pub fn set_flags(file: c_int, flags: c_int) {
    let words = [file as usize, libc::F_SETFL as usize, flags as usize];
    // SAFETY: the call changes a descriptor that no other code knows yet.
    unsafe { system_call(libc::SYS_fcntl, words) };
}

/// A number stands for an object, which the pool counts already for it; given up when it fails.
///
/// # Errors
/// EMFILE: the number is too large to be known by, or there is no room to note it.
pub fn register(file: c_int, descriptor: Descriptor) -> Result<(), Errno> {
    // It was closed by a call inside libc.
    if let Some(stale) = forget(file) {
        give_up(stale.object);
    }
    OPEN.set(file, descriptor).map_err(|_| {
        give_up(descriptor.object);
        Errno::MFILE
    })?;
    note_flags(file, descriptor);
    Ok(())
}

/// Takes note of the file's O_NONBLOCK, for the calls that would ask the kernel each time. The
/// thread that marks last finds the file so afterwards: what another thread, or a handler, sets in
/// between is noted by one of the two.
pub fn note_flags(file: c_int, descriptor: Descriptor) {
    if !matches!(descriptor.object, Object::Queue(_)) {
        return;
    }
    let mut noted = None;
    // Nothing is noted of a number that stands for another file by now.
    while let now @ Some(nonblocking) = is_nonblocking(file, descriptor)
        && now != noted
    {
        OPEN.mark(descriptor.identity, nonblocking);
        noted = now;
    }
}

/// `None`: the number has been closed, or stands for another file.
fn is_nonblocking(file: c_int, descriptor: Descriptor) -> Option<bool> {
    let words = [file as usize, libc::F_GETFL as usize];
    // SAFETY: the call reads the flags of a descriptor.
    let flags = errno::untouched(|| unsafe { system_call(libc::SYS_fcntl, words) });
    // A number is forgotten before it is closed.
    let is_same = OPEN.get(file).is_some_and(|now| now.identity == descriptor.identity);
    (flags >= 0 && is_same).then_some(flags as c_int & libc::O_NONBLOCK != 0)
}

/// The queue that a descriptor is of, as far as is known.
#[inline]
pub fn queue(file: c_int) -> Option<OpenQueue> {
    OPEN.queue(file)
}

/// A number stands for nothing any more, because it is about to be closed. The caller gives the
/// object up when that has happened.
pub fn forget(file: c_int) -> Option<Descriptor> {
    OPEN.take(file)
}

/// Enters a number that has come from elsewhere, if it stands for an object of the pool.
pub fn take_in(file: c_int) -> Option<Descriptor> {
    let descriptor = marker::recognize(file)?;
    keep(descriptor.object).ok()?;
    // Until it was counted, the object might go, and others come to its id.
    if marker::recognize(file) != Some(descriptor) {
        give_up(descriptor.object);
        return None;
    }
    register(file, descriptor).ok().map(|()| descriptor)
}

/// Calls `each` with every descriptor of a range of numbers.
pub fn each_in(first: u32, last: u32, each: impl FnMut(c_int, Descriptor)) {
    OPEN.each_in(first, last, each);
}

/// One descriptor more of an object that has one already.
///
/// # Errors
/// EIDRM and its like: the object is gone. ENOSPC: the pool has no room to count it.
pub fn keep(object: Object) -> Result<(), Errno> {
    let this_client = client().ok_or(Errno::NOSYS)?;
    errno::untouched(|| match object {
        Object::SharedMemory(id) => this_client.posix_shm_keep(id),
        Object::Queue(id) => this_client.mq_keep(id),
    })
}

/// One descriptor less. There is nothing to do with a failure of that.
pub fn give_up(object: Object) {
    let Some(this_client) = client() else { return };
    errno::untouched(|| match object {
        Object::SharedMemory(id) => {
            let _ = this_client.posix_shm_close(id);
        }
        Object::Queue(id) => {
            let _ = this_client.mq_close(id);
        }
    });
}

fn client() -> Option<&'static Client> {
    process::joined().map(|session| session.client())
}

/// To be called in a new child, which has its parent's descriptors.
pub fn begin_child() {
    OPEN.begin_child();
}

/// Counts them all for this process.
pub fn count_all() {
    OPEN.each_in(0, u32::MAX, |_, descriptor| {
        let _ = keep(descriptor.object);
    });
}
