//! `vshmem pool serve`: hands a pool and its doorbells to QEMU guests.
//!
//! The server speaks the protocol of QEMU's ivshmem-doorbell device (docs/specs/ivshmem-spec in
//! QEMU's sources). It is not on the data path: guests notify each other without it, through event
//! descriptors that it has handed out. What goes through it are notifications between guests and
//! processes of the host, arrivals and departures. A guest that departs is dead, and the server
//! says so in the pool.
//!
//! # Who may do what
//! Peers and their processes are not trusted. A connection is refused unless the pool's own file
//! would let that process in. Nothing that a peer sends is read for its meaning, and nothing it
//! does makes the server keep more than a fixed amount for it. What members write into the pool is
//! read through the checked accessors of `vshmem_ipc`.

#![forbid(unsafe_code)]

mod admission;
mod directory;
mod doorbell;
mod event;
mod listener;
mod message;
mod peer;
mod peer_view;
mod record;
mod server;
mod server_paths;
mod stranded;
mod xen;

pub use doorbell::MOST_VECTORS;
pub use event::Event;
pub use record::{Record, RecordedPeer};
pub use server::{Ending, Request, ServeError, Server};
pub use server_paths::ServerPaths;
pub use xen::{XenEvent, XenServeError, XenServer};
