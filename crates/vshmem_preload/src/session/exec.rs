//! execve(2) and its family: a program that is replaced detaches its segments and keeps its
//! adjustments.
//!
//! Attaches are given up before the kernel is asked, because no code is left to do it after;
//! if exec fails, they are taken again. A program that certainly cannot be executed is not
//! tried. What must not go as long as exec may fail is left alone: all attaches while other threads
//! run, which may store into them; and those that keep a removed segment, whose memory would be
//! another's at once. The new program finds the attaches of the one before it, and gives them
//! up when it begins.

use libc::{c_char, c_int};
use vshmem_mem::unless_confined;

use crate::attached::addresses::drop_mapping;
use crate::attached::pieces;
use crate::next::system_call;
use crate::object_descriptors::open;
use crate::session::exit;
use crate::{errno, process};

/// Runs an exec with nothing attached.
pub fn detached(path: Option<*const c_char>, exec: impl FnOnce() -> c_int) -> c_int {
    let Some(session) = process::joined() else { return exec() };
    let this_client = session.client();
    // A vfork child works in its parent's memory; what it holds is its parent's.
    let mine = exit::ending().is_some();
    // The kernel reads the path: the pointer may be anything.
    let may_execute = |path: *const c_char| {
        let words =
            [libc::AT_FDCWD as usize, path.addr(), libc::X_OK as usize, libc::AT_EACCESS as usize];
        // SAFETY: the call reads a path, and fails where there is none.
        unsafe { system_call(libc::SYS_faccessat2, words) == 0 || errno::get() == libc::ENOSYS }
    };
    let executable = unless_confined(|| path.is_none_or(may_execute)).unwrap_or(true);
    if !mine || !executable || pieces::is_empty() || !exit::is_alone() {
        return exec();
    }
    let suspended = errno::untouched(|| this_client.suspend_attaches());
    let result = exec();
    if let Ok(suspended) = suspended {
        errno::untouched(|| this_client.resume_attaches(suspended, close_segment));
    }
    result
}

/// A segment has gone while exec was tried: its memory is no longer to be touched.
fn close_segment(id: i32) {
    while let Some(piece) = pieces::take(|piece| piece.id == id) {
        drop_mapping(piece.start, piece.bytes);
    }
}

/// Whether attaches, or open objects, are left to the new program.
pub fn leaves_attaches() -> bool {
    exit::ending().is_some_and(|this_client| {
        let keeps = || this_client.keeps_removed_segments() || !exit::is_alone();
        !open::is_empty() || !pieces::is_empty() && keeps()
    })
}
