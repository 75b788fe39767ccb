//! On which memory node of the host a thread runs.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use vshmem_link::Link;
use vshmem_mem::current_node;

/// The variable that says on which of the host's nodes this machine lies.
const VARIABLE: &str = "VSHMEM_NODE";
/// Files that say it, the first of them that there is: the administrator's, and what the host has
/// handed to the machine at its boot (`vshmem-node.service`).
const FILES: [&str; 2] = ["/etc/vshmem/node", "/run/vshmem/node"];
/// A list of nodes is not longer.
const FILE_BYTES: usize = 256;

/// What is said of the host's nodes names none, or is not to be believed.
#[derive(Debug, thiserror::Error)]
pub enum HomeNodeError {
    /// The variable.
    #[error(
        "VSHMEM_NODE is {value:?}: it must be the host's memory node that this machine lies on (a number), or a list with the host's node for each of this machine's, as 0,1; or not be set, and new segments lie on any node. `vshmem --help` names all variables"
    )]
    Variable {
        /// What it is.
        value: OsString,
    },
    /// A file.
    #[error(
        "{}: {found}; new segments lie on any node. It must be a file of root's that nobody else can write, with the host's memory node that this machine lies on (a number), or a list with the host's node for each of this machine's, as 0,1: `echo 0 >/etc/vshmem/node; chown root: /etc/vshmem/node; chmod 644 /etc/vshmem/node`",
        path.display()
    )]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
}

/// Where this machine lies on its host, as it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeNodes {
    /// Who says it: a variable, or a file.
    pub source: String,
    /// The host's nodes that this machine's nodes lie on, in order. One alone stands for the whole
    /// machine.
    pub nodes: Vec<u32>,
}

/// Whether `VSHMEM_NODE` is not set, or names nodes. For a command, which can refuse it; a library
/// goes on without.
///
/// # Errors
/// Says what it must be.
pub fn check_home_node() -> Result<(), HomeNodeError> {
    from_environment().map(|_| ())
}

/// What this machine was told of the host's nodes that it lies on, if anything.
///
/// # Errors
/// What was said names no nodes, or is not to be believed.
pub fn told_home_nodes() -> Result<Option<HomeNodes>, HomeNodeError> {
    let nodes = from_environment()?;
    if !nodes.is_empty() {
        return Ok(Some(HomeNodes { source: VARIABLE.into(), nodes }));
    }
    from_files(&FILES.map(Path::new))
}

fn from_environment() -> Result<Vec<u32>, HomeNodeError> {
    let value = std::env::var_os(VARIABLE).unwrap_or_default();
    value.to_str().and_then(parse).ok_or(HomeNodeError::Variable { value })
}

fn from_files(paths: &[&Path]) -> Result<Option<HomeNodes>, HomeNodeError> {
    for path in paths {
        let found = |found: String| HomeNodeError::File { path: path.to_path_buf(), found };
        let text = match read(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(errno) => return Err(found(format!("cannot read it: {errno}"))),
            Ok(None) => return Err(found("others than root can write it".into())),
            Ok(Some(text)) => text,
        };
        let nodes = match std::str::from_utf8(&text).ok().and_then(|text| parse(text.trim())) {
            Some(nodes) if !nodes.is_empty() => nodes,
            _ => return Err(found(format!("it says {:?}", String::from_utf8_lossy(&text)))),
        };
        return Ok(Some(HomeNodes { source: path.display().to_string(), nodes }));
    }
    Ok(None)
}

/// What is in a file that only root can write; `None` for another.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Errno> {
    // Not held up by what is no file.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file: OwnedFd = open(path, flags, Mode::empty())?;
    let facts = fstat(&file)?;
    let is_roots = facts.st_uid == 0 && facts.st_mode & 0o022 == 0;
    if !is_roots || FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut text = vec![0; FILE_BYTES];
    let length = rustix::io::read(&file, &mut text[..])?;
    text.truncate(length);
    Ok(Some(text))
}

/// What was said, once for the process; nothing when it names no nodes, which is written to
/// standard error if VSHMEM_LOG asks for it.
fn or_reported(said: Result<Vec<u32>, HomeNodeError>) -> Vec<u32> {
    said.unwrap_or_else(|error| {
        if std::env::var_os("VSHMEM_LOG").is_some() {
            // A failure of that cannot be reported.
            let line = format!("vshmem: {error}\n");
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
        }
        Vec::new()
    })
}

/// What `VSHMEM_NODE` says.
fn declared() -> &'static [u32] {
    static NODES: OnceLock<Vec<u32>> = OnceLock::new();
    NODES.get_or_init(|| or_reported(from_environment()))
}

/// What the files say.
fn noted() -> &'static [u32] {
    static NODES: OnceLock<Vec<u32>> = OnceLock::new();
    NODES.get_or_init(|| {
        let said = from_files(&FILES.map(Path::new));
        or_reported(said.map(|told| told.map(|told| told.nodes).unwrap_or_default()))
    })
}

/// The nodes of a list; none when it is empty, `None` when it is no list of numbers.
fn parse(list: &str) -> Option<Vec<u32>> {
    if list.is_empty() {
        return Some(Vec::new());
    }
    list.split(',').map(|node| node.trim().parse().ok()).collect()
}

fn node_among(declared: &[u32], own: impl FnOnce() -> Option<u32>) -> Option<u32> {
    match declared {
        [] => None,
        [node] => Some(*node),
        nodes => nodes.get(own()? as usize).copied(),
    }
}

/// The host's node on which the calling thread runs, if it is known. Where the pool is a file of
/// this kernel's, this is the host, unless `VSHMEM_NODE` says otherwise.
pub fn home_node(link: &dyn Link) -> Option<u32> {
    if let Some(node) = node_among(declared(), current_node) {
        return Some(node);
    }
    if link.file().is_some() {
        return current_node();
    }
    node_among(noted(), current_node)
}

#[cfg(test)]
mod tests;
