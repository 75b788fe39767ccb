//! Booting a lab.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::check::missing;
use crate::error::{Doing, Error, Result};
use crate::host::directory::{Directory, NamingLock, open_directory, set_mode};
use crate::host::log::tail;
use crate::host::record::Record;
use crate::host::sweep::sweep;
use crate::host::{admission, guest_processes, tool};
use crate::lab::down::{end_keeper, reap_all};
use crate::lab::users::{MOST_GUESTS, free_users};
use crate::machine::machine;
use crate::model::names::KEEPER_VERB;
use crate::model::{GuestKind, UpOptions};
use crate::transport::control::{ACKNOWLEDGED, Outcome};

/// Boots a lab, and returns when commands can be run in all its guests.
pub(super) fn up(options: &UpOptions) -> Result<(Record, Directory)> {
    let directory = Directory::of(&options.name)?;
    check_options(options)?;
    let binary = match &options.binary {
        Some(path) => path.clone(),
        None => std::env::current_exe().doing(|| "find the running binary".into())?,
    };
    let pool = match &options.pool {
        Some(path) => Some(path.canonicalize().doing(|| format!("find the pool's file {path:?}"))?),
        None => None,
    };
    let lock = NamingLock::take()?;
    clear_former(&directory)?;
    let mut record = record(options, pool, &binary)?;
    let begun = begin(&directory, &mut record, &binary, options);
    drop(lock);
    match begun.and_then(|child| await_keeper(&record, &directory, child, LOOK)) {
        Ok(()) => Ok((record, directory)),
        Err(error) => {
            if let Some(keeper) = record.living_keeper() {
                end_keeper(keeper, &directory);
            }
            sweep(&record, &directory)?;
            Err(error)
        }
    }
}

fn check_options(options: &UpOptions) -> Result<()> {
    if !(1..=MOST_GUESTS).contains(&options.count) {
        return Err(Error::Argument {
            what: "the number of guests",
            value: options.count.to_string(),
            rule: "1 to 64",
        });
    }
    if options.swap_mib > 0 && options.guest != GuestKind::Uml {
        return Err(Error::Argument {
            what: "the disk to swap to",
            value: format!("{}M", options.swap_mib),
            rule: "only User Mode Linux guests are given one",
        });
    }
    let missing = missing(options.guest);
    if missing.is_empty() { Ok(()) } else { Err(Error::Missing(missing)) }
}

/// Clears away a lab of that name whose keeper has died. The caller holds the naming lock.
fn clear_former(directory: &Directory) -> Result<()> {
    if let Some(old) = Record::read(directory)? {
        if let Some(keeper) = old.living_keeper() {
            return Err(Error::AlreadyUp { name: old.name, keeper });
        }
        reap_all(&old, directory)?;
    }
    directory.remove_contents()
}

/// What is written down before anything is started. The caller holds the naming lock.
fn record(options: &UpOptions, pool: Option<PathBuf>, binary: &Path) -> Result<Record> {
    Ok(Record {
        name: options.name.clone(),
        guest: options.guest,
        count: options.count,
        cpus: options.cpus,
        memory_mib: options.memory_mib,
        swap_mib: options.swap_mib,
        pool,
        pool_name: options.pool_name.clone(),
        on_death: options.on_death.clone(),
        device_mode: options.device_mode,
        device: options.device,
        server: options.server.clone(),
        accelerated: false,
        notify: options.notify,
        peer_exec: options.peer_exec,
        init: file_name(binary)?,
        first_uid: free_users()?,
        keeper: None,
    })
}

