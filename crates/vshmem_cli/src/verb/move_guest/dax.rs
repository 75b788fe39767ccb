//! A pool on an nvdimm or virtio-pmem moves with the guest as its memory does: QEMU cannot unplug
//! it, and writes what was saved over the file that backs it at the other end.

use serde_json::{Value, json};

use super::destination::Destination;
use crate::failure::{Failure, failed};
use crate::pool::{GuestDevice, HostPool, OBJECTS, is_same_file};
use crate::qmp::Qmp;

/// Memory that both sides have the same file for is not sent.
const IGNORE_SHARED: &str = "x-ignore-shared";

/// Refuses a pool as what backs the guest's at the other end, above all this one.
pub fn require_other_file(
    device: &GuestDevice,
    pool: &HostPool,
    there: &mut Destination,
) -> Result<(), Failure> {
    let file = file(&mut there.qmp, &device.backend)
        .or_else(|error| failed(format!("{}: {error}", missing(device))))?;
    let is_pool = || {
        vshmem_session::find(&file)
            .is_ok_and(|link| vshmem_session::identify(link.as_ref()).is_ok())
    };
    let is_this = is_same_file(&file, &pool.path) || pool.path.as_os_str() == file.as_str();
    if !file.is_empty() && (is_this || is_pool()) {
        return failed(format!(
            "{file}: it backs {} there and holds a pool, which would be written over with what the guest had when it left. Start that QEMU with another file of the same size (`truncate -s {} FILE`), or, for a QEMU of this host, keep the pool: `--same-host`",
            device.backend, pool.bytes
        ));
    }
    Ok(())
}

/// Has both sides keep the memory that they share; refuses where they do not.
pub fn keep_shared(
    device: &GuestDevice,
    pool: &HostPool,
    here: &mut Qmp,
    there: &mut Destination,
) -> Result<(), Failure> {
    let told = file(&mut there.qmp, &device.backend)
        .or_else(|error| failed(format!("{}: {error}", missing(device))))?;
    if !is_same_file(&told, &pool.path) {
        return failed(format!(
            "{told}: it backs {} there, and the pool is {}. Start that QEMU with the pool's file",
            device.backend,
            pool.path.display()
        ));
    }
    let shared = shared_objects(here).or_else(failed)?;
    for object in shared {
        let ours = file(here, &object).or_else(failed)?;
        let theirs = file(&mut there.qmp, &object).unwrap_or_default();
        let is_shared = is_share(&mut there.qmp, &object);
        if ours.is_empty() || ours != theirs || !is_shared {
            return failed(format!(
                "object {object}: its memory is share=on and the other QEMU does not have the same file for it, so it would be lost. Start both with share=off for it, or with one file"
            ));
        }
    }
    for qmp in [here, &mut there.qmp] {
        let on = json!({ "capabilities": [{ "capability": IGNORE_SHARED, "state": true }] });
        qmp.ask_with("migrate-set-capabilities", &on).or_else(|error| {
            failed(format!("{error}. QEMU keeps shared memory from release 4.0 on"))
        })?;
    }
    Ok(())
}

fn missing(device: &GuestDevice) -> String {
    format!(
        "the other QEMU has no object {}, from which this one has the pool. Start it as this one was started",
        device.backend
    )
}

/// The file of a memory object; empty where it has none.
fn file(qmp: &mut Qmp, object: &str) -> Result<String, String> {
    let path = format!("{OBJECTS}/{object}");
    qmp.children(&path)?;
    Ok(qmp.text(&path, "mem-path").unwrap_or_default())
}

fn is_share(qmp: &mut Qmp, object: &str) -> bool {
    qmp.property(&format!("{OBJECTS}/{object}"), "share") == Ok(Value::Bool(true))
}

/// Memory that would not be sent.
fn shared_objects(qmp: &mut Qmp) -> Result<Vec<String>, String> {
    let mut shared = Vec::new();
    for (name, of) in qmp.children(OBJECTS)? {
        if of.starts_with("child<memory-backend") && is_share(qmp, &name) {
            shared.push(name);
        }
    }
    Ok(shared)
}
