//! The lab: boots real guests on one machine, on the host's own userland, to try vshmem in.
//!
//! A lab is one *keeper* process that holds an anonymous network namespace (a bridge and one tap per guest)
//! and an anonymous mount namespace. Each guest runs under the keeper, as a user of its own, in a PID namespace
//! of its own, so that killing the namespace kills the whole guest, and the guest is called dead only when the
//! namespace is empty. Everything but the lab's directory vanishes with the keeper.
//!
//! | module | what it holds |
//! |---|---|
//! | `lab` | the front: up, open, list, kill, restart, down |
//! | `machine` | what differs by kind of guest: one file per kind |
//! | `keeper` | the process that owns the namespaces and the guests |
//! | `init` | PID 1 of a guest, and the agent that runs commands there |
//! | `transport` | what the keeper and its clients say to each other; running a command in a guest from outside (or from a sister guest) |
//! | `host` | the lab's directory and what is written there; which processes belong to a guest; who may open the pool file |
//!
//! Two hidden verbs must be offered by the binary that uses this crate: [`KEEPER_VERB`], which calls [`keeper`],
//! and [`INIT_VERB`], which calls [`guest_init`].
#![forbid(unsafe_code)]

mod check;
mod error;
mod host;
mod init;
mod keeper;
mod lab;
mod machine;
mod options;
mod transport;

pub use check::Missing;
pub use error::{Error, GuestFault, Result};
pub use init::guest_init;
pub use keeper::keeper;
pub use lab::{GuestListing, GuestState, Lab, Listing};
pub use machine::{Acceleration, kvm_boots_guests};
pub use options::{Device, GuestKind, Server, UpOptions};
pub use transport::{ExecRequest, Streams, exec_in_sister, in_guest};

/// The verb of the binary that must call [`keeper`] with the words that follow it.
pub const KEEPER_VERB: &str = "lab-keeper";

/// The verb of the binary that must call [`guest_init`]; words after it must be ignored.
pub const INIT_VERB: &str = "lab-init";
