//! munmap(2), mmap(2), mremap(2), mprotect(2), madvise(2) and msync(2) over attached segments: the
//! kernel counts mappings, and so do we.

use std::ptr::NonNull;

use libc::{c_int, c_uint, c_void, off_t, size_t};
use vshmem_ipc::{Errno, Member};

use crate::attached::{self, Piece, Rights};
use crate::next::{next, system_call};
use crate::{errno, fixed, parked, process, user};

const PAGE: usize = 4096;

/// Unmaps a range of the pool without telling anybody, with what the device had to map around it.
pub fn drop_mapping(start: usize, bytes: usize) {
    let range = match process::joined() {
        Some(session) => session.link().footprint(start, bytes),
        None => start..start.saturating_add(bytes),
    };
    drop_range(range.start, range.len());
}

/// Unmaps a range, whatever it is.
pub fn drop_range(start: usize, bytes: usize) {
    if let Some(start) = NonNull::new(start as *mut u8) {
        // SAFETY: the callers own the range.
        let _ = unsafe { vshmem_mem::unmap(start, bytes) };
    }
}

/// The member, if any segment is attached at all.
fn attached_member() -> Option<&'static Member> {
    process::joined().map(vshmem_session::Session::member).filter(|_| !attached::is_empty())
}

/// Cuts the pieces that overlap a range at its ends, and hands each part inside to `each`, which
/// says what becomes of it. Counts follow: one attach per piece. What `each` returns must not be
/// `touched` again, or not overlap the range any more.
fn recut(
    member: &Member,
    start: usize,
    bytes: usize,
    touched: impl Fn(Piece) -> bool,
    mut each: impl FnMut(Piece) -> Option<Piece>,
) {
    let end = start.saturating_add(bytes);
    while let Some(piece) =
        attached::take(|piece| piece.start < end && piece.end() > start && touched(piece))
    {
        let inside = Piece {
            start: piece.start.max(start),
            bytes: piece.end().min(end) - piece.start.max(start),
            ..piece
        };
        let mut parts = 0;
        if piece.start < start {
            attached::add(Piece { bytes: start - piece.start, ..piece });
            parts += 1;
        }
        if piece.end() > end {
            attached::add(Piece { start: end, bytes: piece.end() - end, ..piece });
            parts += 1;
        }
        if let Some(kept) = each(inside) {
            attached::add(kept);
            parts += 1;
        }
        // Failures have nobody to go to: the mapping has changed whatever we say.
        if parts == 0 {
            let _ = member.shmdt(piece.id);
        }
        for _ in 1..parts {
            let _ = member.attach_again(piece.id);
        }
    }
}

/// Takes a range that is no longer mapped, or no longer a segment's, out of the books.
pub fn forget_range(member: &Member, start: usize, bytes: usize) {
    recut(member, start, bytes, |_| true, |_| None);
}

/// What is to be done after memory was unmapped, or covered.
pub fn unmapped(start: usize, bytes: usize) {
    user::forget();
    errno::untouched(|| parked::forget_range(start, bytes.next_multiple_of(PAGE)));
    if let Some(member) = attached_member() {
        errno::untouched(|| forget_range(member, start, bytes.next_multiple_of(PAGE)));
    }
}

/// munmap(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, bytes: size_t) -> c_int {
    unmap(
        start.addr(),
        bytes,
        || next!(c"munmap": fn(*mut c_void, size_t) -> c_int, (start, bytes), -1),
    )
}

/// munmap(2), by whatever call: here as below, one by number must not come to libc's function of the
/// name, which others (UCX) redirect to themselves and then come back by number.
pub fn unmap(start: usize, bytes: usize, call: impl FnOnce() -> c_int) -> c_int {
    let result = call();
    if result == 0 {
        unmapped(start, bytes);
    }
    result
}

/// mmap(2): with MAP_FIXED it unmaps what was there.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    start: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    map(bytes, flags, || {
        next!(c"mmap":
            fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void,
            (start, bytes, rights, flags, file, offset), libc::MAP_FAILED)
    })
}

/// mmap(2), by whatever call.
pub fn map(bytes: usize, flags: c_int, call: impl Fn() -> *mut c_void) -> *mut c_void {
    let mut result = call();
    // What is kept of detached segments may take the addresses.
    if result == libc::MAP_FAILED
        && matches!(errno::get(), libc::ENOMEM | libc::EEXIST)
        && errno::untouched(parked::drop_all)
    {
        result = call();
    }
    if result != libc::MAP_FAILED && flags & libc::MAP_FIXED != 0 {
        unmapped(result.addr(), bytes);
    }
    result
}

/// mmap64(3): the same on 64-bit machines.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    start: *mut c_void,
    bytes: size_t,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { mmap(start, bytes, rights, flags, file, offset) }
}

