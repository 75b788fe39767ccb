//! recvmsg(2) and recvmmsg(2): descriptors that another process has sent may be objects.

use libc::{c_int, c_uint, c_void, mmsghdr, msghdr, ssize_t, timespec};

use vshmem_process::next::next;
use vshmem_process::posix::adopt;

/// recvmsg(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(
    socket: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    let result = next!(c"recvmsg": fn(c_int, *mut msghdr, c_int) -> ssize_t,
                       (socket, message, flags), -1);
    if result >= 0 {
        // SAFETY: the call has just filled it in.
        unsafe { adopt::received(message) };
    }
    result
}

/// recvmmsg(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    socket: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let result = next!(c"recvmmsg":
        fn(c_int, *mut mmsghdr, c_uint, c_int, *mut c_void) -> c_int,
        (socket, messages, count, flags, timeout.cast()), -1);
    for index in 0..usize::try_from(result).unwrap_or(0) {
        // SAFETY: the call has filled in so many.
        unsafe { adopt::received(&raw const (*messages.add(index)).msg_hdr) };
    }
    result
}
