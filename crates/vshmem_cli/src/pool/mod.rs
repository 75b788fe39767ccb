//! `vshmem pool`: the pools themselves.

mod check;
mod containers;
mod create;
mod evict;
mod guest_device;
mod holders;
mod leave;
mod ls;
mod participants;
mod plug;
mod processes;
mod rm;
mod serve;
mod show;
mod show_as;

pub use create::make;
pub use guest_device::{GuestDevice, OBJECTS, is_hotpluggable, is_same_file};
pub use ls::overview;
pub use participants::Participants;
pub use plug::{Place, free_port, is_free};
pub use show_as::{Device, Form, HostPool};

use clap::Subcommand;

use crate::failure::Outcome;

/// Make, list, check and remove pools.
#[derive(Debug, Subcommand)]
pub enum PoolVerb {
    /// Make a pool.
    Create(create::Create),
    /// List the pools of this machine.
    Ls(ls::Ls),
    /// Remove a pool.
    Rm(rm::Rm),
    /// Check a pool for inconsistencies
    Check(check::Check),
    /// Declare a domain evicted, or dead.
    Evict(evict::Evict),
    /// Leave a pool: programs here go on with private copies of what they have attached.
    Leave(leave::Leave),
    /// Have a domain leave a pool.
    Drain(leave::Drain),
    /// Let programs here use a pool again that this domain has left.
    Join(leave::Join),
    /// Show the facts of a pool, or how to give it to a virtual machine.
    Show(show::Show),
    /// Plug a pool into a QEMU guest that runs.
    Plug(plug::Plug),
    /// Hand a pool to QEMU guests, with doorbells between them and the host.
    Serve(serve::Serve),
}

impl PoolVerb {
    /// Does it.
    pub fn carry_out(self) -> Outcome {
        match self {
            Self::Create(create) => create.carry_out(),
            Self::Ls(ls) => ls.carry_out(),
            Self::Rm(rm) => rm.carry_out(),
            Self::Check(check) => check.carry_out(),
            Self::Evict(evict) => evict.carry_out(),
            Self::Leave(leave) => leave.carry_out(),
            Self::Drain(drain) => drain.carry_out(),
            Self::Join(join) => join.carry_out(),
            Self::Show(show) => show.carry_out(),
            Self::Plug(plug) => plug.carry_out(),
            Self::Serve(serve) => serve.carry_out(),
        }
    }
}
