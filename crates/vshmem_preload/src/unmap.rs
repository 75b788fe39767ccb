//! munmap(2), mmap(2), mremap(2), mprotect(2), madvise(2) and msync(2) over attached segments: the
//! kernel counts mappings, and so do we.

use std::ptr::NonNull;

use libc::{c_int, c_void, off_t, size_t};
use vshmem_ipc::{Errno, Member};
use vshmem_link::Sleeping;

use crate::attached::{self, Piece, Rights};
use crate::next::next;
use crate::{errno, process, user};

const PAGE: usize = 4096;

/// Unmaps without telling anybody.
pub fn drop_mapping(start: usize, bytes: usize) {
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

/// What is to be done after any successful munmap, by name or by number.
pub fn unmapped(start: usize, bytes: usize) {
    user::forget();
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
    let result = next!(c"munmap": fn(*mut c_void, size_t) -> c_int, (start, bytes), -1);
    if result == 0 {
        unmapped(start.addr(), bytes);
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
    let result = next!(c"mmap":
        fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void,
        (start, bytes, rights, flags, file, offset), libc::MAP_FAILED);
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
    let result = next!(c"mremap":
        fn(*mut c_void, size_t, size_t, c_int, *mut c_void) -> *mut c_void,
        (start, bytes, new_bytes, flags, target), libc::MAP_FAILED);
    if result == libc::MAP_FAILED {
        return result;
    }
    user::forget();
    if let Some(member) = attached_member() {
        errno::untouched(|| {
            let (from, to) = (start.addr(), result.addr());
            let (before, kept) = (bytes.next_multiple_of(PAGE), new_bytes.next_multiple_of(PAGE));
            if kept < before {
                forget_range(member, from.saturating_add(kept), before - kept);
            }
            if to != from {
                // What lay at the target has gone.
                forget_range(member, to, kept);
                let moved = to.wrapping_sub(from);
                recut(
                    member,
                    from,
                    before.min(kept),
                    |_| true,
                    |piece| {
                        Some(Piece {
                            start: piece.start.wrapping_add(moved),
                            base: piece.base.wrapping_add(moved),
                            ..piece
                        })
                    },
                );
            }
        });
    }
    result
}

/// mprotect(2): other rights for a part are another mapping.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(start: *mut c_void, bytes: size_t, rights: c_int) -> c_int {
    let member = attached_member();
    let (from, length) = (start.addr(), bytes.next_multiple_of(PAGE));
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
        next!(c"mprotect": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, rights), -1);
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
        && process::joined().is_some_and(|session| session.link().sleeping() == Sleeping::InDomain)
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
    let result =
        next!(c"madvise": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, advice), -1);
    if result == -1 && advice == libc::MADV_DONTNEED && is_device_memory(start.addr(), bytes) {
        // Shared memory keeps what it holds: nothing to do.
        return 0;
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
                start.addr(),
                bytes,
                |piece| piece.rights.inherited != inherited,
                |piece| Some(Piece { rights: Rights { inherited, ..piece.rights }, ..piece }),
            );
        });
    }
    result
}
