//! What runs in a guest: PID 1, which sets the guest up, starts the agent and reaps; and the agent,
//! which runs commands for clients. Both are the same binary, found again in the stage.

mod agent;
mod dom0;
mod first_process;
pub(crate) mod orders;
mod port;
mod ramdisk;
mod session;
mod world;

pub use first_process::guest_init;
