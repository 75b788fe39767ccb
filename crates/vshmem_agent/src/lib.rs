//! A domain's agent for one pool, and how one is started.
//!
//! The agent notices the deaths of its domain's clients, renews the domain's lease, and is the
//! other half of waking: where a waker cannot reach a sleeping thread itself it notifies the
//! waiter's domain, and the agent there wakes the thread. It is on no data path; between its
//! rounds, one a second, it sleeps in poll(2).
//!
//! | module | what it holds |
//! |---|---|
//! | `starter` | starting an agent: from a program that uses a pool, or from the `vshmem` command |
//! | `surroundings` | whether a program is still where and who it was when it was loaded |
//! | `launch` | the child that becomes the command, by raw system calls |
//! | `detach` | the process in between: the agent belongs to init, and inherits nothing |
//! | `run` | an agent from start to end: it takes the lock, joins the pool, watches, and leaves |
//! | `stay` | which agent is wanted: for whose pool, while it is in use or while there is one |
//! | `watch` | its rounds and its sleep; one file for each thing that a round looks after |
//! | `departure` | carrying out that this domain leaves the pool |
//! | `locks` | file locks on objects: claims of this domain that others want |
//! | `notify` | datagrams from and to agents of other domains |
//! | `cleaner` | free memory kept zeroed |
//!
//! The race of several that start is decided by a lock on the pool's file
//! ([`vshmem_session::RoleLock`]): one becomes the agent, the others end.

mod cleaner;
mod departure;
mod detach;
mod error;
mod launch;
mod locks;
mod notify;
mod run;
mod starter;
mod stay;
mod surroundings;
mod watch;

pub use departure::{DEPARTURE_STEP, Departure, Holder, Progress};
pub use detach::detach;
pub use error::AgentError;
pub use notify::{Counts, NOTIFY_DIRECTORIES, NotifyConfig, NotifyError, NotifyStatus};
pub use run::run_agent;
pub use starter::{AgentStarter, start};
pub use stay::{AgentOptions, Stay};
pub use surroundings::remember_surroundings;
