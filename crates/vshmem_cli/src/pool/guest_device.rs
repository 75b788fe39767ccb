//! The devices by which a guest of QEMU has a pool, as its monitor shows them.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use super::show_as::{Device, HostPool};
use crate::qmp::Qmp;

/// Where devices are: those with an id, then those without.
const PLACES: [&str; 2] = ["/machine/peripheral", "/machine/peripheral-anon"];
/// Where the objects are that memory devices get their memory from.
pub const OBJECTS: &str = "/objects";

/// A device of a guest's that shows a pool.
#[derive(Debug)]
pub struct GuestDevice {
    /// Where QEMU has it.
    pub path: String,
    /// Its id; empty where it was given none.
    pub id: String,
    /// What it is.
    pub kind: Device,
    /// QEMU's word for that.
    pub driver: String,
    /// Where QEMU has the bus that it is on; empty for an nvdimm.
    pub bus: String,
    /// Id of the object that it has its memory from; of a doorbell, of its connection to the
    /// server.
    pub backend: String,
}

impl GuestDevice {
    /// The devices of a guest that show this pool. `named`: the one of this id, whatever QEMU knows
    /// of its memory.
    pub fn all(qmp: &mut Qmp, pool: &HostPool, named: Option<&str>) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for place in PLACES {
            for (name, of) in qmp.children(place)? {
                let driver = of.trim_start_matches("child<").trim_end_matches('>').to_owned();
                let Some(kind) = kind(&driver) else { continue };
                let path = format!("{place}/{name}");
                let id = if place == PLACES[0] { name } else { String::new() };
                let bus = qmp.text(&path, "parent_bus")?;
                let (backend, shown) = shown(qmp, &path, kind)?;
                let wanted = if kind == Device::Doorbell { &pool.socket } else { &pool.path };
                let is_meant = named.map_or(is_same_file(&shown, wanted), |named| named == id);
                if is_meant {
                    all.push(Self { path, id, kind, driver, bus, backend });
                }
            }
        }
        Ok(all)
    }

    /// The id of its bus.
    pub fn bus_id(&self) -> &str {
        self.bus.rsplit('/').next().unwrap_or_default()
    }

    /// Whether a device on its bus can be taken from a guest that runs.
    pub fn is_unpluggable(&self, qmp: &mut Qmp) -> Result<bool, String> {
        Ok(!self.bus.is_empty() && is_hotpluggable(qmp, &self.bus)?)
    }

    /// Removes what it had its memory from, after the device itself.
    pub fn remove_backend(&self, qmp: &mut Qmp) -> Result<(), String> {
        remove_backend(qmp, self.kind, &self.backend)
    }
}

/// Removes an object that has a pool's memory, or a connection to its server.
pub fn remove_backend(qmp: &mut Qmp, kind: Device, id: &str) -> Result<(), String> {
    let command = if kind == Device::Doorbell { "chardev-remove" } else { "object-del" };
    qmp.ask_with(command, &json!({ "id": id })).map(|_| ())
}

/// Whether devices come to a bus, and go, while the guest runs.
pub fn is_hotpluggable(qmp: &mut Qmp, bus: &str) -> Result<bool, String> {
    Ok(!qmp.text(bus, "hotplug-handler")?.is_empty())
}

/// Which kind of device that shows pools a driver of QEMU's is.
fn kind(driver: &str) -> Option<Device> {
    match driver {
        "ivshmem-plain" => Some(Device::Plain),
        "ivshmem-doorbell" => Some(Device::Doorbell),
        _ => (driver == "nvdimm" || driver.starts_with("virtio-pmem")).then_some(Device::Dax),
    }
}

/// The object behind a device, and its file or the socket of the server.
fn shown(qmp: &mut Qmp, device: &str, kind: Device) -> Result<(String, String), String> {
    if kind == Device::Doorbell {
        let label = qmp.text(device, "chardev")?;
        // Older releases of QEMU do not say; `--device ID` names the device then.
        let address = qmp.property(&format!("/chardevs/{label}"), "addr").unwrap_or_default();
        let path = address.get("path").and_then(|path| path.as_str()).unwrap_or_default();
        return Ok((label, path.to_owned()));
    }
    let object = qmp.text(device, "memdev")?;
    // Memory of no file has no such property.
    let path = qmp.text(&object, "mem-path").unwrap_or_default();
    Ok((object.rsplit('/').next().unwrap_or_default().to_owned(), path))
}

/// Whether a path that QEMU tells of leads to this file, by whatever name.
pub fn is_same_file(told: &str, file: &Path) -> bool {
    let identity = |path: &Path| metadata(path).map(|of| (of.dev(), of.ino())).ok();
    let found = identity(Path::new(told));
    found.is_some() && found == identity(file)
}
