//! What is full: ENOSPC, ENOMEM and ENFILE say no more than that something is.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::pool::open::Pool;
use crate::pool::superblock::Text;

impl Pool {
    /// The errno of a call that has met a limit, which is named on standard error if VSHMEM_LOG
    /// asks for it; without the heap. Once for one limit in a row: a program may call again and
    /// again.
    #[cold]
    pub(crate) fn full(&self, limit: &'static str, errno: Errno) -> Errno {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let this = limit.as_ptr().addr();
        if !self.logs || LAST.swap(this, Ordering::Relaxed) == this {
            return errno;
        }
        let name = Text(&self.superblock().name);
        // A pool's pages are what its size leaves, and no limit of its own.
        let (option, equals) =
            if limit == "pages" { ("--size", "SIZE") } else { ("--limit", "=NUMBER") };
        let value = if limit == "pages" { "" } else { limit };
        let mut line = arrayvec::ArrayString::<512>::new();
        // What does not fit is left out.
        let _ = writeln!(
            line,
            "vshmem: pool {name}: {limit} are used up ({errno}). `vshmem ls --limits --pool {name}` \
             shows what is used; `vshmem pool create NAME {option} {value}{equals}` makes a \
             pool with more"
        );
        let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
        errno
    }
}
