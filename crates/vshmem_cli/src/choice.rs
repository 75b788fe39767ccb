//! Which pool is meant, when the command line does not say.

use std::io::IsTerminal;
use std::path::PathBuf;

use vshmem_ipc::OpenError;
use vshmem_link::{Link, Local};
use vshmem_session::{
    CreateError, CreateRequest, FindError, Listing, PRIVATE_PREFIX, find, list_devices,
};

use crate::failure::{Failure, failed};
use crate::show;

/// Written in a guest by its operator: the name of its pool.
const CONFIGURED: &str = "/run/vshmem/pool";
/// Bytes of a private pool, where there is memory enough.
const PRIVATE_BYTES: u64 = 256 << 20;
/// And the least that is of use.
const PRIVATE_LEAST: u64 = 16 << 20;

/// The pool that a command is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// It was named: by option, by VSHMEM_POOL, or by the operator of this domain.
    Named(String),
    /// None was named, and this guest was given one alone: its device.
    Given {
        /// File of the device.
        path: PathBuf,
        /// What the pool calls itself.
        name: String,
    },
    /// This user's private one.
    Private,
}

impl Choice {
    /// What [`find`] takes, a name or a path; `None` for the private pool.
    pub fn word(&self) -> Option<String> {
        match self {
            Self::Named(name) => Some(name.clone()),
            Self::Given { path, .. } => Some(path.display().to_string()),
            Self::Private => None,
        }
    }
}

/// The pool that was named: by option, by VSHMEM_POOL, by the operator of this domain.
fn named(option: Option<&str>) -> Option<String> {
    let option = option.map(str::to_owned);
    let environment = || std::env::var("VSHMEM_POOL").ok();
    let configured = || std::fs::read_to_string(CONFIGURED).ok();
    option
        .or_else(|| environment().filter(|name| !name.is_empty()))
        .or_else(|| configured().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()))
}

/// Which pool is meant. A guest that was given several has to name one.
pub fn choose(option: Option<&str>) -> Result<Choice, Failure> {
    match named(option) {
        Some(name) => Ok(Choice::Named(name)),
        None => given(list_devices()),
    }
}

/// The only one of the devices that holds a pool, or might hold one.
fn given(devices: Vec<Listing>) -> Result<Choice, Failure> {
    let mut pools = Vec::new();
    for device in devices {
        match device.found {
            Ok((superblock, _)) => pools
                .push((device.path, String::from_utf8_lossy(superblock.name_bytes()).into_owned())),
            // Memory that something else uses.
            Err(FindError::Damaged { error: OpenError::Magic, .. }) => {}
            // The operator gave the device to be used: a private pool instead would go
            // unnoticed.
            Err(error) => return Err(error.into()),
        }
    }
    match pools.len() {
        0 => Ok(Choice::Private),
        1 => {
            let (path, name) = pools.swap_remove(0);
            Ok(Choice::Given { path, name })
        }
        _ => {
            let names: Vec<String> =
                pools.into_iter().map(|(_, name)| show::sanitized(&name)).collect();
            failed(format!(
                "no pool is named, and this machine was given several: {}. Name one, as in `vshmem run --pool {} -- CMD`, or set VSHMEM_POOL",
                names.join(", "),
                names[0]
            ))
        }
    }
}

/// Opens the pool that is meant; without a name, this user's private one if there is one.
pub fn open(option: Option<&str>) -> Result<Box<dyn Link>, Failure> {
    if let Some(word) = choose(option)?.word() {
        return Ok(find(&word)?);
    }
    match open_private() {
        Err(Failure::Find(FindError::Unknown { .. })) => failed(
            "no pool is named and there is no private one yet. Name one with --pool or VSHMEM_POOL (`vshmem pool ls` shows them); `vshmem run -- CMD` makes the private one",
        ),
        other => other,
    }
}

/// As [`open`], and makes the private pool if it is missing. A private pool is announced on a
/// terminal: a user who forgot to name one would wait for programs that are in another pool.
pub fn open_or_make(option: Option<&str>) -> Result<Box<dyn Link>, Failure> {
    if let Some(word) = choose(option)?.word() {
        return Ok(find(&word)?);
    }
    if std::io::stderr().is_terminal() {
        eprintln!(
            "vshmem: no pool is named: this is your private pool {}, for programs of yours on this machine alone (--pool NAME takes another)",
            private_name()
        );
    }
    match open_private() {
        Err(Failure::Find(FindError::Unknown { .. })) => {
            make_private()?;
            open_private()
        }
        other => other,
    }
}

/// Name of this user's private pool.
pub fn private_name() -> String {
    format!("{PRIVATE_PREFIX}{}", rustix::process::geteuid().as_raw())
}

/// Any user may create a file of that name in /dev/shm first, and would then own what is in it: one
/// that is not this user's alone is refused by each process that opens it, at the descriptor.
fn open_private() -> Result<Box<dyn Link>, Failure> {
    Ok(find(&private_name())?)
}

fn make_private() -> Result<(), Failure> {
    let mut request = CreateRequest {
        name: private_name(),
        bytes: private_bytes(),
        mode: 0o600,
        group: None,
        huge_page: None,
        placement: None,
        limits: Vec::new(),
        evict_after: 0,
        prepare: 0,
        backed: false,
        dax: false,
        uuid: None,
    };
    loop {
        match vshmem_session::create(&request) {
            // Another program of this user was faster: as well.
            Ok(_) | Err(CreateError::Exists { .. }) => return Ok(()),
            Err(CreateError::Room { .. }) if request.bytes / 2 >= PRIVATE_LEAST => {
                request.bytes /= 2;
            }
            Err(error) => return Err(error.into()),
        }
        tracing::info!(bytes = request.bytes, "memory is short: a smaller private pool");
    }
}

/// Half of what is there at most: the pool is sparse, and a program should meet ENOSPC before the
/// machine runs out of memory.
fn private_bytes() -> u64 {
    let free = Local::path_of("", false)
        .parent()
        .and_then(|directory| rustix::fs::statvfs(directory).ok())
        .map_or(u64::MAX, |stat| stat.f_bavail * stat.f_frsize);
    let available = vshmem_session::Memory::now().available;
    (free.min(available) / 2).clamp(PRIVATE_LEAST, PRIVATE_BYTES) & !0xfffff
}