/// Makes the lab's directory and starts its keeper. The caller holds the naming lock.
fn begin(
    directory: &Directory,
    record: &mut Record,
    binary: &Path,
    options: &UpOptions,
) -> Result<Child> {
    open_directory(directory.path())?;
    // First, so that a `down` that comes at any time later knows what to look for.
    record.write(directory)?;
    for path in [directory.stage(), directory.private()] {
        open_directory(&path)?;
    }
    for guest in record.guests() {
        open_directory(&directory.guest(guest))?;
    }
    stage(directory, binary, options)?;
    machine(record.guest).prepare(record, directory, binary, options)?;
    // The keeper reads what was chosen.
    record.write(directory)?;
    admission::require_readable(&directory.stage().join(&record.init), record.uid(1))?;
    admission::admit_locked(record, record.guests())?;
    let log = directory.keeper_log();
    let log = File::create(&log).doing(|| format!("create {log:?}"))?;
    // In place, each of them: the child's pid is the keeper's.
    let program = |name: &str| tool::find(name).unwrap_or_else(|| name.into());
    let mut child = Command::new(program("setsid"))
        .arg(program("unshare"))
        .args(["--net", "--mount", "--propagation", "slave"])
        .arg(binary)
        .arg(KEEPER_VERB)
        .arg(directory.path())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .doing(|| format!("start the lab's keeper, {binary:?}"))?;
    let pid = child.id() as i32;
    record.keeper = guest_processes::start_time(pid).map(|start| (pid, start));
    if let Err(error) = record.write(directory) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok(child)
}

/// What guests find at `/run/vshmem/bin`. Programs ask for the last one, the library's soname.
const OFFERED: [&str; 8] = [
    "vshmem",
    "vshmem-lab",
    "libvshmem_preload.so",
    "libvshmem_preload_posix.so",
    "libvshmem_preload_sysv.so",
    "libvshmem_heap.so",
    "libvshmem.so",
    "libvshmem.so.0",
];

/// Beside the command, as a build leaves it, or where an installation does.
fn find_offered(binary_dir: &Path, name: &str) -> Option<PathBuf> {
    let places = [".", "../lib/vshmem", "../lib"];
    places.iter().map(|place| binary_dir.join(place).join(name)).find(|path| path.is_file())
}

/// Copies programs to where the guests' users can read them.
fn stage(directory: &Directory, binary: &Path, options: &UpOptions) -> Result<()> {
    let offered = OFFERED.iter().filter_map(|name| find_offered(&options.binary_dir, name));
    for from in
        std::iter::once(binary.to_owned()).chain(options.stage.iter().cloned()).chain(offered)
    {
        let to = directory.stage().join(file_name(&from)?);
        if to.exists() {
            continue;
        }
        std::fs::copy(&from, &to).doing(|| format!("copy {from:?} to {to:?}"))?;
        set_mode(&to, 0o755)?;
    }
    Ok(())
}

fn file_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.ok_or_else(|| Error::Argument {
        what: "a file for the guests",
        value: path.display().to_string(),
        rule: "its last name must be plain text",
    })
}

/// How often a keeper that says nothing is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Waits until the keeper says that the guests are up, or why not. Its own waits are bounded; that
/// it dies or is stopped is noticed. The caller ends it after any failure.
fn await_keeper(
    record: &Record,
    directory: &Directory,
    mut child: Child,
    look: Duration,
) -> Result<()> {
    let keeper = child.id() as i32;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    // Its zombie would look like a keeper that cannot be killed.
    std::thread::spawn(move || child.wait());
    let gone =
        |what: &str| Error::Keeper { what: what.to_owned(), log: tail(&directory.keeper_log()) };
    let mut line = String::new();
    if let Some(stdout) = stdout {
        match hear(stdout, look, || guest_processes::is_stopped(keeper)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(silent(record, keeper, look));
            }
            heard => line = heard.doing(|| "hear from the lab's keeper".into())?,
        }
    }
    if line.is_empty() {
        return Err(gone("ended before the lab was up"));
    }
    match serde_json::from_str(&line) {
        Ok(Outcome::Up) => {}
        Ok(Outcome::Failed(fault)) => return Err(fault.into()),
        Err(_) => {
            return Err(gone(&format!("says {:?} instead of whether the lab is up", line.trim())));
        }
    }
    let mut stdin = stdin.ok_or_else(|| gone("has no ear"))?;
    writeln!(stdin, "{ACKNOWLEDGED}").map_err(|_| gone("ended when the lab was just up"))
}

