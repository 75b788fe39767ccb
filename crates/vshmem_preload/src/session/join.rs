//! This process's session, set up at the first call.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use vshmem_ipc::Errno;
use vshmem_session::{Session, SessionError};

use crate::attached::mapping_cache;
use crate::errno;
use crate::session::{agent, caller, cancel, fork};

static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
/// Whether children do not have the mappings of their parents.
static BARE_CHILDREN: AtomicBool = AtomicBool::new(false);
/// How far setting up is, or which thread is at it: one word, so that a signal handler of that thread recognises itself at every
/// moment.
static SETUP: AtomicUsize = AtomicUsize::new(FRESH);

const FRESH: usize = 0;
const READY: usize = 1;

/// A number above the constants that differs between the threads of a process, and that a thread keeps in a child.
fn this_thread() -> usize {
    // SAFETY: the address is only told apart from others.
    unsafe { libc::__errno_location() }.addr()
}

/// The session, if there is one already that can be used as it is. A child that has come about behind
/// our back has none while it has not its parent's mappings.
#[inline]
pub fn joined() -> Option<&'static Session> {
    inherited().filter(|_| !BARE_CHILDREN.load(Ordering::Relaxed) || !fork::is_unknown_child())
}

/// The session of this process, or of the one that it is a child of.
#[inline]
pub fn inherited() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: once published, a session is never freed or moved.
    unsafe { session.as_ref() }
}

/// The session, set up now if need be; in a child that has come about without our knowledge, made
/// its own.
#[inline]
pub fn session() -> Result<&'static Session, Errno> {
    if let Some(session) = inherited()
        && !fork::is_unknown_child()
    {
        return Ok(session);
    }
    let mut refusal = Errno::IO;
    make_session(&mut refusal).ok_or(refusal)
}

/// The refusal goes beside the session: a `Result` of both is returned in memory, and then the usual way takes the session from there as well.
#[cold]
#[inline(never)]
fn make_session(refusal: &mut Errno) -> Option<&'static Session> {
    let made = match inherited() {
        // Another thread was faster.
        Some(session) if !fork::is_unknown_child() => Ok(session),
        Some(session) => fork::adopt_unknown_child(session),
        None => errno::untouched(|| cancel::uncancelled(set_up)),
    };
    made.map_err(|errno| *refusal = errno).ok()
}

/// As [`session`], for calls that may take their time: about once a second they see to it that this
/// domain has an agent.
#[inline]
pub fn watchful_session() -> Result<&'static Session, Errno> {
    let session = session()?;
    agent::glance();
    Ok(session)
}

/// Pid of the process whose memory this is, as far as known: a vfork child runs in its parent's.
static HOME: AtomicU32 = AtomicU32::new(0);

/// Whether this is the process whose memory it runs in: a child of vfork runs in its parent's.
pub fn is_home() -> bool {
    HOME.load(Ordering::Relaxed) == own_pid()
}

fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// To be called when a process begins: at load, and in a child that `fork` has made.
pub fn begin() {
    // A thread that was setting up when another one forked is not there in the child.
    let setup = SETUP.load(Ordering::Acquire);
    if ![FRESH, READY, this_thread()].contains(&setup) {
        SETUP.store(FRESH, Ordering::Release);
    }
    HOME.store(own_pid(), Ordering::Relaxed);
}

/// Joins while it is still possible: after what the program is about to do (chroot, giving up its
/// rights) the pool may be out of reach. A program that has made no call yet would otherwise find
/// none to join at its first.
pub fn join_in_time() {
    if joined().is_none() && is_home() {
        // What stands in the way is told at the first call.
        let _ = errno::untouched(|| cancel::uncancelled(set_up));
    }
}

/// In the environment of a program that replaces one whose threads were in the middle of calls.
pub const REJOIN: &CStr = c"VSHMEM_REJOIN=1";

/// Joins at load if the program before this one left threads in lines: they are gone, and must not
/// be given anything any more. Joining takes them out.
pub fn rejoin() {
    // SAFETY: the name is a C string; other threads of the program do not run yet.
    let asked = unsafe {
        let asked = !libc::getenv(c"VSHMEM_REJOIN".as_ptr()).is_null();
        if asked {
            libc::unsetenv(c"VSHMEM_REJOIN".as_ptr());
        }
        asked
    };
    if asked {
        join_in_time();
    }
}

#[cold]
fn set_up() -> Result<&'static Session, Errno> {
    let me = this_thread();
    loop {
        match SETUP.compare_exchange(FRESH, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(READY) => {
                if let Some(session) = inherited() {
                    return Ok(session);
                }
            }
            // We come back to ourselves: from a signal handler, or something that we have called was
            // replaced by a function of the program's that makes System V calls itself.
            Err(setting_up) if setting_up == me => return Err(Errno::NOSYS),
            // Another thread sets up.
            Err(_) => {
                rustix::thread::sched_yield();
            }
        }
    }
    let opened = open().or_else(|error| {
        crate::session::descriptors::beyond_the_soft_limit(open).unwrap_or(Err(error))
    });
    match opened {
        Ok(session) => {
            fork::prepare_marks();
            BARE_CHILDREN.store(!session.link().is_inherited(), Ordering::Relaxed);
            SESSION.store(Box::into_raw(Box::new(session)), Ordering::Release);
            SETUP.store(READY, Ordering::Release);
            let session = inherited().ok_or(Errno::NOSYS)?;
            // Asked once, and now: a program may come to forbid itself to ask.
            let _ = (caller::Me::now(), mapping_cache::is_allowed(), vshmem_mem::Instant::now());
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
