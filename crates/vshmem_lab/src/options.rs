//! What a lab is asked to be.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The kind of machine that a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GuestKind {
    /// User Mode Linux: no hardware virtualisation needed.
    Uml,
}

impl std::fmt::Display for GuestKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GuestKind::Uml => "uml",
        })
    }
}

/// What [`Lab::up`](crate::Lab::up) boots.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// The lab's name: letters, digits, `-` and `_`, at most 32.
    pub name: String,
    /// The kind of all its guests.
    pub guest: GuestKind,
    /// How many guests, 1 to 64.
    pub count: u32,
    /// Memory of each guest. Its tmpfs file systems live in it too.
    pub memory_mib: u32,
    /// The pool's file, given to the guests as `/dev/mmapper`.
    pub pool: Option<PathBuf>,
    /// The pool's name, written to `/run/vshmem/pool` in the guests.
    pub pool_name: Option<String>,
    /// Where `vshmem`, `libvshmem_preload.so` and `libvshmem.so` are; those found are at `/run/vshmem/bin` in the guests.
    pub binary_dir: PathBuf,
    /// More files for `/run/vshmem/bin`, for example test programs in a directory that the guests cannot enter.
    pub stage: Vec<PathBuf>,
    /// The binary that offers the hidden verbs; the running one if `None`.
    pub binary: Option<PathBuf>,
    /// A command to run when a guest has died: `{guest}` in its words becomes the domain name (`guest1`).
    pub on_death: Option<Vec<String>>,
    /// Mode of `/dev/mmapper` in the guests.
    pub device_mode: u32,
    /// May the root user of one guest run commands in its sister guests (`mpirun` needs it)?
    pub sister_exec: bool,
}

impl Default for UpOptions {
    fn default() -> Self {
        UpOptions {
            name: "default".into(),
            guest: GuestKind::Uml,
            count: 2,
            memory_mib: 512,
            pool: None,
            pool_name: None,
            binary_dir: std::env::current_exe()
                .ok()
                .and_then(|exe| exe.parent().map(PathBuf::from))
                .unwrap_or_else(|| PathBuf::from(".")),
            stage: Vec::new(),
            binary: None,
            on_death: None,
            device_mode: 0o666,
            sister_exec: true,
        }
    }
}
