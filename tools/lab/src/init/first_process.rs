//! PID 1 of a guest: it sets the guest up, starts the agent and reaps.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::WaitOptions;
use rustix::system::{RebootCommand, reboot};

use crate::error::{Doing, Error, Result};
use crate::host::json;
use crate::init::orders::{orders, tunables};
use crate::init::{agent, dom0, ramdisk, world};
use crate::model::boot::{BIN, BOOT_VARIABLE, BOOTED, Boot, ONLY_BOOT};
use crate::model::names::{DOM0, INIT_VERB};

/// Runs PID 1 of a guest (or its agent, when called by PID 1). Returns only with an error.
pub fn guest_init() -> Result<()> {
    if !rustix::process::getpid().is_init() {
        return agent::serve(&orders()?);
    }
    if std::env::var_os(BOOT_VARIABLE).is_some_and(|orders| orders == ONLY_BOOT) {
        let _ = writeln!(std::io::stdout(), "{}", BOOTED);
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

fn first_process() -> Result<String> {
    let path = std::env::var_os(BOOT_VARIABLE).ok_or_else(|| Error::Argument {
        what: BOOT_VARIABLE,
        value: String::new(),
        rule: "it must name the guest's orders; is this PID 1 of a lab's guest?",
    })?;
    if ramdisk::here() {
        ramdisk::leave(Path::new(&path))?;
    }
    let boot: Boot = json::read(Path::new(&path))?.ok_or_else(|| Error::Io {
        action: format!("read {path:?}"),
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    world::set_up(&boot)?;
    if boot.guest == DOM0 {
        dom0::start()?;
    }
    let agent = Command::new(Path::new(BIN).join(&boot.init))
        .arg(INIT_VERB)
        .env_clear()
        .envs(tunables())
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
