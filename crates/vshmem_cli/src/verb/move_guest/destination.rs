//! The QEMU that a guest moves to.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::failure::{Failure, failed};
use crate::pool::{
    Device, Form, GuestDevice, HostPool, Place, free_port, is_free, is_hotpluggable,
};
use crate::qmp::Qmp;
use vshmem_session::quoted;

/// How often it is asked whether the guest runs there.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the guest may take to go on there when all of it has been sent.
const ARRIVING: Duration = Duration::from_secs(60);

/// It, and the pool that the guest is given there.
pub struct Destination {
    pub qmp: Qmp,
    socket: String,
    pool: HostPool,
    device: Device,
    bus: Option<String>,
}

impl Destination {
    /// Refuses one that could not take the guest, or not the pool. `left`: the device that the
    /// guest has on the other side, if it is still there.
    pub fn prepare(
        socket: &Path,
        pool: HostPool,
        left: Option<&GuestDevice>,
    ) -> Result<Self, Failure> {
        let shown = socket.display();
        let mut qmp = Qmp::connect(socket).or_else(failed)?;
        let status = qmp.status().or_else(failed)?;
        if status != "inmigrate" {
            return failed(format!(
                "{shown}: this QEMU waits for no guest, its status is {status:?}. Start it with `-incoming defer` or `-incoming URI`"
            ));
        }
        let is_dax = left.is_some_and(|left| left.kind == Device::Dax);
        let named = left.filter(|_| pool.served).map(|left| left.kind);
        let device = if is_dax { Device::Dax } else { pool.chosen(named, Form::Qemu)? };
        let bus = match left {
            Some(left) if !is_dax => {
                require_bus(&mut qmp, socket, left)?;
                Some(left.bus_id().to_owned())
            }
            _ => free_port(&mut qmp).or_else(failed)?,
        };
        Ok(Self { qmp, socket: quoted(&shown.to_string()), pool, device, bus })
    }

    /// Has it listen if it was started with `-incoming defer`. With `-incoming URI` it does
    /// already, and refuses; if it does not listen at all, the guest does not get there.
    pub fn listen(&mut self, at: &str) {
        let _ = self.qmp.ask_with("migrate-incoming", &json!({ "uri": at }));
    }

    /// Waits until the guest is there, and gives it the pool.
    pub fn plug_in(&mut self) -> Result<String, Failure> {
        let name = &self.pool.name;
        let place = Place { id: format!("vshmem-{name}"), bus: self.bus.clone() };
        let plugged = self.arrive().and_then(|()| {
            let Self { qmp, pool, device, .. } = self;
            place.plug_in(qmp, pool, *device)
        });
        match plugged {
            Ok(()) => Ok(format!("pool {}: plugged in there, {}", self.pool.name, place.shown())),
            Err(error) => failed(format!(
                "the guest has moved, and could not be given pool {0} there: {error}. `vshmem pool plug {0} --qmp {1}{2}` gives it",
                self.pool.name,
                self.socket,
                self.bus.as_ref().map(|bus| format!(" --bus {bus}")).unwrap_or_default()
            )),
        }
    }

    /// Waits until the guest is there.
    pub fn arrive(&mut self) -> Result<(), String> {
        let end = Instant::now() + ARRIVING;
        while self.qmp.status()? == "inmigrate" {
            if Instant::now() > end {
                return Err(format!("it is not there after {} s", ARRIVING.as_secs()));
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }

    /// The pool that it is given there.
    pub fn pool(&self) -> &HostPool {
        &self.pool
    }
}

/// Refuses a QEMU without the bus that the device is on, or with something on it.
fn require_bus(qmp: &mut Qmp, socket: &Path, left: &GuestDevice) -> Result<(), Failure> {
    let (shown, bus) = (socket.display(), left.bus_id());
    let is_free = match is_hotpluggable(qmp, &left.bus) {
        Ok(true) => is_root_bus(&left.bus) || is_free(qmp, &left.bus).or_else(failed)?,
        Ok(false) | Err(_) => {
            return failed(format!(
                "{shown}: this QEMU has no bus {bus} that takes devices while it runs, and the guest's pool is on one. Start it as the other one was, with the same root port: `-device pcie-root-port,id={bus},...`"
            ));
        }
    };
    if is_free {
        return Ok(());
    }
    failed(format!(
        "{shown}: on its bus {bus} there is a device already. Start it without the pool's: the guest comes without"
    ))
}

/// Whether it is a PCI bus for many devices, and not that of a root port.
fn is_root_bus(bus: &str) -> bool {
    bus.ends_with("/pci.0")
}
