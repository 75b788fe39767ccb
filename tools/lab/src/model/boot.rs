//! What the host and PID 1 of a guest agree on: what PID 1 gets, what it says, and what is where
//! in the guest.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The orders for PID 1 of a guest, in a file that only the guest's user can read.
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
    /// The peer guests' tokens, by guest number from 1, if guests may run commands in each other.
    pub(crate) peers: Vec<String>,
}

/// The environment variable that names the file with PID 1's orders.
pub(crate) const BOOT_VARIABLE: &str = "VSHMEM_LAB_BOOT";

/// The environment variable that PID 1 hands on to all programs: what their C library does.
pub(crate) const TUNABLES_VARIABLE: &str = "GLIBC_TUNABLES";

/// What PID 1 writes on the console when commands can be run. The keeper waits for it.
pub(crate) const READY: &str = "vshmem-lab: ready";

/// In the guest: the programs of the stage.
pub(crate) const BIN: &str = "/run/vshmem/bin";

/// In the guest: what the agent and clients of the peer guests know. Readable by root.
pub const ORDERS: &str = "/run/vshmem/lab.json";

/// The name under which the kernel looks for PID 1.
pub(crate) const INIT: &str = "/init";
/// The modules, to be loaded in the order of their names.
pub(crate) const MODULES: &str = "/modules";
/// By this name QEMU offers the host's files.
pub(crate) const ROOT_TAG: &str = "root";
/// The orders of a guest that shall only say that it has booted.
pub(crate) const ONLY_BOOT: &str = "only-boot";
/// What it says.
pub(crate) const BOOTED: &str = "vshmem-lab: booted";

/// Connects a domain's network interface to the lab's network. Called by the tools, which give its
/// name and where they wait for the answer.
pub(crate) const CONNECT: &str = "/run/vshmem/connect-interface";

/// By this name QEMU offers the lab's directory on the host: what the other domains boot from.
pub(crate) const LAB_TAG: &str = "lab";
/// Where it is mounted; the host's `/run` is covered.
pub(crate) const LAB: &str = "/run/vshmem/lab";

/// The bridge that dom0's own interface hangs on too.
pub(crate) const BRIDGE: &str = "lab0";

/// The name that the machine gives to the serial port for the agent.
pub(crate) const PORT_NAME: &str = "vshmem-lab";
