//! mmap(2) of a descriptor of an object: what it maps is the object's memory in the pool, and from
//! there on it is a piece of the attach table like an attach of a System V segment.
//!
//! What a mapping has behind the object's memory is reserved without any access, where a file's
//! would give SIGBUS: in the pool, other objects lie there. A private mapping that may be written
//! is a copy, made here and now.

use std::ptr::NonNull;

use libc::{c_int, c_void, off_t};
use vshmem_ipc::{Attachment, Errno};
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::addresses::{PAGE, drop_range};
use crate::attached::attach_table::{Attaching, Changing, Marks, Piece, Rights};
use crate::attached::{future_locks, mapping_cache, pieces};
use crate::errno;
use crate::mapping::{attach, reconcile, unmap, user};
use crate::next::system_call;
use crate::object_descriptors::{Descriptor, Object, open};
use crate::posix::{adopt, transfer};
use crate::session::current;

const ANY: c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
/// Flags that say where a mapping is to lie.
const PLACES: c_int = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | MAP_32BIT;
#[cfg(target_arch = "x86_64")]
const MAP_32BIT: c_int = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const MAP_32BIT: c_int = 0;
/// MADV_POPULATE_READ and MADV_POPULATE_WRITE (Linux 5.14).
const POPULATE_READ: usize = 22;
const POPULATE_WRITE: usize = 23;

/// What mmap(2) is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Where; 0 for anywhere.
    pub start: usize,
    /// How much.
    pub bytes: usize,
    /// PROT_ bits.
    pub rights: c_int,
    /// MAP_ bits.
    pub flags: c_int,
    /// The descriptor.
    pub file: c_int,
    /// Where in the file.
    pub offset: off_t,
}

/// mmap(2), by whatever call.
#[inline]
pub fn map(request: Request, call: impl Fn() -> *mut c_void) -> *mut c_void {
    let Request { start, bytes, flags, file, .. } = request;
    let is_file = flags & libc::MAP_ANONYMOUS == 0;
    if !is_file || open::object_of(file).is_none() {
        let result = unmap::map(start, bytes, flags, &call);
        // The file behind an object that has come by a way that is not followed is sealed.
        let is_failure = is_file && result == libc::MAP_FAILED;
        if !is_failure || adopt::after_failure(file, libc::EPERM).is_none() {
            return result;
        }
    }
    match open::surely_object_of(file) {
        Some(known) => answer(map_known(request, known)),
        None => unmap::map(start, bytes, flags, call),
    }
}

fn answer(mapped: Result<usize, Errno>) -> *mut c_void {
    match mapped {
        Ok(start) => {
            user::forget();
            start as *mut c_void
        }
        Err(error) => {
            errno::set(error);
            libc::MAP_FAILED
        }
    }
}

