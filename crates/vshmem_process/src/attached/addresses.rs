//! Addresses that this library takes and gives back itself.

use std::ptr::NonNull;

use libc::c_int;
use vshmem_ipc::Errno;

use crate::attached::pieces;
use crate::next::system_call;
use crate::process;

/// Mappings begin and end at multiples of it.
pub const PAGE: usize = 4096;

/// Unmaps a range of the pool without a notice, with what the device had to map around it. Where a
/// piece lies in that, too, it stays mapped, and goes with the last piece.
pub fn drop_mapping(start: usize, bytes: usize) {
    let own = start..start.saturating_add(bytes);
    let range = match process::joined() {
        Some(session) => {
            let units = session.link().capabilities().footprint(start, bytes);
            if units == own { own } else { pieces::units_alone(session, own, units) }
        }
        None => own,
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

/// Maps addresses without any access; with MAP_FIXED, in place of what is there.
pub fn no_access(at: usize, bytes: usize, flags: c_int) -> Result<usize, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    let none = libc::PROT_NONE as usize;
    // SAFETY: with MAP_FIXED the callers own the range, or the program has asked for what lies
    // there to be replaced; elsewhere the kernel chooses a free range.
    let got =
        unsafe { system_call(libc::SYS_mmap, [at, bytes, none, flags as usize, usize::MAX, 0]) };
    usize::try_from(got).map_err(|_| Errno::NOMEM)
}
