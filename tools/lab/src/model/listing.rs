//! A lab and its guests as they are at some time.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::model::GuestKind;

/// The state of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestState {
    /// Started; its agent does not answer yet.
    Booting,
    /// Commands can be run.
    Running,
    /// Its first process has ended; its namespace is being emptied and its death notice given.
    Dying,
    /// Its namespace is empty and its death notice given.
    Dead,
}

impl std::fmt::Display for GuestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GuestState::Booting => "booting",
            GuestState::Running => "running",
            GuestState::Dying => "dying",
            GuestState::Dead => "dead",
        })
    }
}

/// One guest of a lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestListing {
    /// Its number, from 1.
    pub guest: u32,
    /// Its domain name, which is its host name too.
    pub domain: String,
    /// Its state.
    pub state: GuestState,
    /// What ended it, if it is dead.
    pub how: String,
    /// Its address in the lab's network.
    pub address: Ipv4Addr,
    /// The user on the host as whom it runs.
    pub uid: u32,
}

/// One lab.
#[derive(Debug, Clone, Serialize)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// The kind of its guests.
    pub guest: GuestKind,
    /// What they are made of, in words: the acceleration and the pool's device.
    pub made_of: String,
    /// The pool's name, if it has one.
    pub pool_name: Option<String>,
    /// The keeper's pid; `None` if it has died: then `down` clears up.
    pub keeper: Option<i32>,
    /// What to do, if the keeper is there and does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Its guests; empty if the keeper does not answer.
    pub guests: Vec<GuestListing>,
}
