//! Seeing to it that this domain has an agent.
//!
//! The agent notices deaths. `vshmem run` starts it. A process that finds none starts one, as long
//! as it has the root, namespaces and user with which it began (see
//! [`vshmem_agent::AgentStarter`]) and has not confined itself.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use vshmem_agent::AgentStarter;
use vshmem_session::Session;

use crate::session::cancel;
use crate::{errno, process};

/// How to start an agent, if `VSHMEM_COMMAND` tells. Made before it is needed: a program may clear
/// its environment, and a waiter must not use the heap.
static STARTER: OnceLock<AgentStarter> = OnceLock::new();

/// Starts an agent if there is none, and has this process's waiters look again now and then.
pub fn watch(session: &Session) {
    let Some(command) = std::env::var_os("VSHMEM_COMMAND") else { return };
    if let Some(starter) = AgentStarter::open(Path::new(&command), session.link().path()) {
        STARTER.get_or_init(|| starter);
        session.client().set_watchdog(watchdog);
        ensure(session);
    }
}

/// Sees to it that there is an agent, if that was not done within this second.
#[inline(never)]
pub fn ensure_once_a_second() {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let now = vshmem_mem::seconds_now();
    if LAST.load(Ordering::Relaxed) != now && LAST.swap(now, Ordering::Relaxed) != now {
        watchdog();
    }
}

fn watchdog() {
    if let Some(session) = process::joined() {
        errno::untouched(|| cancel::uncancelled(|| ensure(session)));
    }
}

/// Starts an agent if there is none. One that runs already makes it end at once.
pub fn ensure(session: &Session) {
    if let Some(starter) = STARTER.get() {
        vshmem_mem::unless_confined(|| starter.ensure(session, false));
    }
}
