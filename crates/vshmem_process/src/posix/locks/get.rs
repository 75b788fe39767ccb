//! F_GETLK and F_OFD_GETLK.

use libc::c_int;
use vshmem_ipc::{Errno, LockRequest};

use super::claim::{self, Had};
use super::kernel::Kernel;
use super::set::Probes;
use crate::errno;
use crate::session::current;

/// What keeps a lock from being granted; F_UNLCK: nothing. A holder in another domain has the
/// number 0, as a process that the kernel has no number for in this namespace.
pub(super) fn conflict(kernel: &Kernel, request: &LockRequest) -> Result<libc::flock, Errno> {
    let client = current::watchful_session()?.client();
    let mut probes = Probes::default();
    loop {
        let had = errno::untouched(|| claim::have(client, request))?;
        if let Had::Held(mode, range) = had {
            // A holder of this kernel has a number.
            let here = kernel.conflict(request.mode, request.range)?;
            let is_here = c_int::from(here.l_type) != libc::F_UNLCK;
            return Ok(if is_here && here.l_pid > 0 {
                here
            } else {
                Kernel::about(Some(mode), range)
            });
        }
        probes.look(client)?;
        let here = kernel.conflict(request.mode, request.range);
        errno::untouched(|| claim::give_back(client, had));
        let here = here?;
        let is_free = c_int::from(here.l_type) == libc::F_UNLCK;
        if is_free || here.l_pid > 0 || !probes.are_waited_for(client)? {
            return Ok(here);
        }
    }
}

/// Writes an answer as the kernel does: all of it where there is a conflict, else only that there
/// is none.
///
/// # Safety
/// `into` may be written.
pub(super) unsafe fn fill(found: libc::flock, into: *mut libc::flock) {
    // SAFETY: by this function's own contract.
    unsafe {
        if c_int::from(found.l_type) == libc::F_UNLCK {
            (*into).l_type = found.l_type;
        } else {
            *into = found;
        }
    }
}
