//! Work with a table of file descriptors of its own.
//!
//! A process loses its locks on a file (fcntl(2), "Advisory record locking") when it closes any
//! descriptor of that file. The kernel goes by the table of descriptors: what is opened and closed
//! in another one leaves the locks alone.

/// Does `work` in a thread with a copy of this process's descriptors. It must not return one that
/// it has opened: that means nothing elsewhere. Where the kernel refuses the copy, `work` is done
/// all the same.
pub fn with_own_descriptors<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let in_thread = || {
        // SAFETY: changes nothing but which table this thread's descriptors are in; all numbers
        // that are open stay so, and the thread ends with `work`.
        unsafe { libc::unshare(libc::CLONE_FILES) };
        work()
    };
    let done = std::thread::scope(|scope| scope.spawn(in_thread).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_closed_there_is_open_here() {
        let (kept, _other) = std::io::pipe().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&kept);
        // SAFETY: the number is that of an open descriptor, in a table that ends with the thread.
        let closed = with_own_descriptors(|| unsafe { libc::close(number) });
        assert_eq!(closed, 0);
        assert!(rustix::io::fcntl_getfd(&kept).is_ok());
    }
}
