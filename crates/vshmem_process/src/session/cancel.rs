//! pthread_cancel(3): msgsnd, msgrcv, pthread_cond_wait and sem_wait with their kin are
//! cancellation points, the other calls are none (pthreads(7)).
//!
//! A thread that is cancelled leaves its stack behind, wherever it is. In the middle of a call it
//! would leave a place in a wait queue behind, too, and take what comes there. So a cancellation
//! only ends the sleep, as a signal handler would, and acts when the call has cleaned up; the libc
//! calls that this library makes on its way do not notice it ([`uncancelled`]). A close is one of
//! these, and hides in the end of each descriptor that is owned.

use libc::c_int;
use vshmem_ipc::Errno;
use vshmem_mem::{Interruptions, cancellable};

unsafe extern "C" {
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Does something during which a cancellation must not act.
pub fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: both calls only change a flag of the calling thread; `before` is live.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    let result = work();
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    result
}

/// Acts on a cancellation that is pending, and so may not return.
#[inline]
pub fn exit_if_cancelled() {
    // SAFETY: glibc's unwinding takes the frames from here to the program's off the stack. None of
    // them has anything to clean up (this is called first thing in these calls, or when they have
    // cleaned up), and this library is built without landing pads (panic = "abort").
    unsafe { pthread_testcancel() };
}

/// Makes a call a cancellation point.
#[inline]
pub fn point<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        // In this order: a cancellation acts here, or ends the sleep.
        let before = Interruptions::now();
        exit_if_cancelled();
        match cancellable(before, &mut call) {
            // It may have been meant for another thread, or have been disabled.
            Err(Errno::INTR) if before.are_cancellations() => {}
            result => return result,
        }
    }
}
