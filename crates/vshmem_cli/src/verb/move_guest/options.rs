//! What `vshmem move` is asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Move a QEMU guest that has a pool: it leaves the pool, moves, and is given one again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Move {
    /// The pool's name.
    pub pool: String,
    /// The guest's domain in the pool, as `vshmem ls` shows it.
    #[arg(required_unless_present_any = ["drained", "same_host"])]
    pub domain: Option<String>,
    /// The guest's monitor: the socket of QEMU's `-qmp unix:SOCKET,server=on,wait=off`.
    #[arg(long, value_name = "SOCKET", required_unless_present = "virsh")]
    pub qmp: Option<PathBuf>,
    /// Where it moves, in QEMU's words: tcp:HOST:PORT, unix:PATH; with --virsh, an address of
    /// libvirt.
    #[arg(long, value_name = "URI")]
    pub to: String,
    /// The monitor of the QEMU that waits for it with `-incoming`, on this host: the pool is
    /// plugged in there. Without it do that on the other host, with `vshmem pool plug`.
    #[arg(long, value_name = "SOCKET")]
    pub qmp_to: Option<PathBuf>,
    /// The pool that it is given there. Without: the same.
    #[arg(long, value_name = "POOL", conflicts_with = "same_host")]
    pub pool_to: Option<String>,
    /// Id of the device that shows the pool, where QEMU does not tell its file or socket.
    #[arg(long, value_name = "ID", conflicts_with = "virsh")]
    pub device: Option<String>,
    /// It has left the pool already, and its device may be gone: go on from there.
    #[arg(long, conflicts_with = "virsh")]
    pub drained: bool,
    /// To another QEMU of this host, such as a newer release: a pool on an nvdimm or virtio-pmem
    /// stays, and its programs go on.
    #[arg(long, requires = "qmp_to", conflicts_with_all = ["drained", "virsh"])]
    pub same_host: bool,
    /// Seconds that the guest's programs have to leave the pool, and then its kernel to give up the
    /// device.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub within: u32,
    /// Seconds that the guest may take to move.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub limit: u32,
    /// Print what to do, for a guest of libvirt's by this name, and do nothing.
    #[arg(long, value_name = "GUEST", conflicts_with_all = ["qmp", "qmp_to"])]
    pub virsh: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem move job7 guest2 --qmp /run/guest2.qmp --to tcp:other:4444
  vshmem move job7 guest2 --qmp /run/guest2.qmp --to unix:/run/m --qmp-to /run/new.qmp --pool-to job8
  vshmem move pmem7 --same-host --qmp /run/guest2.qmp --to unix:/run/m --qmp-to /run/new.qmp
  vshmem move job7 guest2 --virsh guest2 --to qemu+ssh://other/system

Run it on the host, as the user who runs the guest. The other QEMU is started as the first was,
without the device of the pool, and with `-incoming defer` or `-incoming URI`; on a q35 machine the
device is behind a pcie-root-port, and the other QEMU has the same one. If a step fails, the device
is plugged back, and a sentence says what to do.";

impl Move {
    /// How long the guest's kernel may take to give up the device.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.within.into())
    }
}
