//! Semaphores that this process has opened by name: sem_open(3).
//!
//! One is a shared memory object of the pool whose name begins with `sem.`, as libc's is a file. It
//! has a page, with the semaphore at its beginning, before others can find it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vshmem_ipc::{Beginning, Errno, PosixOpen, SEM_VALUE_MAX, SharedSemaphore};
use vshmem_mem::tuning::RETRY_INTERVAL;
use vshmem_mem::{Protection, sleep_shortly};
use vshmem_session::Session;
use vshmem_wire::NAME_BYTES;

use crate::attached::attach_table::Attaching;
use crate::attached::mapping_cache::{self, Through};
use crate::process;
use crate::process_shared::semaphore_page;
use crate::process_shared::whose::marked_semaphore;
use crate::session::caller::Credentials;
use crate::session::{current, exit};

/// Bytes that an object has in memory.
const PAGE: u64 = 4096;
/// Bytes that it says it has, as libc's file.
const BYTES: u64 = size_of::<libc::sem_t>() as u64;
/// What stands before the name of a semaphore.
const PREFIX: &[u8] = b"sem.";
/// Semaphores that a process has open at most.
const MOST: usize = 4096;

/// How sem_open(3) opens.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// O_CREAT.
    pub create: bool,
    /// O_EXCL, with O_CREAT.
    pub exclusive: bool,
    /// Mode of a new one; the umask has been applied.
    pub mode: u32,
    /// Value of a new one.
    pub value: u32,
}

