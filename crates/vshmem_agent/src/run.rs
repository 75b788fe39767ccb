//! The agent's life: it locks, joins, makes its rounds until no client is left, or until the pool
//! is removed, and leaves.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vshmem_ipc::{JoinError, Lease};
use vshmem_link::measure_rates;
use vshmem_session::{Role, RoleLock, Session, SessionError};

use crate::cleaner;
use crate::detach::UP;
use crate::error::AgentError;
use crate::locks::LockAgent;
use crate::notify::Notifier;
use crate::stay::{AgentOptions, Stay};
use crate::watch::{Ending, Watch};

/// How often a permanent agent looks whether another agent has left, and how long it waits before
/// it joins again after its domain was evicted.
const LOOK: Duration = Duration::from_secs(1);

/// What has come of being the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// No client needs another agent.
    Done,
    /// A client joined while this agent left.
    Needed,
    /// The domain was evicted, or has left, and with it this agent.
    Evicted,
}

/// Is the agent for as long as is wanted. Does nothing if there is one already.
pub fn run_agent(wanted: &AgentOptions) -> Result<(), AgentError> {
    let path = &wanted.path;
    allow_many_descriptors();
    let cannot_lock = |error| AgentError::Lock { path: path.to_owned(), error };
    let permanent_lock = match wanted.stay {
        Stay::WhileInUse => None,
        Stay::WhileThePoolExists => {
            let taken = RoleLock::take(Role::PermanentAgent, path).map_err(cannot_lock)?;
            let Some(lock) = taken else { return Ok(()) };
            Some(lock)
        }
    };
    let mut was_evicted = false;
    loop {
        // Before the path is opened again: another user's file may lie there by now.
        if permanent_lock.as_ref().is_some_and(|lock| lock.is_orphaned(path)) {
            return Ok(());
        }
        if let Some(lock) = RoleLock::take(Role::Agent, path).map_err(cannot_lock)? {
            match run_once(wanted, lock) {
                // What a permanent agent was asked for has not ended with the domain.
                Ok(Outcome::Evicted) if permanent_lock.is_some() => was_evicted = true,
                // The death of the domain has not been confirmed yet.
                Err(error) if was_evicted && is_evicted(&error) => {}
                Ok(Outcome::Needed) => continue,
                ended => return ended.map(|_| ()),
            }
            std::thread::sleep(LOOK);
        } else if permanent_lock.is_some() {
            // A program's agent, which leaves some time after the last program.
            report_up();
            std::thread::sleep(LOOK);
        } else {
            return Ok(());
        }
    }
}

fn is_evicted(error: &AgentError) -> bool {
    let AgentError::Session(SessionError::Join { error, .. }) = error else { return false };
    matches!(error, JoinError::Evicted | JoinError::Left)
}

/// Is the agent once, with its lock.
fn run_once(wanted: &AgentOptions, lock: RoleLock) -> Result<Outcome, AgentError> {
    let session = Session::join(wanted.find()?)?;
    let pool = Arc::clone(session.client().pool());
    let domain = session.client().domain();
    let mut lease = Lease::default();
    let ending = watch(&session, &lock, &wanted.path, wanted.stay, &mut lease)?;
    if ending == Ending::Left {
        let _ = session.leave();
        return Ok(Outcome::Evicted);
    }
    if ending == Ending::Evicted {
        // What lies in our slots is not ours any more.
        return Ok(Outcome::Evicted);
    }
    if ending == Ending::Replaced {
        let _ = session.leave();
        return Ok(Outcome::Done);
    }
    let _ = session.client().renew_lease(0, &mut lease);
    let _ = session.leave();
    vshmem_link::remove_notice_marks(&pool.superblock().uuid, false);
    drop(lock);
    // A process that joined before the lock was released saw it held and has started no agent.
    let is_needed = pool.local_clients(domain).is_ok_and(|left| !left.is_empty());
    Ok(if is_needed && ending != Ending::Broken { Outcome::Needed } else { Outcome::Done })
}

/// From the first word in the pool to the last, but for the lease.
fn watch(
    session: &Session,
    lock: &RoleLock,
    path: &Path,
    stay: Stay,
    lease: &mut Lease,
) -> Result<Ending, AgentError> {
    let this_client = session.client();
    this_client.renew_lease(std::process::id(), lease).map_err(|_| AgentError::Corrupt)?;
    this_client.guard_waiters();
    let notifier = Notifier::start(session);
    report_up();
    note_rates(session);
    let is_ending = AtomicBool::new(false);
    let ending = std::thread::scope(|scope| {
        if let Some(notifier) = &notifier {
            scope.spawn(|| notifier.listen());
            scope.spawn(|| notifier.send());
        }
        let locks = scope.spawn(|| LockAgent::new(session, &is_ending).run());
        let wake = (this_client.pool().superblock().prepare > 0).then(|| {
            let (wake, wakeups) = cleaner::channel();
            scope.spawn(move || cleaner::clean_until_closed(session, &wakeups));
            wake
        });
        let ending = Watch::new(session, lock, path, stay, wake, notifier.as_ref()).run(lease);
        if let Some(notifier) = &notifier {
            notifier.end();
        }
        is_ending.store(true, Ordering::Release);
        // One that sleeps at its bell is woken.
        let _ = this_client.lock_ring();
        locks.thread().unpark();
        ending
    });
    // The words are about to be unmapped, so the kernel could not tell of this end.
    this_client.stop_guarding();
    if session.link().file().is_some() {
        let _ = this_client.pool().stop_heartbeat();
    }
    if let Some(notifier) = notifier
        && ![Ending::Evicted, Ending::Left].contains(&ending)
    {
        notifier.withdraw();
    }
    Ok(ending)
}

/// Tells the process in between, which is the last that hears from here.
fn report_up() {
    let _ = writeln!(std::io::stdout(), "{UP}");
    let _ = std::io::stdout().flush();
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

fn allow_many_descriptors() {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit { current: now.maximum, maximum: now.maximum };
    // Without, some clients are looked at once a second instead of being watched.
    let _ = setrlimit(Resource::Nofile, most);
}

/// Measures the pool's memory where that is a device's, once per boot, for lists of pools.
fn note_rates(session: &Session) {
    let this_client = session.client();
    let measured = this_client.pool().domains().is_ok_and(|rows| {
        rows.iter().any(|row| row.index == this_client.domain() && row.rates[0] != 0)
    });
    if session.link().file().is_some() || measured {
        return;
    }
    if let Ok(rates) = measure_rates(session.link()) {
        let _ = this_client.note_rates(rates.to_array());
    }
}
