//! What the host must have for an emulated machine.

use std::path::PathBuf;

use crate::host::tool;
use crate::machine::qemu::kernel;
use crate::model::Missing;

pub(crate) fn qemu() -> Option<PathBuf> {
    tool::find("qemu-system-x86_64")
}

/// What this machine lacks for any emulated machine that boots from a ramdisk.
pub(crate) fn missing_for_emulation() -> Vec<Missing> {
    let mut missing = Vec::new();
    if cfg!(not(target_arch = "x86_64")) {
        missing.push(Missing::new(
            "an x86-64 host",
            std::env::consts::ARCH,
            "where there is User Mode Linux: `vshmem lab up --guest uml`",
        ));
    }
    if qemu().is_none() {
        missing.push(Missing::new(
            "QEMU (`qemu-system-x86_64`)",
            "not in PATH",
            "`apt-get install qemu-system-x86`",
        ));
    }
    if tool::find("ldd").is_none() {
        missing.push(Missing::new(
            "the command `ldd`",
            "not in PATH",
            "`apt-get install libc-bin`",
        ));
    }
    missing
}

pub(crate) fn no_kernel(found: String) -> Missing {
    Missing::new(
        "a kernel for the guests, with its modules",
        found,
        format!(
            "`apt-get install linux-image-amd64` (or scripts/setup guests in the source tree), or name a directory that has boot/vmlinuz-RELEASE and lib/modules/RELEASE in {}",
            kernel::VARIABLE
        ),
    )
}
