//! The steps of a move, and what is undone when one of them fails.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vshmem_session::quoted;

use super::dax;
use super::destination::Destination;
use super::migration::migrate;
use super::options::Move;
use crate::again::again;
use crate::failure::{Failure, failed};
use crate::pool::{Device, GuestDevice, HostPool, Place};
use crate::program::own_binary;
use crate::qmp::Qmp;
use crate::show;

/// What is known before anything is done.
pub struct Journey<'a> {
    asked: &'a Move,
    socket: String,
    pool: HostPool,
    here: Qmp,
    /// What shows the pool; `None` if it is gone already.
    device: Option<GuestDevice>,
    there: Option<Destination>,
}

impl<'a> Journey<'a> {
    /// Looks at both sides, and refuses what could not be done to the end.
    pub fn prepare(asked: &'a Move, pool: HostPool, socket: &Path) -> Result<Self, Failure> {
        let mut here = Qmp::connect(socket).or_else(failed)?;
        let socket = quoted(&socket.display().to_string());
        require_here(&mut here, &pool, &socket)?;
        let device = device(asked, &pool, &mut here)?;
        let there = match &asked.qmp_to {
            None => None,
            Some(socket) => {
                let pool = HostPool::of(asked.pool_to.as_ref().unwrap_or(&asked.pool))?;
                Some(Destination::prepare(socket, pool, device.as_ref())?)
            }
        };
        let mut journey = Self { asked, socket, pool, here, device, there };
        match journey.device.as_ref().map(|device| device.kind) {
            Some(Device::Dax) => journey.require_dax()?,
            Some(_) => journey.require_pluggable()?,
            None => {}
        }
        Ok(journey)
    }

    /// Moves the guest.
    pub fn make(mut self) -> Result<(), Failure> {
        if let (Some(domain), false, false) =
            (&self.asked.domain, self.asked.same_host, self.asked.drained)
        {
            self.drain(domain)?;
        }
        let is_dax = self.device.as_ref().is_some_and(|device| device.kind == Device::Dax);
        if !is_dax && self.device.is_some() {
            self.unplug()?;
        }
        self.migrate()?;
        let name = &self.pool.name;
        let Some(there) = &mut self.there else {
            return show::line(
                "on the other host: `vshmem pool plug POOL --qmp SOCKET` gives the guest a pool of that host; then `vshmem pool join POOL` in the guest",
            );
        };
        if is_dax {
            there.arrive().or_else(failed)?;
            return show::line(match self.asked.same_host {
                true => format!("pool {name}: the guest has it there; end the QEMU that it left"),
                false => format!("pool {name}: the guest has a copy of its own there, and no pool"),
            });
        }
        show::line(there.plug_in()?)?;
        show::line(format!(
            "in the guest: `vshmem pool join {}` lets its programs in",
            there.pool().name
        ))
    }

    /// Has the guest's programs leave the pool.
    fn drain(&self, domain: &str) -> Result<(), Failure> {
        let (name, within) = (&self.pool.name, self.asked.within.to_string());
        let left = Command::new(own_binary()?)
            .args(["pool", "drain", name, domain, "--within", &within])
            .status();
        match left {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => failed(format!(
                "pool {name}: {domain} has not left it, so the guest stays and has its device. If a program there keeps the pool, end it. Then, or if no program there has ever used the pool: `{}`; or `vshmem pool join {name}` in the guest if it shall stay",
                self.resumed()
            )),
            Err(error) => failed(format!("`vshmem pool drain {name}`: cannot start it: {error}")),
        }
    }

    /// Takes the device from the guest.
    fn unplug(&mut self) -> Result<(), Failure> {
        let Some(device) = &self.device else { return Ok(()) };
        let (name, driver) = (&self.pool.name, &device.driver);
        match given_up(&mut self.here, &device.path, self.asked.patience()) {
            Ok(true) => {}
            Ok(false) => {
                return failed(format!(
                    "pool {name}: the guest has not given up its {driver} within {} s, and keeps it until its kernel comes to it. When its kernel has booted and is not busy: `{}`; or `vshmem pool join {name}` in the guest if it shall stay",
                    self.asked.within,
                    self.resumed()
                ));
            }
            Err(error) => {
                return failed(format!(
                    "pool {name}: the guest's {driver} cannot be unplugged: {error}. It stays; `vshmem pool join {name}` in the guest has its programs use it again"
                ));
            }
        }
        device.remove_backend(&mut self.here).or_else(|error| {
            failed(format!(
                "pool {name}: the device is unplugged, and QEMU keeps what was behind it: {error}"
            ))
        })?;
        show::line(format!("pool {name}: the guest has given up its {driver}"))
    }

    /// Sends the guest. If that fails, it gets its device back.
    fn migrate(&mut self) -> Result<(), Failure> {
        let to = &self.asked.to;
        if let Some(there) = &mut self.there {
            there.listen(to);
        }
        let limit = Duration::from_secs(self.asked.limit.into());
        match migrate(&mut self.here, to, limit) {
            Ok(took) => show::line(format!("the guest has moved to {to}: {took}")),
            Err(error) => {
                let back = self.plug_back();
                failed(format!(
                    "the guest has not moved to {to}: {error}. {back} When the cause is gone: `{}`",
                    self.resumed()
                ))
            }
        }
    }

