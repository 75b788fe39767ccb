//! The outermost layer: what a call returns to the program, and the line that VSHMEM_LOG asks for.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use vshmem_sync::Fault;

use crate::error::Failure;
use crate::pool::open::Pool;
use crate::pool::superblock::Text;
use crate::pool::tables::table_of;

/// What the program gets.
#[inline(always)]
pub(crate) fn answer<T, E: Into<Failure>>(pool: &Pool, result: Result<T, E>) -> Result<T, Errno> {
    result.map_err(|failure| match failure.into() {
        Failure::Errno(errno) => errno,
        Failure::Fault(fault) => errno_of(pool, fault),
    })
}

/// Out of line: calls hardly ever come here.
#[cold]
#[inline(never)]
fn errno_of(pool: &Pool, fault: Fault) -> Errno {
    match fault {
        Fault::TooLong => Errno::NOMEM,
        Fault::Refused(errno) => Errno::from_raw_os_error(errno),
        Fault::Corrupt { offset, what } => {
            log(pool, offset, what);
            Errno::IO
        }
        Fault::Misuse(what) => {
            log(pool, 0, what);
            Errno::IO
        }
        // Of its own will: then it is as if each object had been removed.
        Fault::Evicted if pool.own_domain_leaves() => Errno::IDRM,
        Fault::Evicted => Errno::IO,
    }
}

/// Names the damage on standard error, if VSHMEM_LOG asks for it; without the heap. Once for one
/// place in a row: a program may call again and again.
fn log(pool: &Pool, offset: u64, what: &str) {
    static LAST: AtomicU64 = AtomicU64::new(u64::MAX);
    if !pool.logs || LAST.swap(offset, Ordering::Relaxed) == offset {
        return;
    }
    let name = Text(&pool.superblock().name);
    let (table, row) = table_of(pool.layout(), offset);
    let mut line = arrayvec::ArrayString::<512>::new();
    // What does not fit is left out.
    let _ = writeln!(
        line,
        "vshmem: pool {name} is damaged: {what} (table {table}, row {row}, offset {offset:#x}). \
         `vshmem pool check {name}` says more"
    );
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}
