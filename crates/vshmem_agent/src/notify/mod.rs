//! Datagrams between the agents of domains whose link has no doorbell: opt-in, by a file of the
//! operator's in each domain (docs/internals/notify.md, docs/internals/decisions/0019).
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | the operator's file: where this agent listens, and who its peers are |
//! | `peers` | the socket: what comes from peers and what goes to them |
//! | `status` | what an agent publishes about it |
//! | `notifier` | the agent's two threads, and what they do in a round |

mod config;
mod notifier;
mod peers;
mod status;

pub use config::{NOTIFY_DIRECTORIES, NotifyConfig, NotifyError};
pub use notifier::Notifier;
pub use peers::Counts;
pub use status::NotifyStatus;
