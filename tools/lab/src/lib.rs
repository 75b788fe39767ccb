//! The lab: boots real guests on one machine, on the host's own userland, to try vshmem in.
//!
//! A lab is one *keeper* process that holds an anonymous network namespace (a bridge and one tap
//! per guest) and an anonymous mount namespace. Each guest runs under the keeper, as a user of its
//! own, in a PID namespace of its own, so that killing the namespace kills the whole guest, and the
//! guest is called dead only when the namespace is empty. Everything but the lab's directory
//! vanishes with the keeper.
//!
//! | module | what it holds |
//! |---|---|
//! | `model` | what a lab is asked to be and how it is listed; names and numbers that host and guests agree on. Plain data |
//! | `error` | what can go wrong |
//! | `held` | locks of threads that may panic |
//! | `host` | the lab's directory and what is written there; its processes; who may open the pool file; the host's tools |
//! | `transport` | commands and their streams between host and guests; the line between the keeper and its clients |
//! | `machine` | what differs by kind of guest: one file or folder per kind |
//! | `keeper` | the process that owns the namespaces and the guests |
//! | `init` | PID 1 of a guest, and the agent that runs commands there |
//! | `check`, `peer_guest` | what a machine lacks for the lab; running a command from one guest in another |
//! | `lab` | the front: up, open, list, kill, restart, down |
//!
//! Imports point from a line of this table to lines above it only.
//!
//! A binary that boots guests is also their keeper and their PID 1: it begins with [`hidden_verb`].
#![forbid(unsafe_code)]

mod check;
mod error;
mod held;
mod host;
mod init;
mod keeper;
mod lab;
mod machine;
mod model;
mod peer_guest;
mod transport;

pub use error::{Error, GuestFault, Result};
pub use lab::Lab;
pub use machine::kvm_boots_guests;
pub use model::boot::ORDERS;
pub use model::{
    Acceleration, Device, GuestKind, GuestListing, GuestState, Listing, Missing, Server, UpOptions,
};
pub use peer_guest::{exec_in_peer, in_guest};
pub use transport::request::{ExecRequest, Streams};

use std::ffi::OsString;

use model::names::{INIT_VERB, KEEPER_VERB};

/// Carries out a verb that only the lab itself calls, PID 1 of a guest among them; none if
/// the words behind the program's name are others. The kernel decides about the words that PID 1
/// gets, so they are not for a command line's parser.
pub fn hidden_verb(words: &[OsString]) -> Option<Result<()>> {
    match words.first()?.to_str()? {
        INIT_VERB => Some(init::guest_init()),
        KEEPER_VERB => Some(keeper::keeper(&words[1..])),
        _ => None,
    }
}
