//! shmat(2) and shmdt(2) of segments in the pool: the count, the mapping, the attach table.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;
use vshmem_ipc::{Attachment, Errno};
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::addresses::{PAGE, drop_mapping, drop_range};
use crate::attached::attach_table::{Attaching, Changing, Marks, Piece, Rights};
use crate::attached::{future_locks, mapping_cache, pieces, place};
use crate::errno;
use crate::mapping::{reconcile, user};
use crate::next::system_call;
use crate::session::caller::Credentials;
use crate::session::{current, exit};

/// SHMLBA: addresses are rounded to it.
pub const BOUNDARY: usize = 4096;
/// SHM_REMAP of shmat(2): what lies at the address is replaced.
pub const SHM_REMAP: c_int = 0o40000;
const SHM_RDONLY: c_int = 0o10000;
const SHM_RND: c_int = 0o20000;
const SHM_EXEC: c_int = 0o100_000;
/// Descriptor of a mapping without a file.
const NO_FILE: usize = usize::MAX;

/// Numbers the attaches of this process.
static ATTACHES: AtomicU32 = AtomicU32::new(0);

/// A number for a new attach.
pub fn number() -> u32 {
    ATTACHES.fetch_add(1, Ordering::Relaxed)
}

/// Where to map, as shmat(2) rounds it. `None`: anywhere.
fn target(address: usize, flags: c_int) -> Result<Option<usize>, Errno> {
    let replace = flags & SHM_REMAP != 0;
    if address == 0 {
        return if replace { Err(Errno::INVAL) } else { Ok(None) };
    }
    if address.is_multiple_of(BOUNDARY) {
        return Ok(Some(address));
    }
    if flags & SHM_RND == 0 {
        return Err(Errno::INVAL);
    }
    match address & !(BOUNDARY - 1) {
        0 if replace => Err(Errno::INVAL),
        // Only root may have anything there (mmap_min_addr), and it is of no use.
        0 => Err(Errno::PERM),
        rounded => Ok(Some(rounded)),
    }
}

/// shmat(2) of a segment in the pool.
pub fn attach(id: c_int, address: usize, flags: c_int) -> Result<NonNull<u8>, Errno> {
    if id < 0 {
        return Err(Errno::INVAL);
    }
    let target = target(address, flags)?;
    let session = current::watchful_session()?;
    // One that takes the place of others changes the attach table as munmap(2) does.
    if flags & SHM_REMAP != 0 {
        let _changing = Changing::begin();
        return attach_at(session, id, target, flags);
    }
    let _attaching = Attaching::begin();
    attach_at(session, id, target, flags)
}

/// shmat(2), at a place that is known.
fn attach_at(
    session: &Session,
    id: c_int,
    target: Option<usize>,
    flags: c_int,
) -> Result<NonNull<u8>, Errno> {
    let (write, execute) = (flags & SHM_RDONLY == 0, flags & SHM_EXEC != 0);
    counted(
        session,
        || session.client().shmat(id, write, execute, &Credentials::now()),
        |segment| map_segment(session, segment.offset, segment.bytes as usize, target, flags),
        |segment, start| whole(segment, start, rights_of(write, execute)),
    )
}

/// The piece of an attach that begins here, and is not of a part.
#[inline]
pub fn whole(of: Attachment, start: usize, rights: Rights) -> Piece {
    let Attachment { id, offset, bytes } = of;
    let bytes = bytes as usize;
    Piece { id, attach: number(), start, bytes, base: start, offset, whole: bytes, rights }
}

/// Counts an attach in the pool, maps it, and enters it in the attach table; or nothing of it.
///
/// # Errors
/// What `count` and `map` say; ENOMEM when the table is full.
#[inline(always)]
pub fn counted(
    session: &Session,
    count: impl Fn() -> Result<Attachment, Errno>,
    map: impl Fn(Attachment) -> Result<NonNull<u8>, Errno>,
    piece: impl FnOnce(Attachment, usize) -> Piece,
) -> Result<NonNull<u8>, Errno> {
    place::choose();
    let this_client = session.client();
    let object = exit::retry_after_reaping(this_client, &[Errno::NOMEM], count)?;
    let mapped = mapping_cache::map_with_room(|| map(object));
    let entered = mapped.and_then(|start| {
        let piece = piece(object, start.as_ptr().addr());
        pieces::add(piece).map(|()| start).map_err(|_| {
            drop_mapping(piece.start, piece.bytes);
            Errno::NOMEM
        })
    });
    if entered.is_err() {
        // The count goes back; there is nothing else to do with a failure of that.
        let _ = this_client.shmdt(object.id);
    }
    entered
}

