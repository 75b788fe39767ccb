//! The containment that is the same for all kinds.

use std::ffi::OsString;
use std::process::Command;

use crate::host::{guest_processes, tool};
use crate::machine::plan::Plan;

/// The command that starts a guest with `words`, contained.
///
/// `setpriv --pdeathsig` stands twice: the outer one ties `unshare` to the keeper; the inner one
/// ties the namespace's first process to `unshare`, because `--kill-child` is forgotten by the
/// kernel when the process changes its user.
pub(crate) fn contained(plan: &Plan<'_>, words: Vec<OsString>) -> Command {
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
        .args(words)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", &private)
        .env("TMPDIR", &private)
        .env(guest_processes::MARK, plan.directory.guest(plan.guest))
        .current_dir("/");
    command
}

/// The processors of the host that a guest with so many runs on, as a list: its own as far as there
/// are enough.
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