/// mremap(2). The last argument is C's variadic new address.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    bytes: size_t,
    new_bytes: size_t,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    remap(start.addr(), bytes, new_bytes, flags, target.addr(), || {
        next!(c"mremap":
            fn(*mut c_void, size_t, size_t, c_int, *mut c_void) -> *mut c_void,
            (start, bytes, new_bytes, flags, target), libc::MAP_FAILED)
    })
}

/// mremap(2), by whatever call.
pub fn remap(
    start: usize,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    target: usize,
    call: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    parked::drop_range(start, bytes);
    let grows_or_moves = bytes == 0 || new_bytes > bytes || flags & !libc::MREMAP_MAYMOVE != 0;
    let result = if grows_or_moves && fixed::touches(start, bytes) {
        match errno::untouched(|| fixed::remap(start, bytes, new_bytes, flags, target)) {
            Ok(place) => place as *mut c_void,
            Err(error) => {
                errno::set(error);
                libc::MAP_FAILED
            }
        }
    } else {
        call()
    };
    if result == libc::MAP_FAILED {
        return result;
    }
    user::forget();
    if result.addr() != start {
        errno::untouched(|| parked::forget_range(result.addr(), new_bytes.next_multiple_of(PAGE)));
    }
    if let Some(member) = attached_member() {
        let (before, kept) = (bytes.next_multiple_of(PAGE), new_bytes.next_multiple_of(PAGE));
        errno::untouched(|| remapped(member, start, before, result.addr(), kept, flags));
    }
    result
}

/// Follows a successful mremap in the books.
fn remapped(member: &Member, from: usize, before: usize, to: usize, kept: usize, flags: c_int) {
    let moved = |piece: Piece| {
        let by = to.wrapping_sub(from);
        let (start, base) = (piece.start.wrapping_add(by), piece.base.wrapping_add(by));
        Piece { start, base, ..piece }
    };
    // The old mapping stays: with size 0, which makes a second one, or because it was asked to.
    let copied = before == 0 || flags & libc::MREMAP_DONTUNMAP != 0;
    if to != from {
        // What lay at the target has gone.
        forget_range(member, to, kept);
    }
    if copied {
        let mut second = None;
        attached::each(|piece| {
            if (piece.start..piece.end()).contains(&from) {
                second = Some(Piece { start: from, bytes: kept.min(piece.end() - from), ..piece });
            }
        });
        if let Some(piece) = second
            && member.attach_again(piece.id).is_ok()
        {
            attached::add(moved(piece));
            cover(to + piece.bytes, kept - piece.bytes);
        }
        return;
    }
    if kept < before {
        forget_range(member, from.saturating_add(kept), before - kept);
    }
    // What the kernel makes longer belongs to the piece; what we have put behind it does not.
    let extends = kept > before && !fixed::are_ours();
    let mut grown = if extends { 0 } else { kept.saturating_sub(before) };
    recut(
        member,
        from,
        before.min(kept),
        |piece| to != from || (extends && piece.end() == from.saturating_add(before)),
        |piece| {
            let last = piece.end() == from.saturating_add(before);
            let more = if last && extends { kept - before } else { 0 };
            grown += more;
            Some(Piece { bytes: piece.bytes + more, ..moved(piece) })
        },
    );
    if grown > 0 {
        cover(to + before, grown);
    }
}

/// Makes addresses behind a segment's end unusable: the kernel answers a touch there with SIGBUS,
/// but in a pool the next segment begins.
fn cover(start: usize, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    if bytes > 0 {
        // SAFETY: the range was just mapped by mremap for the program, and nobody has used it yet.
        unsafe {
            let rights = libc::PROT_NONE as usize;
            system_call(libc::SYS_mmap, [start, bytes, rights, flags as usize, usize::MAX, 0])
        };
    }
}

/// mprotect(2): other rights for a part are another mapping.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(start: *mut c_void, bytes: size_t, rights: c_int) -> c_int {
    protect(
        start.addr(),
        bytes,
        rights,
        || next!(c"mprotect": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, rights), -1),
    )
}

/// pkey_mprotect(2): the same, and the key is the mapping's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pkey_mprotect(
    start: *mut c_void,
    bytes: size_t,
    rights: c_int,
    key: c_int,
) -> c_int {
    stays_with(start.addr(), bytes);
    protect(start.addr(), bytes, rights, || {
        next!(c"pkey_mprotect": fn(*mut c_void, size_t, c_int, c_int) -> c_int,
              (start, bytes, rights, key), -1)
    })
}

