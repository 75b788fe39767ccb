//! A file of the Container Device Interface (the CNCF's container-device-interface, SPEC.md).

use std::path::Path;

use serde_json::{Value, json};

use super::host_pool::HostPool;
use crate::failure::{Failure, failed};

/// Seconds that an engine gives the hook: the agent of a pool that is damaged, or of a machine that
/// is overloaded, keeps no container from being started for ever.
const TIMEOUT: u32 = 30;

/// Vendor and class of the devices.
pub const KIND: &str = "vshmem.io/pool";

/// The file. Its hook runs on the host, before the container's program: from then on an agent there
/// notices the container's end.
pub fn file(pool: &HostPool, command: &Path) -> Result<String, Failure> {
    let name = &pool.name;
    if !name.ends_with(|end: char| end.is_ascii_alphanumeric()) {
        return failed(format!(
            "pool {name}: the name of a CDI device ends with a letter or a digit. Give the pool such a name, or use --as podman"
        ));
    }
    let path = pool.path.display().to_string();
    let hook: Value = json!({
        "hookName": "createRuntime",
        "path": command.display().to_string(),
        // The hook refuses a file of another owner: it was made after the pool was removed.
        "args": ["vshmem", "agent", "--keep", "--pool", path, "--owner", pool.owner.to_string()],
        "timeout": TIMEOUT,
    });
    let edits = json!({
        "env": [format!("VSHMEM_POOL={}", pool.reference())],
        "mounts": [{
            "hostPath": path, "containerPath": path, "options": ["rw", "rbind", "nosuid", "nodev"],
        }],
        "hooks": [hook],
    });
    // Names of devices may begin with a digit since 0.5.0. Engines refuse versions that they do not
    // know, so the lowest one that will do is named.
    let version =
        if name.starts_with(|first: char| first.is_ascii_alphabetic()) { "0.3.0" } else { "0.5.0" };
    let file = json!({
        "cdiVersion": version,
        "kind": KIND,
        "devices": [{ "name": name, "containerEdits": edits }],
    });
    Ok(format!("{file:#}\n"))
}
