//! What a machine needs for the lab, and what to do where it is missing.

use std::fs::OpenOptions;
use std::process::Command;

use crate::host::tool;
use crate::machine::machine;
use crate::model::{GuestKind, Missing};

const TOOLS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("taskset", "util-linux"),
];

/// Everything that is missing for guests of that kind; empty if the lab can run.
pub(crate) fn missing(kind: GuestKind) -> Vec<Missing> {
    let mut missing = machine(kind).missing();
    for (name, package) in TOOLS {
        if tool::find(name).is_none() {
            missing.push(Missing::new(
                format!("the command `{name}`"),
                "not in PATH",
                format!("`apt-get install {package}`"),
            ));
        }
    }
    let uid = rustix::process::geteuid();
    if !uid.is_root() {
        missing.push(Missing::new(
            "root, to make namespaces, taps and users for the guests",
            format!("running as user {}", uid.as_raw()),
            format!("`sudo vshmem lab up --guest {kind}`"),
        ));
        return missing;
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        missing.push(Missing::new(
            "/dev/net/tun, for the guests' network",
            error.to_string(),
            "`modprobe tun`; for a container: `--device /dev/net/tun`",
        ));
    }
    if let Some(unshare) = tool::find("unshare") {
        let attempt = tool::run(Command::new(unshare).args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "/bin/true",
        ]));
        if let Err(error) = attempt {
            missing.push(Missing::new(
                "network, mount and PID namespaces",
                error.to_string(),
                "give this process CAP_SYS_ADMIN and CAP_NET_ADMIN; for a container: `--privileged`",
            ));
        }
    }
    missing
}