/// What a new attach may be used for.
fn rights_of(write: bool, execute: bool) -> Rights {
    let bits = |asked: bool, bit: c_int| if asked { bit as u32 } else { 0 };
    let now =
        libc::PROT_READ as u32 | bits(write, libc::PROT_WRITE) | bits(execute, libc::PROT_EXEC);
    Rights { now, writable: write, marks: future_locks::locks_of_new() }
}

/// Maps a segment, or takes what was kept of an earlier attach of its pages.
fn map_segment(
    session: &Session,
    offset: u64,
    bytes: usize,
    target: Option<usize>,
    flags: c_int,
) -> Result<NonNull<u8>, Errno> {
    let (write, execute) = (flags & SHM_RDONLY == 0, flags & SHM_EXEC != 0);
    let replace = flags & SHM_REMAP != 0;
    if target.is_some_and(|start| start.checked_add(bytes).is_none()) {
        return Err(Errno::INVAL);
    }
    let kept = if write && !execute { mapping_cache::take(offset, bytes) } else { None };
    if let Some(start) = kept {
        if let Some(start) = NonNull::new(start as *mut u8)
            && target.is_none_or(|target| target == start.as_ptr().addr())
        {
            return Ok(start);
        }
        drop_mapping(start, bytes);
    }
    let protection = Protection { write, execute };
    let mapping = match target {
        None => session.link().map(offset, bytes, protection),
        Some(start) => {
            mapping_cache::drop_range(start, bytes);
            let at = NonNull::new(start as *mut u8).ok_or(Errno::INVAL)?;
            if !replace {
                reserve(start, bytes)?;
            }
            // SAFETY: without REMAP the place was just reserved and is not used; with it the
            // program has asked for what lies there to be replaced.
            let mapping = unsafe { session.link().map_at(offset, bytes, protection, at) };
            if replace && mapping.is_err() {
                // What lay there may be unmapped by now, as when a call of the kernel's fails.
                reconcile::unmapped(session.client(), start, bytes);
            }
            mapping
        }
    };
    let start = match mapping {
        Ok(mapping) => mapping.leak(),
        Err(Errno::EXIST) => return Err(Errno::INVAL),
        Err(error) => return Err(error),
    };
    if replace {
        pieces::forget_range(session.client(), start.as_ptr().addr(), bytes);
    }
    Ok(start)
}

/// Takes a free range of addresses; EINVAL when something lies there.
fn reserve(start: usize, bytes: usize) -> Result<(), Errno> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE replaces nothing.
    let got = unsafe {
        system_call(
            libc::SYS_mmap,
            [start, bytes, libc::PROT_NONE as usize, flags as usize, NO_FILE, 0],
        )
    };
    match usize::try_from(got) {
        Ok(got) if got == start => Ok(()),
        Ok(elsewhere) => {
            drop_range(elsewhere, bytes);
            Err(Errno::INVAL)
        }
        Err(_) => match errno::get() {
            libc::EEXIST => Err(Errno::INVAL),
            error => Err(Errno::from_raw_os_error(error)),
        },
    }
}

/// shmdt(2): detaches what was attached at an address; `kernel` is asked where nothing of the pool
/// was.
pub fn detach(session: &Session, base: usize, kernel: impl FnOnce() -> c_int) -> c_int {
    let attaching = Attaching::begin();
    let Some(lowest) = lowest_of(base) else {
        let result = kernel();
        user::forget();
        return result;
    };
    if lowest.bytes < lowest.whole && session.link().capabilities().page_bytes > PAGE as u64 {
        // Several pieces may lie in one unit. Who takes the last one unmaps it, and must be alone:
        // somebody else's memory may lie there a moment later.
        drop(attaching);
        let _changing = Changing::begin();
        return match lowest_of(base) {
            Some(lowest) => take_attach(session, lowest),
            None => {
                errno::set(Errno::INVAL);
                -1
            }
        };
    }
    take_attach(session, lowest)
}

/// What is attached at an address. What mremap leaves of another attach may have the same base: the
/// lowest piece decides, as in the kernel.
fn lowest_of(base: usize) -> Option<Piece> {
    let mut lowest: Option<Piece> = None;
    pieces::each(|piece| {
        let is_attach = !piece.rights.marks.has(Marks::OF_DESCRIPTOR);
        let is_lower = lowest.is_none_or(|lowest| piece.start < lowest.start);
        if is_attach && piece.base == base && is_lower {
            lowest = Some(piece);
        }
    });
    lowest
}

/// Detaches all pieces of an attach.
#[inline(always)]
fn take_attach(session: &Session, lowest: Piece) -> c_int {
    // What is sealed stays mapped, and counts.
    let sealed = |piece: Piece| piece.rights.marks.has(Marks::SEALED);
    while let Some(piece) = pieces::take(|piece| piece.goes_with(lowest) && !sealed(piece)) {
        mapping_cache::detach(piece);
        let _ = session.client().shmdt(piece.id);
    }
    user::forget();
    0
}
