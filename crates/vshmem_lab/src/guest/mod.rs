//! What differs by kind of guest, one file per kind, and the containment that is the same for all: a user of its own,
//! a PID namespace of its own, one CPU, no privileges, and death together with the keeper.

mod uml;

use std::ffi::OsString;
use std::process::Command;

use crate::check::Missing;
use crate::directory::Directory;
use crate::options::GuestKind;
use crate::record::Record;
use crate::{census, tool};

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

/// The name of a guest's tap in the lab's network namespace.
pub(crate) fn tap(guest: u32) -> String {
    format!("tap{guest}")
}

/// A kind of machine.
pub(crate) trait Machine: Send + Sync {
    /// What the host lacks for this kind.
    fn missing(&self) -> Vec<Missing>;

    /// The program and its arguments. Its standard output is the console; it finds its private directory in TMPDIR.
    fn words(&self, plan: &Plan<'_>) -> Vec<OsString>;
}

/// The machine of that kind.
pub(crate) fn machine(kind: GuestKind) -> &'static dyn Machine {
    match kind {
        GuestKind::Uml => &uml::Uml,
    }
}

/// The command that starts a guest, contained.
///
/// `setpriv --pdeathsig` stands twice: the outer one ties `unshare` to the keeper; the inner one ties the namespace's
/// first process to `unshare`, because `--kill-child` is forgotten by the kernel when the process changes its user.
pub(crate) fn contained(plan: &Plan<'_>) -> Command {
    let program =
        |name: &str| tool::find(name).map_or_else(|| OsString::from(name), OsString::from);
    let uid = plan.uid().to_string();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpu = ((plan.guest - 1) as usize % cpus).to_string();
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
        .args(machine(plan.record.guest).words(plan))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", &private)
        .env("TMPDIR", &private)
        .env(census::MARK, plan.directory.guest(plan.guest))
        .current_dir("/");
    command
}
