//! What is written down about a lab.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::host::directory::Directory;
use crate::host::{guest_processes, json};
use crate::model::names::DOM0;
use crate::model::{Device, GuestKind, Server};

/// A lab, as written in its `lab.json` before anything of it is started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) guest: GuestKind,
    pub(crate) count: u32,
    #[serde(default = "one")]
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u32,
    #[serde(default)]
    pub(crate) swap_mib: u32,
    pub(crate) pool: Option<PathBuf>,
    pub(crate) pool_name: Option<String>,
    pub(crate) on_death: Option<Vec<String>>,
    pub(crate) device_mode: u32,
    pub(crate) device: Device,
    pub(crate) server: Option<Server>,
    #[serde(default)]
    pub(crate) notify: bool,
    pub(crate) peer_exec: bool,
    /// Have the guests the host's processor (KVM)?
    pub(crate) accelerated: bool,
    /// File name, below the stage, of the binary with the hidden verbs.
    pub(crate) init: String,
    /// The user of guest 1 on the host; guest i has the i-1st after it.
    pub(crate) first_uid: u32,
    /// The keeper, once started: pid and start time.
    pub(crate) keeper: Option<(i32, u64)>,
}

fn one() -> u32 {
    1
}

impl Record {
    /// All guests, dom0 among them where there is one.
    pub(crate) fn guests(&self) -> RangeInclusive<u32> {
        match self.guest {
            GuestKind::Xen => DOM0..=self.count,
            GuestKind::Uml | GuestKind::Qemu => 1..=self.count,
        }
    }

    /// Those that have a process of their own on the host. The others live in dom0's.
    pub(crate) fn machines(&self) -> RangeInclusive<u32> {
        match self.guest {
            GuestKind::Xen => DOM0..=DOM0,
            GuestKind::Uml | GuestKind::Qemu => 1..=self.count,
        }
    }

    /// The user on the host as whom a guest runs.
    pub(crate) fn uid(&self, guest: u32) -> u32 {
        match self.guest {
            GuestKind::Xen => self.first_uid,
            GuestKind::Uml | GuestKind::Qemu => self.first_uid + guest - 1,
        }
    }

    pub(crate) fn uids(&self) -> Range<u32> {
        self.first_uid..self.uid(self.count) + 1
    }

    /// The keeper's pid, if that very process still runs.
    pub(crate) fn living_keeper(&self) -> Option<i32> {
        let (pid, start) = self.keeper?;
        guest_processes::is_living(pid, start).then_some(pid)
    }

    pub(crate) fn write(&self, directory: &Directory) -> Result<()> {
        json::write(&directory.record(), self, 0o600)
    }

    /// The record of a lab; `None` if there is none.
    pub(crate) fn read(directory: &Directory) -> Result<Option<Self>> {
        json::read(&directory.record())
            .map_err(|error| Outline::read(directory).explain(directory, &error))
    }
}

/// What of a record every release understands: enough to leave the lab alone.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Outline {
    /// The user of guest 1 on the host, if that is known.
    #[serde(default)]
    pub(crate) first_uid: Option<u32>,
    #[serde(default)]
    keeper: Option<(i32, u64)>,
}

impl Outline {
    /// Of a lab with a record that may be another release's; empty where nothing is understood.
    pub(crate) fn read(directory: &Directory) -> Self {
        json::read(&directory.record()).ok().flatten().unwrap_or_default()
    }

    /// The keeper's pid, if that very process still runs.
    pub(crate) fn living_keeper(&self) -> Option<i32> {
        let (pid, start) = self.keeper?;
        guest_processes::is_living(pid, start).then_some(pid)
    }

    /// Why this release cannot work with the lab.
    fn explain(&self, directory: &Directory, error: &Error) -> Error {
        let name = directory.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let remedy = match self.living_keeper() {
            // The command that made it, also when its file has been replaced.
            Some(keeper) => format!("`/proc/{keeper}/exe lab --name {name} down` takes it down"),
            None => format!("`vshmem lab --name {name} down` removes what is left of it"),
        };
        // What our messages quote so is a command.
        let found = error.to_string().replace('`', "\"");
        Error::OtherRelease { name, found, remedy }
    }
}
