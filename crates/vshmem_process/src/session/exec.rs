//! execve(2) and its family: a program that is replaced detaches its segments and keeps its
//! adjustments.
//!
//! Attaches are given up before the kernel is asked, because no code is left to do it after;
//! if exec fails, they are taken again. A program that certainly cannot be executed is not
//! tried. What must not go as long as exec may fail is left alone: all attaches while other threads
//! run, which may store into them; and those that keep a removed segment, whose memory would be
//! another's at once. The new program finds the attaches of the one before it, and gives them
//! up when it begins.
//!
//! A signal handler may run between the two, and store into what is attached. So what was given up
//! is taken again before one is entered, and given up again when it returns. One that is left by
//! siglongjmp leaves the exec, too.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_char, c_int};
use vshmem_ipc::{Client, Suspended};
use vshmem_mem::{signal_mask, unless_confined};

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
    if !mine || !executable || pieces::is_empty() {
        return exec();
    }
    let place = Cell::new(None);
    errno::untouched(|| signal_mask::uninterrupted(|| give_up(this_client, &place)));
    let result = exec();
    take_again((&raw const place).addr());
    result
}

/// Where what this process has given up for an exec is noted; null while it has not. Of its only
/// thread: another that a handler has made, or a vfork child, finds nothing here.
static GIVEN_UP: AtomicPtr<Cell<Option<Suspended>>> = AtomicPtr::new(std::ptr::null_mut());

/// The address of that note, for a handler.
pub fn given_up() -> usize {
    GIVEN_UP.load(Ordering::Relaxed).expose_provenance()
}

/// With all signals blocked: no handler makes a thread after it was found that there is one only.
fn give_up(this_client: &Client, place: &Cell<Option<Suspended>>) {
    if exit::is_alone()
        && let Ok(suspended) = this_client.suspend_attaches()
    {
        place.set(Some(suspended));
        GIVEN_UP.store(std::ptr::from_ref(place).cast_mut(), Ordering::Release);
    }
}

/// Takes again what is noted there, if that is not done.
pub extern "C" fn take_again(place: usize) {
    let take = || {
        let noted = std::ptr::with_exposed_provenance_mut(place);
        // One thread takes it.
        let taken = GIVEN_UP.compare_exchange(
            noted,
            std::ptr::null_mut(),
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        let noted = taken.ok().and_then(NonNull::new);
        if let (Some(noted), Some(session)) = (noted, process::joined()) {
            // SAFETY: the note lies in a frame of `detached` of this thread, which has not
            // returned: it takes the address away before it does, and a handler before the program
            // can leave the frame.
            if let Some(suspended) = unsafe { noted.as_ref() }.take() {
                session.client().resume_attaches(suspended, close_segment);
            }
        }
    };
    errno::untouched(|| signal_mask::uninterrupted(take));
}

/// For a handler that has taken again what was given up, and returns to the exec.
pub extern "C" fn give_up_again(place: usize) {
    let give = || {
        // The handler may have done to the process what it likes.
        if let Some(this_client) = exit::ending() {
            // SAFETY: the handler returns to a frame inside of `detached`, in which the note lies.
            give_up(this_client, unsafe { &*std::ptr::with_exposed_provenance(place) });
        }
    };
    errno::untouched(|| signal_mask::uninterrupted(give));
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
