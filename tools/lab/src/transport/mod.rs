//! What goes between host and guests: a command and its streams over a connection to a guest's
//! agent, several connections over one serial port, and the line between the keeper and its
//! clients.

pub(crate) mod connection;
pub(crate) mod control;
pub(crate) mod frame;
pub(crate) mod mux;
pub(crate) mod relay;
pub(crate) mod request;
