//! `vshmem run --one-host`: programs that ask whether a peer is on their host, and alive, are told
//! that the members of a pool are.
//!
//! `identity` has what programs compare of two hosts; `pids` gives each process of a member a
//! number of its own; `paths` has both as files in /proc. Wherever this is not asked for, a call
//! pays a load, and most libraries do not have the calls.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process;
use crate::session::{join, load};

pub mod identity;
pub mod paths;
pub mod pids;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

const UNKNOWN: u32 = 0;
const OFF: u32 = 1;
const ON: u32 = 2;

/// Whether it was asked for.
#[inline]
pub fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        ON => true,
        OFF => false,
        _ => find_out(),
    }
}

/// Libraries that the program needs are set up before this one, and may ask then (UCX does).
#[cold]
fn find_out() -> bool {
    // SAFETY: the name is a C string, and so is what libc finds; at load nobody changes it.
    let is_asked = unsafe {
        let word = libc::getenv(c"VSHMEM_ONE_HOST".as_ptr());
        !word.is_null() && CStr::from_ptr(word) == c"1"
    };
    STATE.store(if is_asked { ON } else { OFF }, Ordering::Relaxed);
    if is_asked {
        load::begin();
        join();
    }
    is_asked
}

/// Joins the pool where it is asked for: the number of a process begins with its domain's, and must
/// not change while it runs. At load.
pub(crate) fn begin() {
    let _ = is_on();
}

fn join() {
    join::join_in_time();
    if let Some(session) = process::joined() {
        session.client().show_wide_pids();
    }
}