impl Request {
    fn has(self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    fn is_private(self) -> bool {
        self.flags & libc::MAP_TYPE == libc::MAP_PRIVATE
    }

    fn writes(self) -> bool {
        self.rights & libc::PROT_WRITE != 0
    }

    fn protection(self) -> Protection {
        Protection { write: self.writes(), execute: self.rights & libc::PROT_EXEC != 0 }
    }

    /// The request in whole pages, as the kernel checks it.
    fn checked(self, known: Descriptor) -> Result<Self, Errno> {
        let bytes = self.bytes.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        if bytes == 0 || self.offset % PAGE as off_t != 0 {
            return Err(Errno::INVAL);
        }
        if self.offset < 0 || (self.offset as u64).checked_add(bytes as u64).is_none() {
            return Err(Errno::OVERFLOW);
        }
        if bytes > isize::MAX as usize {
            return Err(Errno::NOMEM);
        }
        let kind = self.flags & libc::MAP_TYPE;
        let kinds = [libc::MAP_SHARED, libc::MAP_PRIVATE, libc::MAP_SHARED_VALIDATE];
        if !kinds.contains(&kind) || self.has(libc::MAP_FIXED) && !self.start.is_multiple_of(PAGE) {
            return Err(Errno::INVAL);
        }
        // The file is none of hugetlbfs, whatever pages the pool has.
        if self.has(libc::MAP_HUGETLB) {
            return Err(Errno::INVAL);
        }
        if kind == libc::MAP_SHARED_VALIDATE && self.has(libc::MAP_SYNC) {
            return Err(Errno::OPNOTSUPP);
        }
        let is_shared = !self.is_private();
        if !known.access.read || is_shared && self.writes() && !known.access.write {
            return Err(Errno::ACCESS);
        }
        Ok(Self { bytes, ..self })
    }

    /// Takes addresses as the kernel chooses them for such a call, without any access.
    fn reserve(self) -> Result<usize, Errno> {
        let flags =
            self.flags & PLACES | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let none = libc::PROT_NONE as usize;
        let words = [self.start, self.bytes, none, flags as usize, usize::MAX, 0];
        // SAFETY: with MAP_FIXED the program has asked for what lies there to be replaced.
        let got = unsafe { system_call(libc::SYS_mmap, words) };
        match usize::try_from(got) {
            // Linux before 4.17 takes the address for a hint.
            Ok(got) if self.has(libc::MAP_FIXED_NOREPLACE) && got != self.start => {
                drop_range(got, self.bytes);
                Err(Errno::EXIST)
            }
            Ok(got) => Ok(got),
            Err(_) => Err(Errno::from_raw_os_error(errno::get())),
        }
    }
}

#[cold]
fn map_known(request: Request, known: Descriptor) -> Result<usize, Errno> {
    let Object::SharedMemory(id) = known.object else { return Err(Errno::NODEV) };
    let request = request.checked(known)?;
    let session = current::watchful_session()?;
    if request.start != 0 {
        errno::untouched(|| mapping_cache::drop_range(request.start, request.bytes));
    }
    if request.is_private() && request.writes() {
        return copy(session, id, request);
    }
    let writable = known.access.write && !request.is_private();
    // One that takes the place of others changes the attach table as munmap(2) does.
    if request.has(libc::MAP_FIXED) {
        let _changing = Changing::begin();
        return attach_at(session, id, request, writable);
    }
    let _attaching = Attaching::begin();
    attach_at(session, id, request, writable)
}

fn attach_at(session: &Session, id: i32, request: Request, writable: bool) -> Result<usize, Errno> {
    let part =
        |object: Attachment| Part { offset: object.offset, whole: object.bytes as usize, request };
    let map = |object| {
        let placed = part(object).place(session);
        if request.has(libc::MAP_FIXED) {
            let follow = if placed.is_ok() { pieces::forget_range } else { reconcile::unmapped };
            follow(session.client(), request.start, request.bytes);
        }
        let start = placed?;
        NonNull::new(start as *mut u8).ok_or(Errno::PERM)
    };
    let piece = |object, start| part(object).piece(id, start, writable);
    let count = || session.client().posix_shm_attach(id);
    attach::counted(session, count, map, piece).map(|start| start.as_ptr().addr())
}

/// A part of an object, to be mapped.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Where in the pool the object begins.
    offset: u64,
    /// Bytes of its memory.
    whole: usize,
    request: Request,
}

impl Part {
    /// Bytes of the request that the object has memory for.
    fn shown(self) -> usize {
        let behind = usize::try_from(self.request.offset).unwrap_or(usize::MAX);
        self.whole.saturating_sub(behind).min(self.request.bytes)
    }

    /// Where in the pool it begins.
    fn begin(self) -> u64 {
        self.offset + self.request.offset as u64
    }

    /// Maps it, with the rights that were asked for.
    fn place(self, session: &Session) -> Result<usize, Errno> {
        let request = self.request;
        let anywhere = request.start == 0 && !request.has(PLACES);
        let is_whole = self.shown() == request.bytes;
        let start = if anywhere && is_whole {
            self.place_anywhere(session)?
        } else {
            match self.place_in_reserved(session) {
                // The device maps larger units, and the kernel's choice does not suit them.
                Err(Errno::INVAL) if is_whole && !request.has(PLACES) => {
                    self.place_anywhere(session)?
                }
                other => other?,
            }
        };
        self.finish(session, start);
        Ok(start)
    }

    fn place_anywhere(self, session: &Session) -> Result<usize, Errno> {
        let (begin, bytes) = (self.begin(), self.request.bytes);
        if self.request.rights == libc::PROT_READ | libc::PROT_WRITE
            && let Some(kept) = mapping_cache::take(begin, bytes)
        {
            return Ok(kept);
        }
        let mapping = session.link().map(begin, bytes, self.request.protection())?;
        Ok(mapping.leak().as_ptr().addr())
    }

