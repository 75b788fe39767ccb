//! What this library reports when VSHMEM_LOG asks for it.

/// Writes a line to standard error, if VSHMEM_LOG asks for it.
pub fn line(text: &str) {
    // SAFETY: the name is a C string; getenv only reads.
    let asked = unsafe { !libc::getenv(c"VSHMEM_LOG".as_ptr()).is_null() };
    if asked {
        // SAFETY: descriptor 2 is only borrowed for one write.
        let stderr = unsafe { std::os::fd::BorrowedFd::borrow_raw(2) };
        // A failure of that cannot be reported.
        let _ = rustix::io::write(stderr, text.as_bytes());
    }
}
