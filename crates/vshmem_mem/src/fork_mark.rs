//! Whether this process has made something itself, or is a child of the one that has: known without
//! a system call, and whatever the child's pid, which may be its parent's in another PID namespace.
//! A child that went on as its parent's client would write its parent's intent record.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::mapping::Mapping;

/// A page of zeros, which a child finds so again.
///
/// # Errors
/// What madvise(2) says: EINVAL before Linux 4.14.
pub fn wiped_on_fork() -> Result<Mapping, Errno> {
    const BYTES: usize = 4096;
    let page = Mapping::anonymous(BYTES)?;
    // SAFETY: the page is ours, and holds nothing yet.
    unsafe { madvise(page.start().as_ptr().cast(), BYTES, Advice::LinuxWipeOnFork)? };
    Ok(page)
}

/// A page that a child finds empty.
#[derive(Debug)]
pub struct ForkMark {
    page: Mapping,
}

impl ForkMark {
    /// Of this process.
    ///
    /// # Errors
    /// As for [`wiped_on_fork`].
    pub fn new() -> Result<Self, Errno> {
        let mark = Self { page: wiped_on_fork()? };
        mark.claim();
        Ok(mark)
    }

    /// It is this process's from now on.
    pub fn claim(&self) {
        self.word().store(1, Ordering::Relaxed);
    }

    /// Whether it was made in this process.
    #[inline]
    #[must_use]
    pub fn is_of_this_process(&self) -> bool {
        self.word().load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is aligned, stays mapped as long as this does, and is used as this word
        // alone.
        unsafe { self.page.start().cast::<AtomicU32>().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it forks")]
    fn a_child_has_not_opened_what_its_parent_has() {
        let mark = ForkMark::new().unwrap();
        assert!(mark.is_of_this_process());
        // SAFETY: the child reads one word and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it ends without anything of its parent's.
            unsafe { libc::_exit(i32::from(mark.is_of_this_process())) };
        }
        let mut status = -1;
        // SAFETY: the status is a word of this function.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        assert!(mark.is_of_this_process());
    }
}