    /// Takes the addresses first: what lies behind the object stays as it is then.
    fn place_in_reserved(self, session: &Session) -> Result<usize, Errno> {
        if self.request.has(libc::MAP_FIXED) && !self.suits(session, self.request.start) {
            // What lies there is still wanted.
            return Err(Errno::INVAL);
        }
        let start = self.request.reserve()?;
        let shown = self.shown();
        if shown == 0 {
            return Ok(start);
        }
        let at = NonNull::new(start as *mut u8).ok_or(Errno::PERM)?;
        // SAFETY: the range was just reserved.
        let mapping =
            unsafe { session.link().map_at(self.begin(), shown, self.request.protection(), at) };
        match mapping {
            Ok(mapping) => {
                mapping.leak();
                Ok(start)
            }
            Err(error) => {
                drop_range(start, self.request.bytes);
                Err(error)
            }
        }
    }

    /// Whether the device, which may map larger units than a page, can map it at an address.
    fn suits(self, session: &Session, start: usize) -> bool {
        let apart = (start as u64).abs_diff(self.begin());
        self.shown() == 0 || apart.is_multiple_of(session.link().capabilities().page_bytes)
    }

    /// What else the flags ask for, of all that the device has mapped for it. None of it can make
    /// the call fail.
    fn finish(self, session: &Session, start: usize) {
        let (request, shown) = (self.request, self.shown());
        let units = session.link().capabilities().footprint(start, shown);
        let ask = |number, words: [usize; 3]| {
            // SAFETY: the range was just mapped; the calls change no content.
            errno::untouched(|| unsafe { system_call(number, words) });
        };
        if shown == 0 {
            return;
        }
        if request.rights & libc::PROT_READ == 0 {
            ask(libc::SYS_mprotect, [units.start, units.len(), (request.rights & ANY) as usize]);
        }
        if request.has(libc::MAP_LOCKED) {
            ask(libc::SYS_mlock, [units.start, units.len(), 0]);
        }
        if request.has(libc::MAP_POPULATE) {
            let advice = if request.writes() { POPULATE_WRITE } else { POPULATE_READ };
            ask(libc::SYS_madvise, [start, shown, advice]);
        }
    }

    fn piece(self, id: i32, start: usize, writable: bool) -> Piece {
        let request = self.request;
        let locked = if request.has(libc::MAP_LOCKED) { Marks::LOCKED } else { Marks::none() };
        let marks = future_locks::locks_of_new().and(locked).and(Marks::OF_DESCRIPTOR);
        let rights = Rights { now: (request.rights & ANY) as u32, writable, marks };
        let base = start.wrapping_sub(request.offset as usize);
        let attach = attach::number();
        let (offset, whole) = (self.offset, self.whole);
        Piece { id, attach, start, bytes: request.bytes, base, offset, whole, rights }
    }
}

/// A private mapping that may be written: memory of this process alone, with what the object holds
/// now. Behind the object's last page it can be used no more than a file's.
fn copy(session: &Session, id: i32, request: Request) -> Result<usize, Errno> {
    let size = session.client().posix_shm_stat(id)?.size;
    let offset = request.offset as u64;
    let there = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let shown = there.min(request.bytes).next_multiple_of(PAGE);
    let start = own_memory(request)?;
    let filled = transfer::with_mapping(session, id, offset, shown, false, |from, bytes| {
        // SAFETY: both ranges have so many bytes; the second was just made, and is not used yet.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), start as *mut u8, bytes) };
        bytes
    });
    let close = |at: usize, bytes: usize, rights: c_int| {
        let words = [at, bytes, rights as usize];
        // SAFETY: the range was just made, and is not used yet.
        errno::untouched(|| unsafe { system_call(libc::SYS_mprotect, words) });
    };
    if let Err(error) = filled {
        drop_range(start, request.bytes);
        return Err(error);
    }
    if request.rights & ANY != libc::PROT_READ | libc::PROT_WRITE {
        close(start, shown, request.rights & ANY);
    }
    if shown < request.bytes {
        close(start + shown, request.bytes - shown, libc::PROT_NONE);
    }
    Ok(start)
}

/// Private memory where the request wants it.
fn own_memory(request: Request) -> Result<usize, Errno> {
    let kept = request.flags & !(libc::MAP_TYPE | libc::MAP_SYNC);
    let flags = kept | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let both = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let words = [request.start, request.bytes, both, flags as usize, usize::MAX, 0];
    let result = unmap::map(request.start, request.bytes, flags, || {
        // SAFETY: with MAP_FIXED the program has asked for what lies there to be replaced.
        (unsafe { system_call(libc::SYS_mmap, words) }) as usize as *mut c_void
    });
    if result == libc::MAP_FAILED {
        return Err(Errno::from_raw_os_error(errno::get()));
    }
    Ok(result.addr())
}
