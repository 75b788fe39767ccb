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
    /// QEMU, with KVM where a guest really boots under it, else emulated.
    Qemu,
    /// Domains of one Xen, in an emulated machine; guest 0 is their control domain, dom0.
    Xen,
}

impl std::fmt::Display for GuestKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GuestKind::Uml => "uml",
            GuestKind::Qemu => "qemu",
            GuestKind::Xen => "xen",
        })
    }
}

/// The device by which a QEMU guest is given the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// ivshmem-plain: memory alone.
    #[default]
    Plain,
    /// ivshmem-doorbell: memory and interrupts; a server on the host hands both out.
    Doorbell,
    /// An nvdimm that is used as a dax device: no driver of ours, no interrupts.
    Dax,
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Device::Plain => "ivshmem-plain",
            Device::Doorbell => "ivshmem-doorbell",
            Device::Dax => "dax",
        })
    }
}

/// How QEMU guests are to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acceleration {
    /// KVM where a guest boots under it, else emulation.
    #[default]
    Auto,
    /// The processor itself (KVM).
    Kvm,
    /// Emulation (TCG).
    Tcg,
}

/// The server that ivshmem-doorbell needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Where it listens.
    pub socket: PathBuf,
    /// The command that starts it where none listens; it ends with the lab.
    pub command: Vec<String>,
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
    /// Processors of a QEMU guest, or of the machine that Xen guests share. A User Mode Linux
    /// guest has one.
    pub cpus: u32,
    /// Memory of each guest. Its tmpfs file systems live in it too.
    pub memory_mib: u32,
    /// A disk of its own to swap to for each User Mode Linux guest, in MiB; 0: none. It is a file
    /// in /var/tmp that has no name, and goes with the guest.
    pub swap_mib: u32,
    /// The pool's file, given to the guests as `/dev/mmapper` or by `device`.
    pub pool: Option<PathBuf>,
    /// The pool's name, written to `/run/vshmem/pool` in the guests.
    pub pool_name: Option<String>,
    /// Where `vshmem`, `libvshmem_preload.so` and `libvshmem.so` are; those found are at
    /// `/run/vshmem/bin` in the guests.
    pub binary_dir: PathBuf,
    /// More files for `/run/vshmem/bin`, for example test programs in a directory that the guests
    /// cannot enter.
    pub stage: Vec<PathBuf>,
    /// The binary that offers the hidden verbs; the running one if `None`.
    pub binary: Option<PathBuf>,
    /// A command to run when a guest has died: `{guest}` in its words becomes the domain name
    /// (`guest1`).
    pub on_death: Option<Vec<String>>,
    /// Mode of the pool's device in the guests: `/dev/mmapper`, `/dev/vshmem/NAME` or
    /// `/dev/dax0.0`.
    pub device_mode: u32,
    /// How QEMU guests are given the pool.
    pub device: Device,
    /// How QEMU guests run.
    pub acceleration: Acceleration,
    /// The server for [`Device::Doorbell`].
    pub server: Option<Server>,
    /// The driver for ivshmem devices, built for the guests' kernel; loaded when they boot.
    pub driver: Option<PathBuf>,
    /// Do the guests' agents notify each other by datagrams, over the lab's network?
    pub notify: bool,
    /// May the root user of one guest run commands in its peer guest guests (`mpirun` needs it)?
    pub peer_exec: bool,
}

impl Default for UpOptions {
    fn default() -> Self {
        UpOptions {
            name: "default".into(),
            guest: GuestKind::Uml,
            count: 2,
            cpus: 1,
            memory_mib: 512,
            swap_mib: 0,
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
            device: Device::default(),
            acceleration: Acceleration::default(),
            server: None,
            driver: None,
            notify: false,
            peer_exec: true,
        }
    }
}