/// mprotect(2) and pkey_mprotect(2), by whatever call.
pub fn protect(from: usize, bytes: usize, rights: c_int, call: impl FnOnce() -> c_int) -> c_int {
    parked::drop_range(from, bytes);
    let member = attached_member();
    let length = bytes.next_multiple_of(PAGE);
    if member.is_some() && rights & libc::PROT_WRITE != 0 {
        let mut refused = false;
        attached::each(|piece| {
            let inside = piece.start < from.saturating_add(length) && piece.end() > from;
            refused |= inside && !piece.rights.writable;
        });
        if refused {
            errno::set(Errno::ACCESS);
            return -1;
        }
    }
    let result =
        if fixed::touches(from, length) { fixed::protect(from, length, rights) } else { call() };
    if result == 0 {
        user::forget();
        if let Some(member) = member {
            let now = rights as u32;
            errno::untouched(|| {
                recut(
                    member,
                    from,
                    length,
                    |piece| piece.rights.now != now,
                    |piece| Some(Piece { rights: Rights { now, ..piece.rights }, ..piece }),
                );
            });
        }
    }
    result
}

/// Whether a range lies in an attached segment whose pages are a device's: the kernel has nothing to
/// drop or to write back there, and refuses with EINVAL to do so.
fn is_device_memory(start: usize, bytes: usize) -> bool {
    let end = start.saturating_add(bytes.next_multiple_of(PAGE));
    let mut inside = false;
    if errno::get() == libc::EINVAL
        && start.is_multiple_of(PAGE)
        && process::joined().is_some_and(|session| session.link().is_device_memory())
    {
        attached::each(|piece| inside |= piece.start <= start && end <= piece.end());
    }
    inside
}

/// msync(2): memory has nothing to write back.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(start: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    parked::drop_range(start.addr(), bytes);
    let result =
        next!(c"msync": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, flags), -1);
    // Other flags are refused by everybody.
    let known = [libc::MS_SYNC, libc::MS_ASYNC, 0].contains(&(flags & !libc::MS_INVALIDATE));
    if result == -1 && known && is_device_memory(start.addr(), bytes) {
        return 0;
    }
    result
}

/// madvise(2): whether a child inherits a mapping decides whether it is counted for it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(start: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    advise(
        start.addr(),
        bytes,
        advice,
        || next!(c"madvise": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, advice), -1),
    )
}

/// madvise(2), by whatever call.
pub fn advise(start: usize, bytes: usize, advice: c_int, call: impl FnOnce() -> c_int) -> c_int {
    parked::drop_range(start, bytes);
    // The kernel could not bring such pages back, and its children have none of them anyhow.
    let left_alone = matches!(
        advice,
        libc::MADV_DONTNEED
            | libc::MADV_COLD
            | libc::MADV_PAGEOUT
            | libc::MADV_DONTFORK
            | libc::MADV_DOFORK
    );
    let result = if left_alone && start.is_multiple_of(PAGE) && fixed::holds(start, bytes) {
        0
    } else {
        call()
    };
    if result == -1 && advice == libc::MADV_DONTNEED && is_device_memory(start, bytes) {
        // Shared memory keeps what it holds: nothing to do.
        return 0;
    }
    let passing = [
        libc::MADV_DONTFORK,
        libc::MADV_DOFORK,
        libc::MADV_DONTNEED,
        libc::MADV_WILLNEED,
        libc::MADV_REMOVE,
        libc::MADV_COLD,
        libc::MADV_PAGEOUT,
        libc::MADV_POPULATE_READ,
        libc::MADV_POPULATE_WRITE,
    ];
    if result == 0 && !passing.contains(&advice) {
        stays_with(start, bytes);
    }
    let inherited = advice != libc::MADV_DONTFORK;
    if result == 0
        && matches!(advice, libc::MADV_DONTFORK | libc::MADV_DOFORK)
        && let Some(member) = attached_member()
    {
        let bytes = bytes.next_multiple_of(PAGE);
        errno::untouched(|| {
            recut(
                member,
                start,
                bytes,
                |piece| piece.rights.inherited != inherited,
                |piece| Some(Piece { rights: Rights { inherited, ..piece.rights }, ..piece }),
            );
        });
    }
    result
}

/// What a program has done to a range would stay with the mapping after a detach: if the range is an
/// attached segment's, mappings are unmapped from now on rather than kept.
fn stays_with(start: usize, bytes: usize) {
    parked::drop_range(start, bytes);
    let end = start.saturating_add(bytes);
    let mut inside = false;
    attached::each(|piece| inside |= piece.start < end && piece.end() > start);
    if inside {
        errno::untouched(parked::close);
    }
}

/// mlock(2): locks mappings, not pages.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(start: *const c_void, bytes: size_t) -> c_int {
    stays_with(start.addr(), bytes);
    next!(c"mlock": fn(*const c_void, size_t) -> c_int, (start, bytes), -1)
}

/// mlock2(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(start: *const c_void, bytes: size_t, flags: c_uint) -> c_int {
    stays_with(start.addr(), bytes);
    next!(c"mlock2": fn(*const c_void, size_t, c_uint) -> c_int, (start, bytes, flags), -1)
}

/// mlockall(2): would count what is kept.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    errno::untouched(parked::close);
    next!(c"mlockall": fn(c_int) -> c_int, (flags), -1)
}