/// The name of a semaphore's object, the prefix included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemaphoreName {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl SemaphoreName {
    /// The object that a program means by `text`.
    ///
    /// # Errors
    /// EINVAL when it is no name, ENAMETOOLONG: as glibc has it since 2.38; before, a name that is
    /// too long even without its prefix was EINVAL.
    pub fn of(text: &[u8]) -> Result<Self, Errno> {
        let first = text.iter().position(|&byte| byte != b'/').ok_or(Errno::INVAL)?;
        let name = &text[first..];
        if name.contains(&b'/') {
            return Err(Errno::INVAL);
        }
        let mut bytes = [0; NAME_BYTES];
        let length = PREFIX.len() + name.len();
        let place = bytes.get_mut(..length).ok_or(Errno::NAMETOOLONG)?;
        place[..PREFIX.len()].copy_from_slice(PREFIX);
        place[PREFIX.len()..].copy_from_slice(name);
        Ok(Self { bytes, length })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// sem_open(3).
///
/// # Errors
/// As the man page says; EINVAL when the object of that name is no semaphore.
pub fn open(name: &SemaphoreName, how: How) -> Result<NonNull<SharedSemaphore>, Errno> {
    let session = current::watchful_session()?;
    let _table = Table::lock();
    // A fork waits until what is counted for the moment is given back.
    let _attaching = Attaching::begin();
    let id = open_object(session, name.bytes(), how)?;
    let opened = attached(session, id);
    // What is attached keeps the object.
    let _ = session.client().posix_shm_close(id);
    opened
}

fn open_object(session: &Session, name: &[u8], how: How) -> Result<i32, Errno> {
    let existing = PosixOpen {
        read: true,
        write: true,
        create: false,
        exclusive: false,
        truncate: false,
        mode: 0,
    };
    let client = session.client();
    if !how.exclusive {
        match client.posix_shm_open(name, existing, &Credentials::now(), &Through(session)) {
            Err(Errno::NOENT) if how.create => {}
            opened => return opened,
        }
    }
    if how.value > SEM_VALUE_MAX {
        return Err(Errno::INVAL);
    }
    let new = PosixOpen { create: true, exclusive: how.exclusive, mode: how.mode, ..existing };
    let fill = |offset| make_semaphore(session, offset, how.value);
    let beginning = Beginning { bytes: BYTES, fill: &fill };
    exit::retry_after_reaping(client, &[Errno::NOSPC, Errno::NOMEM, Errno::NFILE], || {
        client.posix_shm_open_filled(name, new, beginning, &Credentials::now(), &Through(session))
    })
}

/// Makes a semaphore at the beginning of the page at `offset` in the pool, which no other process
/// has yet.
fn make_semaphore(session: &Session, offset: u64, value: u32) -> Result<(), Errno> {
    let map = || session.link().map(offset, PAGE as usize, Protection::READ_WRITE);
    let page = mapping_cache::map_with_room(map)?;
    // SAFETY: the page is mapped there until this function ends, and the semaphore consists of
    // atomics.
    unsafe { page.start().cast::<SharedSemaphore>().as_ref() }.init(value)
}

/// The semaphore of an object that is open: where it is attached already, or newly.
fn attached(session: &Session, id: i32) -> Result<NonNull<SharedSemaphore>, Errno> {
    if let Some(entry) = ENTRIES.iter().find(|entry| entry.is_of(id)) {
        entry.opened.fetch_add(1, Ordering::Relaxed);
        return entry.semaphore().ok_or(Errno::NOENT);
    }
    let entry = ENTRIES.iter().find(|entry| entry.is_free()).ok_or(Errno::MFILE)?;
    // An object of this name that has no memory was made by shm_open.
    let start = semaphore_page::attach(session, id).map_err(|error| match error {
        Errno::NXIO => Errno::INVAL,
        error => error,
    })?;
    // SAFETY: a page of the object is attached there, and stays so while the table is locked.
    if unsafe { marked_semaphore(start.as_ptr().cast()) }.is_none() {
        semaphore_page::detach(session, id, start.as_ptr().addr());
        return Err(Errno::INVAL);
    }
    entry.fill(id, start);
    Ok(start.cast())
}

fn wait_a_moment() {
    sleep_shortly(RETRY_INTERVAL);
}

/// sem_close(3).
///
/// # Errors
/// `None` when this process has no semaphore of the pool open there.
pub fn close(at: *const libc::sem_t) -> Option<()> {
    let session = current::session().ok()?;
    let _table = Table::lock();
    let entry = ENTRIES.iter().find(|entry| entry.is_at(at.addr()))?;
    if entry.opened.fetch_sub(1, Ordering::Relaxed) == 1 {
        entry.at.store(0, Ordering::Relaxed);
        semaphore_page::detach(session, entry.id.load(Ordering::Relaxed) as i32, at.addr());
    }
    Some(())
}

/// sem_unlink(3).
///
/// # Errors
/// As the man page says.
pub fn unlink(name: &SemaphoreName) -> Result<(), Errno> {
    current::watchful_session()?.client().posix_shm_unlink(name.bytes(), &Credentials::now())
}

/// A semaphore that is open.
struct Entry {
    id: AtomicU32,
    opened: AtomicU32,
    at: AtomicU64,
}

static ENTRIES: [Entry; MOST] =
    [const { Entry { id: AtomicU32::new(0), opened: AtomicU32::new(0), at: AtomicU64::new(0) } };
        MOST];

impl Entry {
    fn is_free(&self) -> bool {
        self.at.load(Ordering::Relaxed) == 0
    }

    fn is_of(&self, id: i32) -> bool {
        !self.is_free() && self.id.load(Ordering::Relaxed) == id as u32
    }

    fn is_at(&self, at: usize) -> bool {
        !self.is_free() && self.at.load(Ordering::Relaxed) == at as u64
    }

    fn semaphore(&self) -> Option<NonNull<SharedSemaphore>> {
        NonNull::new(
            std::ptr::with_exposed_provenance_mut(self.at.load(Ordering::Relaxed) as usize),
        )
    }

    fn fill(&self, id: i32, start: NonNull<u8>) {
        self.id.store(id as u32, Ordering::Relaxed);
        self.opened.store(1, Ordering::Relaxed);
        self.at.store(start.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
    }
}

/// The right to use [`ENTRIES`]. A child does not wait for a thread of its parent's: it has a word
/// of its own. Not by pids: in a PID namespace of its own a child may have that of its parent.
struct Table;

impl Table {
    fn lock() -> Self {
        let (free, held) = (0, 1);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        while process::word_of_process().compare_exchange(free, held, order.0, order.1).is_err() {
            wait_a_moment();
        }
        Self
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        process::word_of_process().store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_objects_behind_a_prefix() {
        let of = |text: &[u8]| SemaphoreName::of(text).map(|name| name.bytes().to_vec());
        for same in ["/x", "//x", "x"] {
            assert_eq!(of(same.as_bytes()).unwrap(), b"sem.x");
        }
        for none in [&b""[..], b"/", b"/a/b", b"a/"] {
            assert_eq!(of(none), Err(Errno::INVAL));
        }
        assert_eq!(of(&[b'x'; 252]), Err(Errno::NAMETOOLONG));
        assert_eq!(of(&[b'x'; 256]), Err(Errno::NAMETOOLONG));
        assert_eq!(of(&[b'x'; 251]).unwrap().len(), 255);
    }
}