/// A line from a keeper that may take long, or what came before its end. `ErrorKind::WouldBlock`:
/// it was stopped at two looks in a row, and had said nothing between them.
fn hear(
    mut from: ChildStdout,
    look: Duration,
    mut stopped: impl FnMut() -> bool,
) -> io::Result<String> {
    let mut heard = Vec::new();
    let mut was_stopped = false;
    while !heard.ends_with(b"\n") {
        if readable(&from, look)? {
            let mut piece = [0; 4096];
            let length = from.read(&mut piece)?;
            if length == 0 {
                break;
            }
            heard.extend_from_slice(&piece[..length]);
            was_stopped = false;
            continue;
        }
        let is_stopped = stopped();
        if was_stopped && is_stopped {
            return Err(ErrorKind::WouldBlock.into());
        }
        was_stopped = is_stopped;
    }
    String::from_utf8(heard).map_err(io::Error::other)
}

/// Whether there is something to read, or the end, within that time.
fn readable(from: &ChildStdout, within: Duration) -> io::Result<bool> {
    let within =
        Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    loop {
        match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&within)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

fn silent(record: &Record, keeper: i32, look: Duration) -> Error {
    Error::Silent {
        name: record.name.clone(),
        keeper,
        seconds: 2 * look.as_secs(),
        remedy: "it is stopped, by a signal or by a debugger, and is ended with its guests: boot \
                 the lab again, and let its keeper run"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    /// A stand-in for a keeper, which does what the shell is told to.
    fn keeper(words: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", words]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    fn lab() -> (Record, Directory) {
        let record: Record = serde_json::from_str(
            r#"{"name": "stopped", "guest": "uml", "count": 1, "memory_mib": 64, "pool": null,
                "pool_name": null, "on_death": null, "device_mode": 438, "device": "plain",
                "server": null, "peer_exec": false, "accelerated": false, "init": "none",
                "first_uid": 2147000000, "keeper": null}"#,
        )
        .unwrap();
        let directory = Directory::of(&record.name).unwrap();
        (record, directory)
    }

    #[test]
    fn a_keeper_that_is_stopped_before_the_guests_are_up_is_given_up() {
        let (record, directory) = lab();
        for words in ["kill -STOP $$", "printf half; kill -STOP $$"] {
            let child = keeper(words);
            let pid = child.id() as i32;
            let given_up = await_keeper(&record, &directory, child, SOON);
            guest_processes::signal(&[pid], rustix::process::Signal::KILL);
            let text = given_up.unwrap_err().to_string();
            for part in ["does not answer", &pid.to_string(), "it is stopped"] {
                assert!(text.contains(part), "{words}: {text}");
            }
        }
    }

    #[test]
    fn a_keeper_that_takes_long_or_was_stopped_for_a_while_is_waited_for() {
        let (record, directory) = lab();
        let looks = [false, false, true, false, true, false];
        let mut child = keeper("read go; echo '\"Up\"'");
        let mut stdin = child.stdin.take().unwrap();
        let mut next = looks.iter();
        let heard = hear(child.stdout.take().unwrap(), SOON, || match next.next() {
            Some(&stopped) => stopped,
            None => {
                let _ = writeln!(stdin, "go");
                false
            }
        });
        assert_eq!(heard.unwrap(), "\"Up\"\n");
        child.wait().unwrap();
        let up = await_keeper(&record, &directory, keeper("echo '\"Up\"'; read said"), SOON);
        assert!(up.is_ok(), "{up:?}");
        let ended = await_keeper(&record, &directory, keeper("printf ''"), SOON).unwrap_err();
        assert!(ended.to_string().contains("ended before the lab was up"), "{ended}");
    }
}
