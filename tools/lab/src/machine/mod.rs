//! What differs by kind of guest, one file per kind, and the containment that is the same for all: a user of its own,
//! a PID namespace of its own, one CPU, no privileges, and death together with the keeper.

mod qemu;
mod uml;
mod xen;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::check::Missing;
use crate::error::{Error, Result};
use crate::host::census;
use crate::host::directory::Directory;
use crate::host::record::Record;
use crate::host::tool;
use crate::options::{GuestKind, UpOptions};
pub use qemu::{Acceleration, kvm_boots_guests};

/// One guest to be started.
pub(crate) struct Plan<'a> {
    pub(crate) guest: u32,
    pub(crate) record: &'a Record,
    pub(crate) directory: &'a Directory,
}

impl Plan<'_> {
    /// The tap that the guest's interface hangs on.
    pub(crate) fn tap(&self) -> String {
        tap(self.guest)
    }

    pub(crate) fn uid(&self) -> u32 {
        self.record.uid(self.guest)
    }
}

/// What a domain of another guest is made from.
pub(crate) struct Description {
    /// The file that describes it to the tools there, by its path there.
    pub(crate) config: PathBuf,
    /// The directory on the host with all that is needed to boot.
    pub(crate) directory: PathBuf,
}

/// The name of a guest's tap in the lab's network namespace.
pub(crate) fn tap(guest: u32) -> String {
    format!("tap{guest}")
}

/// A kind of machine.
pub(crate) trait Machine: Send + Sync {
    /// What the host lacks for this kind.
    fn missing(&self) -> Vec<Missing>;

    /// What a guest is made of, in words.
    fn made_of(&self, record: &Record) -> String;

    /// The name of a guest's network interface.
    fn interface(&self) -> &'static str;

    /// How long a guest may take to boot.
    fn boot_time(&self) -> Duration;

    /// Makes what all guests of a lab boot from, and settles what is to be settled. `binary` is their PID 1.
    fn prepare(
        &self,
        _record: &mut Record,
        _directory: &Directory,
        _binary: &Path,
        _options: &UpOptions,
    ) -> Result<()> {
        Ok(())
    }

    /// A device that the guest must wait for: its drivers find it in their own time.
    fn awaited_device(&self, _record: &Record) -> Option<PathBuf> {
        None
    }

    /// The disk that the guest swaps to.
    fn swap(&self, _record: &Record) -> Option<PathBuf> {
        None
    }

    /// Where a guest finds its programs.
    fn stage(&self, _guest: u32, directory: &Directory) -> PathBuf {
        directory.stage()
    }

    /// By this name the machine offers files that the guest shall lay over the host's.
    fn layer(&self, _guest: u32) -> Option<String> {
        None
    }

    /// Writes what a domain boots from, anew for each boot.
    fn describe(&self, _plan: &Plan<'_>) -> Result<Description> {
        Err(Error::Argument {
            what: "the guest's machine",
            value: "none".into(),
            rule: "it must be of a kind whose guests share one",
        })
    }

    /// A connection or a file that the guest's process inherits.
    fn line(&self, _plan: &Plan<'_>) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// A UNIX socket at the host's end of the guest's serial port for its agent, if the agent is reached that way.
    fn port(&self, _plan: &Plan<'_>) -> Option<PathBuf> {
        None
    }

    /// Ends what was started for all guests of the lab. They are dead.
    fn end(&self) {}

    /// The program and its arguments. Its standard output is the console; it finds its private directory in TMPDIR, and
    /// what it inherited at that descriptor.
    fn words(&self, plan: &Plan<'_>, line: Option<i32>) -> Vec<OsString>;
}

/// The machine of that kind.
pub(crate) fn machine(kind: GuestKind) -> &'static dyn Machine {
    match kind {
        GuestKind::Uml => &uml::Uml,
        GuestKind::Qemu => &qemu::Qemu,
        GuestKind::Xen => &xen::Xen,
    }
}

/// The command that starts a guest, contained.
///
/// `setpriv --pdeathsig` stands twice: the outer one ties `unshare` to the keeper; the inner one ties the namespace's
/// first process to `unshare`, because `--kill-child` is forgotten by the kernel when the process changes its user.
pub(crate) fn contained(plan: &Plan<'_>, line: Option<i32>) -> Command {
    let program =
        |name: &str| tool::find(name).map_or_else(|| OsString::from(name), OsString::from);
    let uid = plan.uid().to_string();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpu = processors(plan.guest, plan.record.cpus as usize, cpus);
    let private = plan.directory.private_of(plan.guest);

    let mut command = Command::new(program("setpriv"));
    command
        .args(["--pdeathsig", "KILL"])
        .arg(program("unshare"))
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(program("setpriv"))
        .args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--no-new-privs"])
        .args(["--inh-caps=-all", "--bounding-set=-all", "--pdeathsig", "KILL"])
        .arg(program("taskset"))
        .args(["--cpu-list", &cpu])
        .args(machine(plan.record.guest).words(plan, line))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", &private)
        .env("TMPDIR", &private)
        .env(census::MARK, plan.directory.guest(plan.guest))
        .current_dir("/");
    command
}

/// The processors of the host that a guest with so many runs on, as a list: its own as far as there are enough.
fn processors(guest: u32, wanted: usize, there: usize) -> String {
    let first = guest.saturating_sub(1) as usize * wanted;
    let mut numbers: Vec<usize> =
        (first..first + wanted.min(there)).map(|number| number % there).collect();
    numbers.sort_unstable();
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_have_processors_of_their_own_as_far_as_there_are_enough() {
        let of = |guest, wanted| processors(guest, wanted, 4);
        assert_eq!([of(1, 1), of(2, 1), of(5, 1)], ["0", "1", "0"]);
        assert_eq!([of(1, 2), of(2, 2), of(3, 2)], ["0,1", "2,3", "0,1"]);
        assert_eq!([of(2, 3), of(1, 9)], ["0,1,3", "0,1,2,3"]);
        // The machine of Xen's guests is guest 0.
        assert_eq!([of(0, 1), of(0, 2)], ["0", "0,1"]);
    }
}
