//! The session that a call is answered from.

use vshmem_ipc::Errno;
use vshmem_session::Session;

use crate::session::{agent, cancel, child, join};
use crate::{errno, process};

/// The session, if there is one that is this process's own: for an attempt that leaves all else,
/// and what is to be said of it, to a call that asks for [`session`].
#[inline]
pub fn existing() -> Option<&'static Session> {
    process::inherited().filter(|_| !process::is_unknown_child())
}

/// The session, set up now if need be; in a child that has come about without our knowledge, made
/// its own.
#[inline]
pub fn session() -> Result<&'static Session, Errno> {
    if let Some(session) = existing() {
        return Ok(session);
    }
    let mut refusal = Errno::IO;
    make_session(&mut refusal).ok_or(refusal)
}

/// The refusal goes beside the session: a `Result` of both is returned in memory, and then the
/// usual way takes the session from there as well.
#[cold]
#[inline(never)]
fn make_session(refusal: &mut Errno) -> Option<&'static Session> {
    let made = match process::inherited() {
        // Another thread was faster.
        Some(session) if !process::is_unknown_child() => Ok(session),
        Some(session) => child::adopt(session),
        None => errno::untouched(|| cancel::uncancelled(join::set_up)),
    };
    made.map_err(|errno| *refusal = errno).ok()
}

/// As [`session`], for calls that may take their time: about once a second they see to it that this
/// domain has an agent.
#[inline]
pub fn watchful_session() -> Result<&'static Session, Errno> {
    let session = session()?;
    agent::ensure_once_a_second();
    Ok(session)
}
