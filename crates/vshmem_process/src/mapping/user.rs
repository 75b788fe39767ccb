//! The program's own memory: EFAULT instead of a crash.
//!
//! The kernel answers a bad pointer with EFAULT. Here a page is asked about once
//! (MADV_POPULATE_READ or _WRITE, which fault it in without changing it) and then remembered until
//! something is unmapped or protected.

use std::sync::atomic::{AtomicUsize, Ordering};

use vshmem_ipc::Errno;

use crate::attached::addresses::PAGE;
use crate::attached::pieces;
use crate::next::system_call;

/// Pages that are remembered; a power of two.
const REMEMBERED: usize = 512;
/// MADV_POPULATE_READ and MADV_POPULATE_WRITE (Linux 5.14).
const POPULATE_READ: libc::c_int = 22;
const POPULATE_WRITE: libc::c_int = 23;

/// The number of a page from bit 2 on, with bit 0 for "may be read" and bit 1 for "may be written";
/// above it the [`EPOCH`] that it was asked about in.
static PAGES: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];
/// Raised by [`ONE_EPOCH`] whenever mappings have changed: what was asked about before counts no
/// more.
static EPOCH: AtomicUsize = AtomicUsize::new(0);
/// Bits of the highest address that a program can have.
const ADDRESS_BITS: u32 = 57;
/// Above the number of any page: an address is shifted down by 10.
const ONE_EPOCH: usize = 1 << (ADDRESS_BITS - 10);

/// Forgets what is known: mappings have changed.
pub fn forget() {
    let before = EPOCH.fetch_add(ONE_EPOCH, Ordering::AcqRel);
    // Before an epoch comes back, nothing may be left of the one that had its number.
    if before.wrapping_add(ONE_EPOCH) == 0 {
        for page in &PAGES {
            page.store(0, Ordering::Relaxed);
        }
    }
}

/// What stands for a page that is known in an epoch, without its rights.
#[inline]
fn known_as(page: usize, epoch: usize) -> usize {
    epoch | (page & !(PAGE - 1)) >> 10
}

/// Whether a page is known to allow it.
#[inline]
fn is_known_in(page: usize, epoch: usize, write: bool) -> bool {
    let known = PAGES[(page / PAGE) % REMEMBERED].load(Ordering::Relaxed);
    let right = if write { 2 } else { 1 };
    let is_known = known & !3 == known_as(page, epoch) && known & right != 0;
    is_known && page >= PAGE && page >> ADDRESS_BITS == 0
}

/// Whether it is known of the page at an address that it may be read: no system call is made.
#[inline]
pub fn is_known(address: usize) -> bool {
    is_known_in(address, EPOCH.load(Ordering::Acquire), false)
}

/// Checks that `bytes` at `start` may be read, or written.
#[inline]
pub fn check(start: *const u8, bytes: usize, write: bool) -> Result<(), Errno> {
    let Some(last) = bytes.checked_sub(1) else { return Ok(()) };
    let last = start.addr().checked_add(last).ok_or(Errno::FAULT)?;
    let is_one_page = start.addr() / PAGE == last / PAGE;
    if is_one_page && is_known_in(start.addr(), EPOCH.load(Ordering::Acquire), write) {
        return Ok(());
    }
    check_pages(start.addr(), last, write)
}

/// The same, page by page, up to the one of `last`.
#[inline(never)]
fn check_pages(start: usize, last: usize, write: bool) -> Result<(), Errno> {
    let epoch = EPOCH.load(Ordering::Acquire);
    let mut page = start & !(PAGE - 1);
    while page <= last {
        if !is_known_in(page, epoch, write) {
            ask(page, epoch, write)?;
        }
        page = page.checked_add(PAGE).ok_or(Errno::FAULT)?;
    }
    Ok(())
}

#[cold]
fn ask(page: usize, epoch: usize, write: bool) -> Result<(), Errno> {
    let right = if write { POPULATE_WRITE } else { POPULATE_READ };
    let may = match populate(page, right) {
        0 => true,
        // Not permitted, or a mapping that cannot be asked: a device, an old kernel, a filter.
        libc::EINVAL | libc::EPERM | libc::EACCES | libc::ENOSYS => {
            pieces::rights_at(page).is_some_and(|rights| rights.allow(write)) || !asks()
        }
        _ => false,
    };
    if !may {
        return Err(Errno::FAULT);
    }
    let rights = if write { 3 } else { 1 };
    PAGES[(page / PAGE) % REMEMBERED].store(known_as(page, epoch) | rights, Ordering::Relaxed);
    Ok(())
}

/// Whether this kernel knows how to populate at all: asked of a page that is surely there.
fn asks() -> bool {
    populate((&raw const PAGES).addr() & !(PAGE - 1), POPULATE_READ) == 0
}

/// 0 or an errno.
fn populate(page: usize, advice: libc::c_int) -> i32 {
    loop {
        // SAFETY: faulting a page in changes nothing that a program could see; a bad address is an
        // error.
        let failed = unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            let result = system_call(libc::SYS_madvise, [page, PAGE, advice as usize]);
            let failed = if result == 0 { 0 } else { *errno };
            *errno = before;
            failed
        };
        if failed != libc::EINTR && failed != libc::EAGAIN {
            return failed;
        }
    }
}

/// Reads a value of the program's.
///
/// # Safety
/// Any bytes must be a `T`.
pub unsafe fn read<T: Copy>(from: *const T) -> Result<T, Errno> {
    check(from.cast(), size_of::<T>(), false)?;
    // SAFETY: the bytes were just found to be readable, and are a `T` by contract.
    Ok(unsafe { from.read_unaligned() })
}

/// Writes a value of the program's.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "looked at before it is written to")]
pub fn write<T: Copy>(to: *mut T, value: T) -> Result<(), Errno> {
    check(to.cast_const().cast(), size_of::<T>(), true)?;
    // SAFETY: the bytes were just found to be writable, and the program has passed the pointer for
    // a `T` to be stored.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_no_program_can_have_is_not_taken_for_a_page_that_is_known() {
        let byte = 0_u8;
        let known = &raw const byte;
        forget();
        assert_eq!(check(known, 1, true), Ok(()));
        for bit in ADDRESS_BITS..usize::BITS {
            assert_eq!(check(known.wrapping_add(1 << bit), 1, false), Err(Errno::FAULT), "{bit}");
        }
        assert_eq!(check(std::ptr::null(), 1, false), Err(Errno::FAULT));
        assert_eq!(check(known, usize::MAX, false), Err(Errno::FAULT));
        assert_eq!(check(std::ptr::null(), 0, false), Ok(()));
    }
}