    /// Gives the guest its device again, and says how that went.
    fn plug_back(&mut self) -> String {
        let name = &self.pool.name;
        let Some(device) = self.device.as_ref().filter(|device| device.kind != Device::Dax) else {
            return "It goes on here.".into();
        };
        if device.kind == Device::Doorbell && !is_hardware(&mut self.here) {
            return format!(
                "It goes on here, without pool {name}: an emulated QEMU that a doorbell was taken from goes on waiting for it, and may not survive another one. Start the guest anew, or move it."
            );
        }
        let id = match device.id.as_str() {
            "" => format!("vshmem-{name}"),
            id => id.to_owned(),
        };
        let place = Place { id, bus: Some(device.bus_id().to_owned()) };
        match place.plug_in(&mut self.here, &self.pool, device.kind) {
            Ok(()) => format!(
                "It goes on here and has its device again; `vshmem pool join {name}` in it lets its programs in."
            ),
            Err(error) => format!(
                "It goes on here, and its device could not be plugged back ({error}): `vshmem pool plug {name} --qmp {} --bus {}`.",
                self.socket,
                device.bus_id()
            ),
        }
    }

    /// The same command, from where the guest has left the pool.
    fn resumed(&self) -> String {
        let added: &[&str] = if self.asked.same_host { &[] } else { &["--drained"] };
        again(&[("--drained", false)], added)
    }

    /// Refuses a device that QEMU would not unplug.
    fn require_pluggable(&mut self) -> Result<(), Failure> {
        let Some(device) = &self.device else { return Ok(()) };
        let (name, driver, bus) = (&self.pool.name, &device.driver, device.bus_id());
        if self.asked.same_host {
            return failed(format!(
                "pool {name}: the guest has it as {driver}, and QEMU sends no guest that has one. Without --same-host it is unplugged, and plugged in again at the other end: `{}`",
                again(&[("--same-host", false)], &[])
            ));
        }
        if !device.is_unpluggable(&mut self.here).or_else(failed)? {
            return failed(format!(
                "pool {name}: the guest has it as {driver} on bus {bus}, from which nothing can be unplugged while it runs. Start the guest with `-device pcie-root-port,id=rp0,chassis=1,pref64-reserve=SIZE`, with a SIZE that is not less than the pool's, and the device with `bus=rp0`"
            ));
        }
        match self.here.status().or_else(failed)?.as_str() {
            "running" => Ok(()),
            other => failed(format!(
                "the guest's status is {other:?}, and its kernel has to run to give up the pool's device. Let it go on (`cont` in QEMU's monitor)"
            )),
        }
    }

    /// Refuses to have what the guest saved written over a pool.
    fn require_dax(&mut self) -> Result<(), Failure> {
        let Self { asked, pool, here, device: Some(device), there, .. } = self else {
            return Ok(());
        };
        let Some(there) = there else {
            return failed(format!(
                "pool {}: the guest has it as {}, which QEMU cannot unplug: what it saved is written over the file that backs it at the other end. Let this command look at that: `{}`, and `--same-host` to keep the pool on this host",
                pool.name,
                device.driver,
                again(&[], &["--qmp-to", "SOCKET"])
            ));
        };
        if asked.same_host {
            return dax::keep_shared(device, pool, here, there);
        }
        if asked.pool_to.is_some() {
            return Err(Failure::Usage(format!(
                "--pool-to: the guest has the pool as {}, and no other can be plugged in for it",
                device.driver
            )));
        }
        dax::require_other_file(device, pool, there)
    }
}

/// Refuses a guest that is at the other end already: this command was broken off, say.
fn require_here(qmp: &mut Qmp, pool: &HostPool, socket: &str) -> Result<(), Failure> {
    if qmp.status().or_else(failed)? != "postmigrate" {
        return Ok(());
    }
    failed(format!(
        "the guest has moved already, or was saved: its status is \"postmigrate\". Where it runs now, `vshmem pool plug {} --qmp SOCKET` gives it a pool; if it shall go on here, `cont` in QEMU's monitor, and `vshmem pool plug {0} --qmp {socket}`",
        pool.name
    ))
}

/// Whether the guest's CPUs are real ones (KVM), and a doorbell is rung by its kernel.
fn is_hardware(qmp: &mut Qmp) -> bool {
    qmp.ask("query-kvm").is_ok_and(|kvm| kvm.get("enabled") == Some(&Value::Bool(true)))
}

/// The one device that shows the pool.
fn device(asked: &Move, pool: &HostPool, qmp: &mut Qmp) -> Result<Option<GuestDevice>, Failure> {
    let mut all = GuestDevice::all(qmp, pool, asked.device.as_deref()).or_else(failed)?;
    let name = &pool.name;
    match (all.len(), asked.drained) {
        (0, true) => Ok(None),
        (1, _) => Ok(all.pop()),
        (0, false) => failed(format!(
            "pool {name}: no device of the guest shows it. If it is unplugged already, `{}`; if QEMU has its file by another name, `--device ID`",
            again(&[], &["--drained"])
        )),
        _ => {
            let ids: Vec<&str> = all.iter().map(|device| device.path.as_str()).collect();
            failed(format!(
                "pool {name}: several devices of the guest show it: {}. It can leave with one alone",
                ids.join(", ")
            ))
        }
    }
}

/// Has the guest give a device up. False: it has not done so in time.
fn given_up(qmp: &mut Qmp, path: &str, patience: Duration) -> Result<bool, String> {
    match qmp.ask_with("device_del", &json!({ "id": path })) {
        // Asked for earlier.
        Err(error) if !error.contains("already in the process") => return Err(error),
        _ => {}
    }
    let end = Instant::now() + patience;
    let found = qmp.event(end, |name, data| {
        let is_meant = data.get("path").and_then(Value::as_str) == Some(path);
        match name {
            "DEVICE_DELETED" if is_meant => Some(Ok(())),
            "DEVICE_UNPLUG_GUEST_ERROR" if is_meant => Some(Err("its kernel refuses".to_owned())),
            _ => None,
        }
    })?;
    found.transpose().map(|found| found.is_some())
}
