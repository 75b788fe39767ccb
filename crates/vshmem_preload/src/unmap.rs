//! munmap(2), mmap(2) over and mremap(2) of attached segments: the kernel counts mappings, and so
//! do we.

use libc::{c_int, c_void, size_t};
use vshmem_ipc::Member;

use crate::attached::{self, Piece};
use crate::next::next;
use crate::{process, user};

/// Unmaps without telling anybody.
pub fn drop_mapping(start: usize, bytes: usize) {
    // SAFETY: the callers own the range.
    unsafe { libc::syscall(libc::SYS_munmap, start, bytes) };
}

/// Takes a range that is no longer mapped, or no longer a segment's, out of the books.
pub fn forget_range(member: &Member, start: usize, bytes: usize) {
    let end = start.saturating_add(bytes);
    while let Some(piece) = attached::take(|piece| piece.start < end && piece.end() > start) {
        let before = piece.start < start;
        let after = piece.end() > end;
        if before {
            attached::add(Piece { bytes: start - piece.start, ..piece });
        }
        if after {
            attached::add(Piece { start: end, bytes: piece.end() - end, ..piece });
        }
        // Failures have nobody to go to: the caller's range is gone whatever we say.
        let _ = match (before, after) {
            (false, false) => member.shmdt(piece.id),
            (true, true) => member.attach_again(piece.id),
            _ => Ok(()),
        };
    }
}

/// munmap(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, bytes: size_t) -> c_int {
    let result = next!(c"munmap": fn(*mut c_void, size_t) -> c_int, (start, bytes), -1);
    if result == 0
        && let Some(session) = process::joined()
    {
        user::forget();
        if !attached::is_empty() {
            let bytes = bytes.next_multiple_of(4096);
            crate::errno::untouched(|| forget_range(session.member(), start.addr(), bytes));
        }
    }
    result
}

/// mprotect(2): what is known about pages is forgotten.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(start: *mut c_void, bytes: size_t, rights: c_int) -> c_int {
    let result =
        next!(c"mprotect": fn(*mut c_void, size_t, c_int) -> c_int, (start, bytes, rights), -1);
    user::forget();
    result
}
