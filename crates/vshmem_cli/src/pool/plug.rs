//! `vshmem pool plug`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::guest_device::{GuestDevice, is_hotpluggable, remove_backend};
use super::show_as::{Device, Form, HostPool};
use crate::failure::{Outcome, failed};
use crate::qmp::Qmp;
use crate::show;

/// Plug a pool into a QEMU guest that runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Plug {
    /// The pool's name.
    name: String,
    /// The guest's monitor: the socket of QEMU's `-qmp unix:SOCKET,server=on,wait=off`.
    #[arg(long, value_name = "SOCKET")]
    qmp: PathBuf,
    /// What kind of device. Without: doorbell while the pool has a server, else plain.
    #[arg(long)]
    device: Option<Device>,
    /// The bus: on a q35 machine the id of a pcie-root-port. Without: the first one that is free.
    #[arg(long, value_name = "ID")]
    bus: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem pool plug job7 --qmp /run/guest1.qmp
  vshmem pool plug job7 --qmp /run/guest1.qmp --device plain --bus rp0

A q35 machine takes devices while it runs behind a root port alone. Start it with one for each pool:
  -device pcie-root-port,id=rp0,chassis=1,pref64-reserve=2G      at least as large as the pool";

impl Plug {
    /// Plugs it in.
    pub fn carry_out(self) -> Outcome {
        let pool = HostPool::of(&self.name)?;
        let device = pool.chosen(self.device, Form::Qemu)?;
        if device == Device::Dax {
            return failed(format!(
                "pool {0}: it was made with --dax, and a guest has such a pool from its start on: `vshmem pool show {0} --as qemu` prints QEMU's arguments",
                pool.name
            ));
        }
        let mut qmp = Qmp::connect(&self.qmp).or_else(failed)?;
        // A guest that arrives later would not know of the device.
        if qmp.status().or_else(failed)? == "inmigrate" {
            return failed(format!(
                "pool {}: this QEMU waits for a guest, which is not there yet. Plug the pool in when it runs (`query-status` in QEMU's monitor says so)",
                pool.name
            ));
        }
        if let Some(device) = GuestDevice::all(&mut qmp, &pool, None).or_else(failed)?.first() {
            return failed(format!(
                "pool {}: the guest has it already, as {} at {}. In the guest, `vshmem pool ls` shows it",
                pool.name, device.driver, device.path
            ));
        }
        let bus = match self.bus {
            Some(bus) => Some(bus),
            None => free_port(&mut qmp).or_else(failed)?,
        };
        let place = Place { id: format!("vshmem-{}", pool.name), bus };
        place.plug_in(&mut qmp, &pool, device).or_else(|error| {
            failed(format!(
                "pool {}: it cannot be plugged into the guest: {error}. `vshmem pool plug --help` says what QEMU has to be started with",
                pool.name
            ))
        })?;
        show::line(format!(
            "pool {}: plugged in as {}, {}",
            pool.name,
            driver(device),
            place.shown()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Where a device is plugged in.
#[derive(Debug)]
pub struct Place {
    /// Id of the device, and of the object behind it.
    pub id: String,
    /// Id of the bus; without it QEMU chooses one.
    pub bus: Option<String>,
}

impl Place {
    /// Gives a guest a pool. What an attempt before this one has left is removed first, and what
    /// this one leaves when it fails.
    pub fn plug_in(&self, qmp: &mut Qmp, pool: &HostPool, device: Device) -> Result<(), String> {
        let id = &self.id;
        let mut shows = json!({ "driver": driver(device), "id": id });
        let (command, behind) = match device {
            Device::Doorbell => {
                let path = json!({ "type": "unix", "data": { "path": pool.socket } });
                let socket = json!({ "addr": path, "server": false });
                shows["chardev"] = json!(id);
                shows["vectors"] = json!(pool.vectors);
                (
                    "chardev-add",
                    json!({ "id": id, "backend": { "type": "socket", "data": socket } }),
                )
            }
            Device::Plain => {
                shows["memdev"] = json!(id);
                let file = json!({
                    "qom-type": "memory-backend-file", "id": id, "share": true,
                    "mem-path": pool.path, "size": pool.bytes
                });
                ("object-add", file)
            }
            Device::Dax => return Err("an nvdimm is there from the guest's start on".into()),
        };
        if let Some(bus) = &self.bus {
            shows["bus"] = json!(bus);
        }
        // There is one only after an attempt that was broken off.
        let _ = remove_backend(qmp, device, id);
        qmp.ask_with(command, &behind)?;
        qmp.ask_with("device_add", &shows).map(|_: Value| ()).map_err(|error| match remove_backend(
            qmp, device, id,
        ) {
            Ok(()) => error,
            Err(further) => format!("{error}; {further}"),
        })
    }

    /// As it is told.
    pub fn shown(&self) -> String {
        match &self.bus {
            Some(bus) => format!("id {}, bus {bus}", self.id),
            None => format!("id {}", self.id),
        }
    }
}

/// QEMU's word for a device that can be plugged in.
fn driver(device: Device) -> &'static str {
    if device == Device::Doorbell { "ivshmem-doorbell" } else { "ivshmem-plain" }
}

/// The first root port with nothing behind it.
pub fn free_port(qmp: &mut Qmp) -> Result<Option<String>, String> {
    const DEVICES: &str = "/machine/peripheral";
    for (id, of) in qmp.children(DEVICES)? {
        let bus = format!("{DEVICES}/{id}/{id}");
        if of == "child<pcie-root-port>" && is_hotpluggable(qmp, &bus)? && is_free(qmp, &bus)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Whether nothing is on a bus.
pub fn is_free(qmp: &mut Qmp, bus: &str) -> Result<bool, String> {
    Ok(!qmp.children(bus)?.iter().any(|(name, _)| name.starts_with("child[")))
}
