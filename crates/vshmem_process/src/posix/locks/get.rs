//! F_GETLK and F_OFD_GETLK.

use std::time::Duration;

use libc::c_int;
use vshmem_ipc::{Errno, LAST_BYTE, LockMode, LockRange, LockRequest};
use vshmem_mem::sleep_shortly;

use super::claim::{self, Had};
use super::kernel::Kernel;
use super::set::was_probed;
use crate::errno;
use crate::session::current;

const PROBE: Duration = Duration::from_micros(200);
const MOST_PROBES: u32 = 250;

/// What keeps a lock from being granted; F_UNLCK: nothing. A holder in another domain has the
/// number 0, as a process that the kernel has no number for in this namespace.
pub(super) fn conflict(kernel: &Kernel, request: &LockRequest) -> Result<libc::flock, Errno> {
    let client = current::watchful_session()?.client();
    let mut probes_seen = 0;
    loop {
        let had = errno::untouched(|| claim::have(client, request))?;
        if let Had::Held(mode, range) = had {
            // A holder of this kernel has a number.
            let here = kernel.conflict(request.mode, request.range)?;
            let is_here = c_int::from(here.l_type) != libc::F_UNLCK;
            return Ok(if is_here && here.l_pid > 0 { here } else { elsewhere(mode, range) });
        }
        let probes = client.lock_probes()?;
        let here = kernel.conflict(request.mode, request.range);
        errno::untouched(|| claim::give_back(client, had));
        let here = here?;
        let is_free = c_int::from(here.l_type) == libc::F_UNLCK;
        if is_free || here.l_pid > 0 || probes_seen == MOST_PROBES || !was_probed(client, probes)? {
            return Ok(here);
        }
        probes_seen += 1;
        sleep_shortly(PROBE);
    }
}

fn elsewhere(mode: LockMode, range: LockRange) -> libc::flock {
    let kind = if mode == LockMode::Shared { libc::F_RDLCK } else { libc::F_WRLCK };
    let to_the_end = range.last == LAST_BYTE;
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: range.start as i64,
        l_len: if to_the_end { 0 } else { (range.last - range.start + 1) as i64 },
        l_pid: 0,
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
