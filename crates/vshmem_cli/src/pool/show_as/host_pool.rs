//! A pool as the host has it: what a monitor needs to know of it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vshmem_link::Link;
use vshmem_serve::{Record, ServerPaths};
use vshmem_session::{Role, find, identify};

use crate::failure::{Failure, failed};

/// A pool as far as a hypervisor is concerned.
#[derive(Debug)]
pub struct HostPool {
    /// The name that its server goes by.
    pub name: String,
    /// Its file, from the root.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
    /// A label for nvdimm lies before it.
    pub labelled: bool,
    /// User that the file belongs to.
    pub owner: u32,
    /// Permission bits of the file.
    pub mode: u32,
    /// Where its server listens.
    pub socket: PathBuf,
    /// Interrupts of a guest.
    pub vectors: u32,
    /// A server runs now.
    pub served: bool,
}

impl HostPool {
    /// Reads what the host knows of a pool.
    pub fn of(name: &str) -> Result<Self, Failure> {
        let link = find(name)?;
        identify(link.as_ref())?;
        let path = std::path::absolute(link.path()).unwrap_or_else(|_| link.path().to_owned());
        let Some(file) = link.file() else {
            return failed(format!(
                "pool {name}: {} is a device of this guest; ask on the host",
                path.display()
            ));
        };
        let meta = std::fs::metadata(&path).map_err(|error| {
            Failure::Failed(format!("{}: cannot look at it: {error}", path.display()))
        })?;
        // Hypervisors split their options at commas; names of pools have none.
        if path.to_str().is_none_or(|text| text.contains([',', '\'', '<', '&', ' '])) {
            return failed(format!(
                "{}: a path with commas, quotes or spaces cannot be written down for a hypervisor. Move the pool's file",
                path.display()
            ));
        }
        let name = pool_name(&path, link.as_ref());
        let record = Record::read(&ServerPaths::usual(&name).record);
        Ok(Self {
            served: Role::Server.is_held(&path),
            socket: record
                .as_ref()
                .map_or_else(|| ServerPaths::usual(&name).socket, |record| record.socket.clone()),
            vectors: record.map_or(1, |record| record.vectors),
            bytes: meta.len(),
            labelled: meta.len() != link.bytes(),
            owner: file.owner,
            mode: meta.mode(),
            name,
            path,
        })
    }

    /// By what `vshmem` in a container finds the pool: its name where that leads to its file.
    pub fn reference(&self) -> String {
        if self.path.as_os_str() == format!("/dev/shm/vshmem.{}", self.name).as_str() {
            self.name.clone()
        } else {
            self.path.display().to_string()
        }
    }
}

/// Last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name that a server of this pool goes by.
fn pool_name(path: &Path, link: &dyn Link) -> String {
    let file = file_name(path);
    match file.strip_prefix("vshmem.") {
        Some(name) => name.to_owned(),
        None => file_name(link.path()),
    }
}
