//! What makes a guest Xen's control domain: XenStore, the daemon of the domains' consoles, and what
//! the tools expect to find.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;

use crate::error::{Doing, Error, Result};
use crate::host::directory::{open_directory, set_mode};
use crate::host::tool;
use crate::init::{ramdisk, world};
use crate::model::boot::{BRIDGE, CONNECT, LAB, LAB_TAG};

const XENSTORE: &str = "/run/xenstored/socket";

/// How long a daemon may take to listen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts it.
pub(super) fn start() -> Result<()> {
    world::tmpfs("xenfs", "/proc/xen", "")?;
    for directory in [
        "/run/xen",
        "/run/xenstored",
        "/run/lock",
        "/var/lib/xen",
        "/var/lib/xenstored",
        "/var/log/xen",
    ] {
        open_directory(Path::new(directory))?;
    }
    open_directory(Path::new(LAB))?;
    ramdisk::mounted(LAB_TAG, LAB, "9p", MountFlags::RDONLY, ramdisk::OPTIONS)?;
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = online ] || exit 0\n\
         ip link set \"$vif\" master {BRIDGE} up && xenstore-write \"$XENBUS_PATH/hotplug-status\" connected\n"
    );
    fs::write(CONNECT, script).doing(|| format!("write {CONNECT}"))?;
    set_mode(Path::new(CONNECT), 0o755)?;
    daemon("xenstored", &["--pid-file", "/run/xen/xenstored.pid"])?;
    let end = Instant::now() + TIMEOUT;
    while !Path::new(XENSTORE).exists() {
        if Instant::now() > end {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound))
                .doing(|| format!("find XenStore's socket {XENSTORE}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon("xen-init-dom0", &[])?;
    daemon("xenconsoled", &["--pid-file=/run/xen/xenconsoled.pid"])
}

/// Runs a program of Xen's, whose daemons go on by themselves.
fn daemon(name: &str, options: &[&str]) -> Result<()> {
    let program = tool::find(name).or_else(|| private(name)).unwrap_or_else(|| name.into());
    let status = Command::new(&program)
        .args(options)
        .stdin(Stdio::null())
        .status()
        .doing(|| format!("run {program:?}"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Tool {
        command: [&[name], options].concat().join(" "),
        status: status.to_string(),
        output: "see above".into(),
    })
}

/// Some of its programs are not for people: they lie in a directory that has its version in its
/// name.
fn private(name: &str) -> Option<std::path::PathBuf> {
    let versions = fs::read_dir("/usr/lib").ok()?.flatten();
    versions
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("xen-"))
        .map(|entry| entry.path().join("bin").join(name))
        .find(|program| program.exists())
}
