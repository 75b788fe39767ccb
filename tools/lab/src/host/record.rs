//! What is written down about a lab, and what a guest's PID 1 is told.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Result};
use crate::host::directory::Directory;
use crate::options::{Device, GuestKind, Server};

/// The port of the guests' agents.
pub(crate) const AGENT_PORT: u16 = 10077;

/// The port at which the agents of pools hear each other.
pub(crate) const NOTIFY_PORT: u16 = 7117;

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
    pub(crate) sister_exec: bool,
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
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let zombie = status.lines().any(|line| line.starts_with("State:") && line.contains('Z'));
        (!zombie && crate::host::census::start_time(pid) == Some(start)).then_some(pid)
    }

    pub(crate) fn write(&self, directory: &Directory) -> Result<()> {
        write(&directory.record(), self, 0o600)
    }

    /// The record of a lab; `None` if there is none.
    pub(crate) fn read(directory: &Directory) -> Result<Option<Self>> {
        read(&directory.record())
    }
}

/// The command that `on_death` makes for one guest.
pub(crate) fn death_notice(words: &[String], guest: u32) -> Vec<String> {
    words.iter().map(|word| word.replace("{guest}", &domain(guest))).collect()
}

/// The control domain of Xen guests, as a guest.
pub(crate) const DOM0: u32 = 0;

/// The domain name of a guest.
pub(crate) fn domain(guest: u32) -> String {
    match guest {
        DOM0 => "dom0".into(),
        guest => format!("guest{guest}"),
    }
}

/// The address of the keeper's end of the bridge.
pub(crate) const KEEPER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

/// The address of a guest.
pub(crate) fn address(guest: u32) -> Ipv4Addr {
    match guest {
        DOM0 => Ipv4Addr::new(10, 77, 0, 253),
        guest => Ipv4Addr::new(10, 77, 0, guest as u8),
    }
}

/// What PID 1 of a guest is told, in a file that only the guest's user can read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Boot {
    pub(crate) guest: u32,
    pub(crate) count: u32,
    /// Its control domain, if that is a guest too.
    pub(crate) dom0: bool,
    pub(crate) pool_name: Option<String>,
    /// Whether its agents notify the other guests' by datagrams.
    pub(crate) notify: bool,
    /// Path of the stage as seen in the guest before anything is mounted over it.
    pub(crate) stage: PathBuf,
    pub(crate) init: String,
    /// By this name QEMU offers files that are laid over the host's.
    pub(crate) layer: Option<String>,
    pub(crate) device_mode: u32,
    /// A device that must be there before the guest is up.
    pub(crate) awaited_device: Option<PathBuf>,
    /// The disk to swap to.
    pub(crate) swap: Option<PathBuf>,
    /// The name of its network interface.
    pub(crate) interface: String,
    /// What a client of the agent must know.
    pub(crate) token: String,
    /// The sisters' tokens, by guest number from 1, if guests may run commands in each other.
    pub(crate) sisters: Vec<String>,
}

/// Writes a file at once: readers see the old or the new one.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T, mode: u32) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(std::io::Error::from)
        .doing(|| format!("write {path:?}"))?;
    let fresh = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let _ = std::fs::remove_file(&fresh);
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        std::io::Write::write_all(&mut file, &text)?;
        std::fs::rename(&fresh, path)
    };
    write().doing(|| format!("write {path:?}"))
}

/// Reads such a file; `None` if it is not there.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match std::fs::read(path) {
        Ok(text) => {
            let value = serde_json::from_slice(&text)
                .map_err(std::io::Error::from)
                .doing(|| format!("understand {path:?}"))?;
            Ok(Some(value))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).doing(|| format!("read {path:?}")),
    }
}
