//! Descriptors of objects that this process has not opened itself: received from another process,
//! opened by way of /proc, or inherited through an exec.

use libc::{c_int, cmsghdr, msghdr};
use vshmem_session::Posix;

use crate::attached::attach_table::Attaching;
use crate::object_descriptors::{Descriptor, open};
use crate::session::{join, route};
use crate::{errno, process};

/// Whether descriptors may come that are objects.
pub fn is_expected() -> bool {
    route::posix_in_pool(Posix::SharedMemory) || route::posix_in_pool(Posix::Queue)
}

/// Takes a descriptor that has come from elsewhere into the table, if it is an object.
#[cold]
pub fn adopt(file: c_int) -> Option<Descriptor> {
    if !process::owns_its_memory() {
        return None;
    }
    join::join_in_time();
    errno::untouched(|| {
        let _changing = Attaching::begin();
        open::take_in(file)
    })
}

/// Whether a call has failed with `failure` because its descriptor may be an object that has come
/// by a way that is not followed; then it is one that is known from here on.
pub fn after_failure(file: c_int, failure: c_int) -> Option<Descriptor> {
    let is_worth_a_look = file >= 0 && errno::get() == failure && is_expected();
    is_worth_a_look.then(|| adopt(file)).flatten()
}

/// Looks at what recvmsg(2) has received.
///
/// # Safety
/// `message` was filled in by the kernel.
pub unsafe fn received(message: *const msghdr) {
    if message.is_null() || !is_expected() {
        return;
    }
    // SAFETY: by this function's own contract, here and below.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the header lies in what the kernel has written.
        unsafe {
            each_descriptor(header);
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// # Safety
/// A whole header with its data lies there.
unsafe fn each_descriptor(header: *const cmsghdr) {
    // SAFETY: by this function's own contract.
    let (level, kind, length) =
        unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
        return;
    }
    // SAFETY: the length says how much data is behind the header.
    unsafe {
        let data = libc::CMSG_DATA(header);
        let bytes = length.saturating_sub(data.offset_from(header.cast()) as usize);
        for index in 0..bytes / size_of::<c_int>() {
            adopt(data.cast::<c_int>().add(index).read_unaligned());
        }
    }
}
