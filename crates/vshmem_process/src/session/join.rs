//! Joining a pool: at the first call, or before the program does what would put the pool out of
//! reach.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use vshmem_ipc::{Errno, WaitPolicy};
use vshmem_session::{Posix, Session, SessionError};

use crate::attached::mapping_cache;
use crate::object_descriptors::inherited;
use crate::session::{agent, caller, cancel, handlers, home_namespace, route, soft_limits};
use crate::{errno, log, process};

/// How far setting up is, or which thread is at it: one word, so that a signal handler of that
/// thread recognises itself at every moment.
static SETUP: AtomicUsize = AtomicUsize::new(FRESH);

const FRESH: usize = 0;
const READY: usize = 1;

/// To be called when a process begins: at load, and in a child that `fork` has made.
pub fn begin() {
    // A thread that was setting up when another one forked is not there in the child.
    let setup = SETUP.load(Ordering::Acquire);
    if ![FRESH, READY, process::this_thread()].contains(&setup) {
        SETUP.store(FRESH, Ordering::Release);
    }
    process::record_own_memory();
}

/// Joins in advance: after what the program is about to do (chroot, giving up its rights) the pool
/// may be out of reach. A program that has made no call yet would otherwise find none to join at
/// its first.
pub fn join_in_time() {
    if process::joined().is_none() && process::owns_its_memory() {
        // What fails is reported at the first call.
        let _ = errno::untouched(|| cancel::uncancelled(set_up));
    }
}

/// In the environment of a program that replaces one whose threads were in the middle of calls.
pub const REJOIN: &CStr = c"VSHMEM_REJOIN=1";

/// Joins at load if the program before this one left threads in lines: they are gone, and must not
/// be given anything any more. Joining takes them out. And if descriptors are open that are
/// objects: the program may use them without any call that would join.
pub fn rejoin() {
    // SAFETY: the name is a C string; other threads of the program do not run yet.
    let asked = unsafe {
        let asked = !libc::getenv(c"VSHMEM_REJOIN".as_ptr()).is_null();
        if asked {
            libc::unsetenv(c"VSHMEM_REJOIN".as_ptr());
        }
        asked
    };
    if asked || has_descriptors() && errno::untouched(inherited::are_there) {
        join_in_time();
    }
}

/// Joins the pool at the first call that needs it; the session from then on.
///
/// # Errors
/// Why it cannot be joined.
#[cold]
pub fn set_up() -> Result<&'static Session, Errno> {
    let me = process::this_thread();
    loop {
        match SETUP.compare_exchange(FRESH, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(READY) => {
                if let Some(session) = process::inherited() {
                    return Ok(session);
                }
            }
            // We come back to ourselves: from a signal handler, or something that we have called
            // was replaced by a function of the program's that makes System V calls
            // itself.
            Err(setting_up) if setting_up == me => return Err(Errno::NOSYS),
            // Another thread sets up.
            Err(_) => {
                rustix::thread::sched_yield();
            }
        }
    }
    let opened = open().or_else(|error| soft_limits::beyond(&error, open).unwrap_or(Err(error)));
    match opened {
        Ok(session) => {
            process::prepare_mark();
            process::publish(session);
            if let Some(session) = process::inherited() {
                home_namespace::compare(session);
            }
            take_over_descriptors();
            SETUP.store(READY, Ordering::Release);
            let session = process::inherited().ok_or(Errno::NOSYS)?;
            // Asked once, and now: a program may come to forbid itself to ask.
            let _ = (
                caller::Credentials::now(),
                mapping_cache::is_allowed(),
                vshmem_mem::Instant::now(),
            );
            agent::watch(session);
            errno::untouched(handlers::watch_for_notice);
            Ok(session)
        }
        Err(error) => {
            log::line(&format!("vshmem: {error}\n"));
            SETUP.store(FRESH, Ordering::Release);
            Err(errno_of(&error))
        }
    }
}

/// Whether descriptors of this process may be objects of the pool.
fn has_descriptors() -> bool {
    route::posix_in_pool(Posix::SharedMemory) || route::posix_in_pool(Posix::Queue)
}

/// Descriptors that the program before this one, or a parent, has left open.
fn take_over_descriptors() {
    if has_descriptors()
        && let Some(session) = process::inherited()
    {
        inherited::take_over(session.client());
    }
}

fn open() -> Result<Session, SessionError> {
    let pool = std::env::var("VSHMEM_POOL").unwrap_or_default();
    let link = vshmem_session::find(&pool)?;
    Session::join_with(link, WaitPolicy::of_word(std::env::var_os("VSHMEM_SPIN").as_deref()))
}

/// What a call reports when there is no session to answer it.
fn errno_of(error: &SessionError) -> Errno {
    match error {
        SessionError::Join { error: vshmem_ipc::JoinError::Full { .. }, .. } => Errno::NOSPC,
        SessionError::Join { error: vshmem_ipc::JoinError::Evicted, .. } => Errno::IO,
        SessionError::Join { error: vshmem_ipc::JoinError::Left, .. } => Errno::IDRM,
        // The kernel has no such limit for most calls; all of them have this errno.
        error if soft_limits::is_for_addresses(error) => Errno::NOMEM,
        _ => Errno::NOSYS,
    }
}
