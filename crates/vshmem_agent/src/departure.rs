//! Carrying out that this domain leaves a pool: `vshmem pool leave` does it, and the agent when the
//! host has asked for it (`vshmem pool drain`).
//!
//! Step by step, each of which looks at where things stand: a process that carries it out may be
//! killed, and another one goes on. That a process has parted is what the kernel says of its
//! mappings, and nothing that a member could write.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use vshmem_ipc::{Client, LocalClient};
use vshmem_link::{MappedFile, proc_is_own, process_numbers, status_words};
use vshmem_session::Session;

/// How long processes are given between two steps.
pub const DEPARTURE_STEP: Duration = Duration::from_millis(50);

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// These have the pool mapped still.
    Waits(Vec<Holder>),
    /// Nobody of this domain has: what its clients had is given back.
    Done,
}

/// A process of this domain that has the pool mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its pid.
    pub pid: u32,
    /// Why it has not parted.
    pub why: &'static str,
}

/// What carries out a leave.
#[derive(Debug)]
pub struct Departure<'a> {
    this_client: &'a Client,
    pool: MappedFile,
    /// The clients are quarantined: doing that once more wakes all waiters of the pool again.
    has_departed: Cell<bool>,
}

impl<'a> Departure<'a> {
    /// To be carried out as a member of the domain.
    ///
    /// # Errors
    /// EOPNOTSUPP where /proc does not show the processes of this domain; what reading it gives.
    pub fn new(session: &'a Session) -> Result<Self, Errno> {
        if !proc_is_own() {
            return Err(Errno::OPNOTSUPP);
        }
        let this_client = session.client();
        let tables = this_client.pool().map().start().as_ptr().addr();
        let pool = MappedFile::at(tables)?;
        Ok(Self { this_client, pool, has_departed: Cell::new(false) })
    }

    /// Does what can be done now. To be called again soon while processes hold the pool.
    ///
    /// # Errors
    /// EIO when the pool is corrupt; EIDRM when another process carries this out by now.
    pub fn step(&self) -> Result<Progress, Errno> {
        if !self.this_client.has_left() {
            let told = self.this_client.to_be_told()?;
            let told = self.unparted(told, "it is told, and has not parted");
            if !told.is_empty() {
                return Ok(Progress::Waits(told));
            }
        }
        self.part()
    }

    /// The same, with those that were told and have not parted.
    ///
    /// # Errors
    /// As [`Departure::step`].
    pub fn part(&self) -> Result<Progress, Errno> {
        if !self.has_departed.get() {
            self.has_departed.set(self.this_client.depart()?);
        }
        let domain = self.this_client.domain();
        // First the clients, then what is mapped: one that comes meanwhile is not among them.
        let mut clients = self.this_client.pool().local_clients(domain)?;
        clients.retain(|client| client.index != self.this_client.client_slot());
        let holders = self.holders(&clients);
        if !holders.is_empty() {
            return Ok(Progress::Waits(holders));
        }
        for client in &clients {
            self.this_client.reap_local(client)?;
        }
        self.this_client.free_joining_slots(domain, &|pid| vshmem_session::is_gone(pid, 0))?;
        Ok(Progress::Done)
    }

    fn unparted(&self, pids: Vec<u32>, why: &'static str) -> Vec<Holder> {
        let holds = |pid: &u32| self.pool.mapped_by(*pid).unwrap_or(true);
        pids.into_iter().filter(holds).map(|pid| Holder { pid, why }).collect()
    }

    /// Those that have the pool mapped, after each was told to part.
    fn holders(&self, clients: &[LocalClient]) -> Vec<Holder> {
        let mut holders = Vec::new();
        for pid in pids_of_domain().filter(|pid| *pid != std::process::id()) {
            if self.pool.is_mapped_by(pid) {
                holders.push(Holder { pid, why: tell(pid) });
            }
        }
        // A client whose mappings may not be looked at.
        for client in clients {
            let is_hidden = client.pid != std::process::id()
                && self.pool.mapped_by(client.pid).is_none()
                && !vshmem_session::is_gone(client.pid, client.start);
            if is_hidden {
                let why = "it is another user's: only root sees what it has mapped";
                holders.push(Holder { pid: client.pid, why });
            }
        }
        holders
    }
}

/// Tells a process to part, and says what it is waited for.
fn tell(pid: u32) -> &'static str {
    if blocks(pid, Signal::SEGV) {
        return "a thread of it blocks SIGSEGV, so that its stores could not wait";
    }
    let handle = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let told = handle
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .map(|handle| pidfd_send_signal(&handle, Signal::URG));
    match told {
        Some(Err(Errno::PERM)) => "it is another user's",
        _ => "it has no handler of the library's for SIGURG, or blocks it in all threads",
    }
}

/// Whether a thread of a process blocks a signal. One that does it for the moment is asked again.
fn blocks(pid: u32, signal: Signal) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| last_word(&task.path(), "SigBlk:")).any(|word| {
        u64::from_str_radix(&word, 16).is_ok_and(|mask| mask >> (signal.as_raw() - 1) & 1 != 0)
    })
}

/// The last word behind a name in the `status` of a process or thread.
fn last_word(folder: &Path, name: &str) -> Option<String> {
    status_words(&std::fs::read(folder.join("status")).ok()?, name)?.pop()
}

/// The processes of this PID namespace: those of others below have a number there as well.
fn pids_of_domain() -> impl Iterator<Item = u32> {
    let is_own = |pid: &u32| {
        let innermost = last_word(Path::new(&format!("/proc/{pid}")), "NSpid:");
        innermost == Some(pid.to_string())
    };
    process_numbers().filter(is_own)
}
