//! The keeper: the one host process of a lab. It holds the lab's network and mount namespaces,
//! starts the guests and watches them. Nothing of it is on anyone's data path: a command's
//! connection is handed over to the client.

mod console;
mod control_server;
mod death_command;
mod domain;
mod namespace;
mod port;
mod process;
mod run;
mod shared;
mod site;
mod supervisor;

pub(crate) use death_command::run_death_command;
pub use run::keeper;
