//! Datagrams between the agents of domains whose link has no doorbell: opt-in, by a file of the
//! operator's in each domain (docs/internals/notify.md, docs/internals/decisions/0019).
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | the operator's file: where this agent listens, and who its peers are |
//! | `limit` | token buckets |
//! | `peers` | the socket: what comes from peers and what goes to them |
//! | `status` | what an agent publishes about it |

mod config;
mod limit;
mod peers;
mod status;

pub use config::{NOTIFY_DIRECTORIES, NotifyConfig, NotifyError};
pub use limit::TokenBucket;
pub use peers::{Counts, Peers, Received, Sent};
pub use status::NotifyStatus;
