//! What can go wrong, in words that say what was tried, what came back and what to do.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::Missing;
use crate::model::names::domain;

/// The result of a lab operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a lab operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine lacks something that the lab needs.
    #[error("this machine cannot run the lab:{}", list(.0))]
    Missing(Vec<Missing>),
    /// A lab of that name is up.
    #[error(
        "lab {name}: it is up already (keeper pid {keeper}). `vshmem lab --name {name} down` takes it down; or give the new one another --name"
    )]
    AlreadyUp {
        /// The lab's name.
        name: String,
        /// The pid of its keeper.
        keeper: i32,
    },
    /// Another release has made the lab, and written down about it what this one does not
    /// understand.
    #[error("lab {name}: {found}: another release of this command has made it. {remedy}")]
    OtherRelease {
        /// The lab's name.
        name: String,
        /// What is not understood.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// There is no lab of that name.
    #[error(
        "lab {name}: it is not up ({found}). `vshmem lab ls` shows those that are; `vshmem lab --name {name} up --guest uml` boots it"
    )]
    NotUp {
        /// The lab's name.
        name: String,
        /// What was found instead.
        found: String,
    },
    /// The lab's keeper is there and does not answer.
    #[error("lab {name}: its keeper (pid {keeper}) does not answer within {seconds} s; {remedy}")]
    Silent {
        /// The lab's name.
        name: String,
        /// The pid of its keeper.
        keeper: i32,
        /// How long it was waited for.
        seconds: u64,
        /// What to do.
        remedy: String,
    },
    /// An argument cannot be used.
    #[error("{what} cannot be {value:?}: {rule}")]
    Argument {
        /// Which argument.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// The lab has fewer guests than that.
    #[error(
        "lab {name}: it has no guest {guest}; its guests are 1 to {count}. `vshmem lab --name {name} ls` shows them"
    )]
    NoSuchGuest {
        /// The lab's name.
        name: String,
        /// The number asked for.
        guest: u32,
        /// How many there are.
        count: u32,
    },
    /// Something about one guest.
    #[error(transparent)]
    Guest(#[from] GuestFault),
    /// The pool file is out of reach of the guests.
    #[error(
        "user {uid}, as whom guest{guest} runs, cannot open the pool {path:?} for reading and writing ({found}); give it \
         a directory that others may enter, and mode 0666 or a file system with access control lists (tmpfs has them)"
    )]
    PoolClosed {
        /// The pool's file.
        path: PathBuf,
        /// The guest.
        guest: u32,
        /// The guest's user on the host.
        uid: u32,
        /// Owner, mode and what was tried.
        found: String,
    },
    /// A file cannot be read by the guest's user.
    #[error(
        "user {uid}, as whom the guest runs, cannot read {path:?}: let others enter each directory above it, or choose \
         another runtime directory (VSHMEM_LAB_DIR)"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The guest's user on the host.
        uid: u32,
    },
    /// The keeper did not come up, or broke off.
    #[error("the lab's keeper {what}{}", ending(.log))]
    Keeper {
        /// What happened.
        what: String,
        /// The tail of its log.
        log: String,
    },
    /// The guest's agent refused a request.
    #[error("{name} refused to run the command: {why}", name = domain(*guest))]
    Refused {
        /// The guest.
        guest: u32,
        /// Its reason.
        why: String,
    },
    /// Processes of a lab are still there after being killed.
    #[error(
        "{count} processes of lab {name:?} are still there {seconds} s after SIGKILL (first: pid {first}); try `vshmem lab --name {name} down` again"
    )]
    Lingering {
        /// The lab's name.
        name: String,
        /// How many.
        count: usize,
        /// One of them.
        first: i32,
        /// How long was waited.
        seconds: u64,
    },
    /// A host tool failed.
    #[error("`{command}` failed ({status}): {output}")]
    Tool {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote.
        output: String,
    },
    /// An operating-system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// What came back.
        source: io::Error,
    },
}

/// A fault of one guest; it travels between the keeper and its clients.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum GuestFault {
    /// The guest is dead: its PID namespace is empty.
    #[error("{name} is dead ({how}); boot it again with `vshmem lab --name {lab} restart {name}`", name = domain(*guest))]
    Dead {
        /// The lab's name.
        lab: String,
        /// The guest.
        guest: u32,
        /// What ended it.
        how: String,
    },
    /// The guest's agent does not answer, and the guest is not known to be dead.
    #[error(
        "{name}'s agent does not answer ({why}), and {name} is not known to be dead; is it paused, or (User Mode Linux, Xen) its network interface down?",
        name = domain(*guest)
    )]
    Unreachable {
        /// The guest.
        guest: u32,
        /// What came back.
        why: String,
    },
    /// The guest is neither running nor dead.
    #[error("{name} is {state}: {rule}", name = domain(*guest))]
    Busy {
        /// The guest.
        guest: u32,
        /// Its state.
        state: String,
        /// What is needed.
        rule: String,
    },
    /// The guest did not boot.
    #[error("{name} did not boot: {why}; the end of its console:\n{console}", name = domain(*guest))]
    BootFailed {
        /// The guest.
        guest: u32,
        /// What was waited for.
        why: String,
        /// The tail of its console.
        console: String,
    },
    /// The keeper could not do it.
    #[error("the lab's keeper answers: {0}")]
    Keeper(String),
}

impl From<Error> for GuestFault {
    fn from(error: Error) -> Self {
        match error {
            Error::Guest(fault) => fault,
            other => GuestFault::Keeper(other.to_string()),
        }
    }
}

/// Names the action that an operating-system error belongs to.
pub(crate) trait Doing<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { action: action(), source: source.into() })
    }
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(|one| format!("\n  - {one}")).collect()
}

fn ending(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; its log ends with:\n{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_boots_a_dead_guest_again_names_its_lab() {
        let fault = GuestFault::Dead { lab: "jobs".to_owned(), guest: 2, how: "killed".to_owned() };
        let sentence = fault.to_string();
        assert!(sentence.contains("`vshmem lab --name jobs restart guest2`"), "{sentence}");
    }
}
