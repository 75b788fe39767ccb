//! This process's session, set up at the first call.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use vshmem_ipc::Errno;
use vshmem_session::{Session, SessionError};

use crate::{agent, errno, fork};

static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
static SETUP: AtomicU32 = AtomicU32::new(FRESH);

const FRESH: u32 = 0;
const UNDER_WAY: u32 = 1;
const READY: u32 = 2;
const FAILED: u32 = 3;

/// The session, if there is one already.
#[inline]
pub fn joined() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: once published, a session is never freed or moved.
    unsafe { session.as_ref() }
}

/// The session, set up now if need be; in a child that has come about without our knowledge, made
/// its own.
#[inline]
pub fn session() -> Result<&'static Session, Errno> {
    match joined() {
        Some(session) if !fork::is_unknown_child() => Ok(session),
        Some(session) => fork::adopt_unknown_child(session),
        None => errno::untouched(set_up),
    }
}

/// As [`session`], for calls that may take their time: about once a second they see to it that this
/// domain has an agent.
pub fn watchful_session() -> Result<&'static Session, Errno> {
    let session = session()?;
    agent::glance();
    Ok(session)
}

/// Pid of the process whose memory this is, as far as known: a vfork child runs in its parent's.
static HOME: AtomicU32 = AtomicU32::new(0);

fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// To be called when a process begins: at load, and in a child that `fork` has made.
pub fn begin() {
    HOME.store(own_pid(), Ordering::Relaxed);
}

/// Joins while it is still possible: after what the program is about to do (chroot, giving up its
/// rights) the pool may be out of reach. A program that has made no call yet would otherwise find
/// none to join at its first.
pub fn join_in_time() {
    if joined().is_none() && HOME.load(Ordering::Relaxed) == own_pid() {
        // What stands in the way is told at the first call.
        let _ = errno::untouched(set_up);
    }
}

#[cold]
fn set_up() -> Result<&'static Session, Errno> {
    loop {
        match SETUP.compare_exchange(FRESH, UNDER_WAY, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(READY) => {
                if let Some(session) = joined() {
                    return Ok(session);
                }
            }
            Err(FAILED) => return Err(Errno::NOSYS),
            // Another thread sets up.
            Err(_) => {
                rustix::thread::sched_yield();
            }
        }
    }
    match open() {
        Ok(session) => {
            fork::prepare_marks();
            SESSION.store(Box::into_raw(Box::new(session)), Ordering::Release);
            SETUP.store(READY, Ordering::Release);
            let session = joined().ok_or(Errno::NOSYS)?;
            agent::watch(session);
            Ok(session)
        }
        Err(error) => {
            log(&format!("vshmem: {error}\n"));
            SETUP.store(FRESH, Ordering::Release);
            Err(errno_of(&error))
        }
    }
}

fn open() -> Result<Session, SessionError> {
    let place = std::env::var("VSHMEM_POOL").unwrap_or_default();
    let link = vshmem_session::find(&place)?;
    Session::join(link)
}

/// What a call reports when there is no session to answer it.
fn errno_of(error: &SessionError) -> Errno {
    match error {
        SessionError::Join { error: vshmem_ipc::JoinError::Full { .. }, .. } => Errno::NOSPC,
        SessionError::Join { error: vshmem_ipc::JoinError::Evicted, .. } => Errno::IO,
        _ => Errno::NOSYS,
    }
}

/// Writes a line to standard error, if VSHMEM_LOG asks for it.
pub fn log(line: &str) {
    // SAFETY: the name is a C string; getenv only reads.
    let asked = unsafe { !libc::getenv(c"VSHMEM_LOG".as_ptr()).is_null() };
    if asked {
        // SAFETY: descriptor 2 is only borrowed for one write.
        let stderr = unsafe { std::os::fd::BorrowedFd::borrow_raw(2) };
        // Nobody to tell if that fails.
        let _ = rustix::io::write(stderr, line.as_bytes());
    }
}
