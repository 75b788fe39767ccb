//! Message channels in shared memory: a port is one receiver's, and has a lane for each sender.
//!
//! A [`Port`] lies in memory of its own, which its receiver has made. A sender claims one of its
//! lanes with one compare-and-swap and keeps it; a lane is a ring of bytes with one writer and one
//! reader, so no death blocks another process. Memory grows with the number of receivers: a
//! port has the size that its receiver gave it, however many send.
//!
//! # Who writes what
//! The receiver writes the port's header, each lane's generation and how far it has read. A sender
//! writes its claim, who it is, and the ring. Each keeps the words that it needs to go on in memory
//! of its own; what it reads from the other's is copied once, checked, and only the copy is used. A
//! ring that is invalid closes its lane ([`Received::Corrupt`]) and nothing else.
//!
//! # Memory ordering
//! The writer stores the zero that ends the ring, then the message, then its header with release
//! ("pairs with receive"); the reader loads headers with acquire. The reader stores how far it is
//! with release ("pairs with room") after it has used the message; the writer acquires it before
//! it writes over what was read.

#![forbid(unsafe_code)]

mod layout;
mod receive;
mod send;

pub use layout::{Identity, LEAST_LANE_BYTES, MOST_LANE_BYTES, MOST_LANES, Shape, ShapeError};
pub use receive::{Inbound, Port, Received};
pub use send::{ClaimError, Outbound, SendError};
