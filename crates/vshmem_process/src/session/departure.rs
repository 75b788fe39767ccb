//! What a process does when its domain leaves the pool: the process that carries the leave out
//! sends it a signal, and all that it has mapped of the pool becomes private memory, in place.
//!
//! SIGURG: a process that does not expect it ignores it. A program may have a handler of its own
//! for it, or ignore it: the library has the signal first, and hands on what was not meant for it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;
use vshmem_mem::{Becomes, MappedFileId};
use vshmem_session::Session;

use crate::attached::attach_table::{self, Changing};
use crate::attached::pieces;
use crate::{errno, log, process};

/// By which a process learns that its domain has left the pool.
pub const NOTICE: c_int = libc::SIGURG;

/// The file or device that the pool is mapped of. Noted before the first part becomes private:
/// afterwards no mapping of the tables tells.
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// A thread is at it.
static IS_PARTING: AtomicBool = AtomicBool::new(false);

/// To be called when [`NOTICE`] has come. Whether it was about this.
pub fn is_noticed() -> bool {
    process::joined().is_some_and(|session| session.client().has_left())
}

/// Makes private what is mapped of the pool, unless another thread is at it. A thread that was
/// interrupted in shmat(2) may map something afterwards: the signal comes again.
pub extern "C" fn part(_: usize) {
    let Some(session) = process::joined() else { return };
    if !IS_PARTING.swap(true, Ordering::Acquire) {
        // A failure is seen by the sender of the signal: something is mapped still.
        errno::untouched(|| {
            let _ = make_private(session);
        });
        IS_PARTING.store(false, Ordering::Release);
    }
}

fn make_private(session: &Session) -> Result<(), vshmem_ipc::Errno> {
    let paused = attach_table::pause();
    let parted = {
        // With all signals blocked, and no other thread at the attaches.
        let _changing = Changing::begin();
        make_mappings_private(session)
    };
    attach_table::resume(&paused);
    parted
}

fn make_mappings_private(session: &Session) -> Result<(), vshmem_ipc::Errno> {
    let mut words = FILE.each_ref().map(|word| word.load(Ordering::Relaxed));
    let is_first = words[1] == 0;
    if is_first {
        let tables = session.client().pool().map().start().as_ptr().addr();
        words = MappedFileId::at(tables)?.to_words();
        for (word, value) in FILE.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
    }
    let unit = usize::try_from(session.link().capabilities().page_bytes).unwrap_or(1);
    let file = MappedFileId::of_words(words);
    // What nobody may access is of use only where the program has closed it itself.
    let becomes =
        |range: Range<usize>, is_open| match is_open || pieces::touches(range.start, range.len()) {
            true => Becomes::Private,
            false => Becomes::Nothing,
        };
    // SAFETY: the attach table is ours alone, and so all that maps or unmaps the pool waits. The
    // pool's tables say that this client makes no changes any more, and so does their copy.
    unsafe { vshmem_mem::make_private(file, unit, &becomes) }?;
    if is_first {
        log::line(
            "vshmem: this domain has left the pool: what was attached is private to this process \
             now, and calls give EIDRM\n",
        );
    }
    Ok(())
}
