//! What runs in a guest: PID 1, which sets the guest up, starts the agent and reaps; and the agent, which runs
//! commands for clients. Both are the same binary, found again in the stage.

mod agent;
pub(crate) mod dom0;
pub(crate) mod port;
pub(crate) mod ramdisk;
mod session;
mod world;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::WaitOptions;
use rustix::system::{RebootCommand, reboot};

use crate::error::{Doing, Error, Result};
use crate::host::record::{self, Boot};

/// The environment variable that names the file with PID 1's orders.
pub(crate) const BOOT_VARIABLE: &str = "VSHMEM_LAB_BOOT";

/// What PID 1 writes on the console when commands can be run. The keeper waits for it.
pub(crate) const READY: &str = "vshmem-lab: ready";

/// In the guest: the programs of the stage.
pub(crate) const BIN: &str = "/run/vshmem/bin";

/// In the guest: what the agent and clients of the sisters know. Readable by root.
pub(crate) const ORDERS: &str = "/run/vshmem/lab.json";

/// Runs PID 1 of a guest (or its agent, when called by PID 1). Returns only with an error.
pub fn guest_init() -> Result<()> {
    if !rustix::process::getpid().is_init() {
        return agent::serve(&orders()?);
    }
    if std::env::var_os(BOOT_VARIABLE).is_some_and(|orders| orders == ramdisk::ONLY_BOOT) {
        let _ = writeln!(std::io::stdout(), "{}", ramdisk::BOOTED);
    }
    let broken = match first_process() {
        Ok(how) => format!("the agent ended: {how}"),
        Err(error) => error.to_string(),
    };
    // The console is all there is to tell it on; the keeper shows its tail.
    let _ = writeln!(std::io::stdout(), "vshmem-lab: {broken}");
    let _ = reboot(RebootCommand::PowerOff);
    Err(Error::Io { action: "power off".into(), source: std::io::Error::other(broken) })
}

/// The orders that PID 1 left for the agent.
pub(crate) fn orders() -> Result<Boot> {
    record::read(Path::new(ORDERS))?.ok_or_else(|| Error::Io {
        action: format!("read {ORDERS}"),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

fn first_process() -> Result<String> {
    let path = std::env::var_os(BOOT_VARIABLE).ok_or_else(|| Error::Argument {
        what: BOOT_VARIABLE,
        value: String::new(),
        rule: "it must name the guest's orders; is this PID 1 of a lab's guest?",
    })?;
    if ramdisk::here() {
        ramdisk::leave(Path::new(&path))?;
    }
    let boot: Boot = record::read(Path::new(&path))?.ok_or_else(|| Error::Io {
        action: format!("read {path:?}"),
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    world::set_up(&boot)?;
    if boot.guest == record::DOM0 {
        dom0::start()?;
    }
    let agent = Command::new(Path::new(BIN).join(&boot.init))
        .arg(crate::INIT_VERB)
        .env_clear()
        .stdin(Stdio::null())
        .spawn()
        .doing(|| "start the agent".into())?;
    let agent = rustix::process::Pid::from_child(&agent);
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == agent => return Ok(format!("{status:?}")),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).doing(|| "wait for the guest's processes".into()),
        }
    }
}
