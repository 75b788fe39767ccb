//! The front of the lab: what a command line calls.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::KEEPER_VERB;
use crate::Missing;
use crate::check;
use crate::error::{Doing, Error, GuestFault, Result};
use crate::host::admission;
use crate::host::census;
use crate::host::census::Census;
use crate::host::directory::{Directory, NamingLock, open_directory, root, set_mode};
use crate::host::record::{DOM0, Record, death_notice, domain};
use crate::host::tool;
use crate::keeper::{ACKNOWLEDGED, Outcome, give_notice, tail};
use crate::machine;
use crate::options::{GuestKind, UpOptions};
use crate::transport::control::{Control, Reply, Wish};
use crate::transport::{Connection, ExecRequest, Streams, relay};

/// How long processes may take to go after SIGKILL.
const EXTERMINATION: Duration = Duration::from_secs(15);

/// How long the keeper may take to end all guests and give their death notices.
const CLOSING: Duration = Duration::from_secs(60);

/// The users of guests come from here: numbers that no distribution and no container tool gives out...
const FIRST_UID: u32 = 2_000_000_000;
const MOST_LABS: u32 = 64;
/// ...or, where a user namespace has no such numbers, from a gap that the distributions leave.
const SMALL_FIRST_UID: u32 = 60_600;
const FEW_LABS: u32 = 8;
const MOST_GUESTS: u32 = 64;

/// The state of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestState {
    /// Started; its agent does not answer yet.
    Booting,
    /// Commands can be run.
    Running,
    /// Its first process has ended; its namespace is being emptied and its death notice given.
    Dying,
    /// Its namespace is empty and its death notice given.
    Dead,
}

impl std::fmt::Display for GuestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GuestState::Booting => "booting",
            GuestState::Running => "running",
            GuestState::Dying => "dying",
            GuestState::Dead => "dead",
        })
    }
}

/// One guest of a lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestListing {
    /// Its number, from 1.
    pub guest: u32,
    /// Its domain name, which is its host name too.
    pub domain: String,
    /// Its state.
    pub state: GuestState,
    /// What ended it, if it is dead.
    pub how: String,
    /// Its address in the lab's network.
    pub address: Ipv4Addr,
    /// The user on the host as whom it runs.
    pub uid: u32,
}

/// One lab.
#[derive(Debug, Clone, Serialize)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// The kind of its guests.
    pub guest: GuestKind,
    /// What they are made of, in words: the acceleration and the pool's device.
    pub made_of: String,
    /// The pool's name, if it has one.
    pub pool_name: Option<String>,
    /// The keeper's pid; `None` if it has died: then `down` clears up.
    pub keeper: Option<i32>,
    /// Its guests; empty if the keeper does not answer.
    pub guests: Vec<GuestListing>,
}

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    directory: Directory,
    record: Record,
}

impl Lab {
    /// What this machine lacks for a lab with guests of that kind. Empty: nothing.
    pub fn check(guest: GuestKind) -> Vec<Missing> {
        check::missing(guest)
    }

    /// Boots a lab, and returns when commands can be run in all its guests. A lab of that name whose keeper has died
    /// is cleared away first.
    pub fn up(options: &UpOptions) -> Result<Self> {
        let directory = Directory::of(&options.name)?;
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
        let missing = Self::check(options.guest);
        if !missing.is_empty() {
            return Err(Error::Missing(missing));
        }
        let pool = match &options.pool {
            Some(path) => {
                Some(path.canonicalize().doing(|| format!("find the pool's file {path:?}"))?)
            }
            None => None,
        };
        let binary = match &options.binary {
            Some(path) => path.clone(),
            None => std::env::current_exe().doing(|| "find the running binary".into())?,
        };
        let lock = NamingLock::take()?;
        if let Some(old) = Record::read(&directory)? {
            if let Some(keeper) = old.living_keeper() {
                return Err(Error::AlreadyUp { name: old.name, keeper });
            }
            bury_all(&old, &directory)?;
        }
        directory.remove_contents()?;
        let mut record = Record {
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
            sister_exec: options.sister_exec,
            init: file_name(&binary)?,
            first_uid: free_users()?,
            keeper: None,
        };
        let begun = begin(&directory, &mut record, &binary, options);
        drop(lock);
        let lab = Lab { directory, record };
        match begun.and_then(|child| lab.await_keeper(child)) {
            Ok(()) => Ok(lab),
            Err(error) => {
                if let Some(keeper) = lab.record.living_keeper() {
                    end_keeper(keeper, &lab.directory);
                }
                sweep(&lab.record, &lab.directory)?;
                Err(error)
            }
        }
    }

    /// Finds a lab that is up.
    pub fn open(name: &str) -> Result<Self> {
        let directory = Directory::of(name)?;
        let not_up = |found: String| Error::NotUp { name: name.to_owned(), found };
        let record = Record::read(&directory)?
            .ok_or_else(|| not_up(format!("nothing at {:?}", directory.path())))?;
        if record.living_keeper().is_none() {
            return Err(not_up("its keeper has died; `lab down` clears up".into()));
        }
        Ok(Lab { directory, record })
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What its guests are made of, in words.
    pub fn made_of(&self) -> String {
        machine::machine(self.record.guest).made_of(&self.record)
    }

    /// How many guests it has.
    pub fn count(&self) -> u32 {
        self.record.count
    }

    /// The number of the guest with that number or host name (`2` or `guest2`). Xen's `dom0` is guest 0.
    pub fn guest_named(&self, name: &str) -> Result<u32> {
        let named = || name.strip_prefix("guest").unwrap_or(name).parse().ok();
        let number = if name == domain(DOM0) { Some(DOM0) } else { named() };
        self.known(number.unwrap_or(u32::MAX)).map_err(|_| Error::Argument {
            what: "the guest",
            value: name.to_owned(),
            rule: "a guest's number (from 1) or host name, as `lab ls` shows them",
        })
    }

    /// Runs a command in a guest with this process's standard streams. Returns its exit code; 128 + n after signal n.
    pub fn exec(&self, guest: u32, request: &ExecRequest) -> Result<i32> {
        self.exec_with(guest, request, Streams::inherit()?)
    }

    /// Runs a command in a guest with the given streams. Any number of commands may run at once.
    pub fn exec_with(&self, guest: u32, request: &ExecRequest, streams: Streams) -> Result<i32> {
        self.known(guest)?;
        let (control, reply, connection) = self.ask(&Wish::Connect(guest))?;
        match (reply, connection) {
            (Reply::Connected(token), Some(connection)) => {
                relay(guest, Connection::new(connection), Some(control), request, token, streams)
            }
            (other, _) => Err(self.unexpected(other)),
        }
    }

    /// The lab and its guests as they are now.
    pub fn list(&self) -> Result<Listing> {
        let guests = match self.ask(&Wish::List)? {
            (_, Reply::Guests(guests), _) => guests,
            (_, other, _) => return Err(self.unexpected(other)),
        };
        Ok(self.listing(guests))
    }

    /// All labs of this user, those without a keeper too.
    pub fn list_all() -> Result<Vec<Listing>> {
        let mut all = Vec::new();
        for name in names() {
            let directory = Directory::of(&name)?;
            let Ok(Some(record)) = Record::read(&directory) else {
                continue;
            };
            let lab = Lab { directory, record };
            all.push(lab.list().unwrap_or_else(|_| lab.listing(Vec::new())));
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// SIGKILLs a whole guest; returns when it is dead and its death notice given.
    pub fn kill(&self, guest: u32) -> Result<()> {
        self.simple(guest, &Wish::Kill(guest))
    }

    /// Stops a guest: its kernel at once, a program of it at its next system call, fault or interrupt. A paused guest is
    /// silent, not dead.
    pub fn pause(&self, guest: u32) -> Result<()> {
        self.simple(guest, &Wish::Pause(guest, true))
    }

    /// Lets a paused guest go on.
    pub fn resume(&self, guest: u32) -> Result<()> {
        self.simple(guest, &Wish::Pause(guest, false))
    }

    /// Boots a dead guest again; refused until it is dead.
    pub fn restart(&self, guest: u32) -> Result<()> {
        self.simple(guest, &Wish::Restart(guest))
    }

    /// The tail of a guest's console.
    pub fn console(&self, guest: u32) -> Result<String> {
        self.known(guest)?;
        Ok(tail(&self.directory.console(guest)))
    }

    /// Takes the lab down: nothing of it is left.
    pub fn down(self) -> Result<()> {
        take_down(&self.record, &self.directory)
    }

    /// Takes a lab of that name down, whatever is left of it. False if there was nothing.
    pub fn down_named(name: &str) -> Result<bool> {
        let directory = Directory::of(name)?;
        if !directory.path().exists() {
            return Ok(false);
        }
        match Record::read(&directory) {
            Ok(Some(record)) => take_down(&record, &directory)?,
            // Nothing is started before the record is written.
            Ok(None) | Err(_) => {
                let _lock = NamingLock::take()?;
                if Record::read(&directory).ok().flatten().is_none() {
                    directory.remove()?;
                }
            }
        }
        Ok(true)
    }

    fn known(&self, guest: u32) -> Result<u32> {
        if self.record.guests().contains(&guest) {
            return Ok(guest);
        }
        Err(Error::NoSuchGuest { name: self.record.name.clone(), guest, count: self.record.count })
    }

    fn simple(&self, guest: u32, wish: &Wish) -> Result<()> {
        self.known(guest)?;
        match self.ask(wish)? {
            (_, Reply::Done, _) => Ok(()),
            (_, other, _) => Err(self.unexpected(other)),
        }
    }

    fn ask(&self, wish: &Wish) -> Result<(Control, Reply, Option<std::os::fd::OwnedFd>)> {
        ask(&self.directory, wish)
    }

    fn unexpected(&self, reply: Reply) -> Error {
        match reply {
            Reply::Fault(fault) => fault.into(),
            other => {
                GuestFault::Keeper(format!("{other:?}, which does not answer the question")).into()
            }
        }
    }

    fn listing(&self, guests: Vec<GuestListing>) -> Listing {
        Listing {
            name: self.record.name.clone(),
            guest: self.record.guest,
            made_of: self.made_of(),
            pool_name: self.record.pool_name.clone(),
            keeper: self.record.living_keeper(),
            guests,
        }
    }

    /// Waits until the keeper says that the guests are up, or why not. Its own waits are bounded; its death is noticed.
    fn await_keeper(&self, mut child: std::process::Child) -> Result<()> {
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        // Its zombie would look like a keeper that cannot be killed.
        std::thread::spawn(move || child.wait());
        let gone = |what: &str| Error::Keeper {
            what: what.to_owned(),
            log: tail(&self.directory.keeper_log()),
        };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout)
                .read_line(&mut line)
                .doing(|| "hear from the lab's keeper".into())?;
        }
        if line.is_empty() {
            return Err(gone("ended before the lab was up"));
        }
        match serde_json::from_str(&line) {
            Ok(Outcome::Up) => {}
            Ok(Outcome::Failed(fault)) => return Err(fault.into()),
            Err(_) => {
                return Err(gone(&format!(
                    "says {:?} instead of whether the lab is up",
                    line.trim()
                )));
            }
        }
        let mut stdin = stdin.ok_or_else(|| gone("has no ear"))?;
        writeln!(stdin, "{ACKNOWLEDGED}").map_err(|_| gone("ended when the lab was just up"))
    }
}

/// Makes the lab's directory and starts its keeper. The caller holds the naming lock.
fn begin(
    directory: &Directory,
    record: &mut Record,
    binary: &Path,
    options: &UpOptions,
) -> Result<std::process::Child> {
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
    machine::machine(record.guest).prepare(record, directory, binary, options)?;
    // The keeper reads what was settled.
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
    record.keeper = census::start_time(pid).map(|start| (pid, start));
    if let Err(error) = record.write(directory) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok(child)
}

/// Copies programs to where the guests' users can read them.
fn stage(directory: &Directory, binary: &Path, options: &UpOptions) -> Result<()> {
    let offered = ["vshmem", "libvshmem_preload.so", "libvshmem.so"]
        .map(|name| options.binary_dir.join(name));
    let offered = offered.into_iter().filter(|path| path.is_file());
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

fn ask(
    directory: &Directory,
    wish: &Wish,
) -> Result<(Control, Reply, Option<std::os::fd::OwnedFd>)> {
    let socket = directory.socket();
    let asking = || format!("ask the lab's keeper at {socket:?}");
    let mut control = Control::new(UnixStream::connect(&socket).doing(asking)?);
    control.send(wish, None).doing(asking)?;
    let (reply, descriptor) = control.receive().doing(asking)?;
    Ok((control, reply, descriptor))
}

fn names() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root()) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| Directory::of(name).is_ok())
        .collect()
}

/// The first of enough users that no lab has and no process runs as. Labs without a keeper keep their console for who
/// wants to read it, but only until others need their users. The caller holds the naming lock.
fn free_users() -> Result<u32> {
    if let Some(first) = unused_users() {
        return Ok(first);
    }
    for record in records().filter(|record| record.living_keeper().is_none()) {
        let directory = Directory::of(&record.name)?;
        bury_all(&record, &directory)?;
        clear_away_locked(&record, &directory)?;
    }
    unused_users().ok_or_else(|| Error::Argument {
        what: "the number of labs",
        value: format!("more than {}", users().1),
        rule: "no users are left for another lab's guests; take one down (`lab ls` shows them)",
    })
}

/// The first user of all labs, and how many labs there are users for.
fn users() -> (u32, u32) {
    if mapped(FIRST_UID) { (FIRST_UID, MOST_LABS) } else { (SMALL_FIRST_UID, FEW_LABS) }
}

fn unused_users() -> Option<u32> {
    let taken: Vec<u32> = records().map(|record| record.first_uid).collect();
    let (first, labs) = users();
    let nowhere = PathBuf::from("/nonexistent");
    (0..labs).map(|slot| first + slot * MOST_GUESTS).find(|first| {
        !taken.contains(first) && Census::take(&(*first..first + MOST_GUESTS), &nowhere).is_empty()
    })
}

/// The records of all labs that have a readable one.
fn records() -> impl Iterator<Item = Record> {
    names().into_iter().filter_map(|name| Record::read(&Directory::of(&name).ok()?).ok()?)
}

/// Does this user namespace have that user?
fn mapped(uid: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else {
        return false;
    };
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [inside, _, count] if (inside..inside + count).contains(&u64::from(uid)))
    })
}

fn take_down(record: &Record, directory: &Directory) -> Result<()> {
    let noticed = record.living_keeper().is_some_and(|keeper| end_keeper(keeper, directory));
    if noticed {
        sweep(record, directory)
    } else {
        bury_all(record, directory).and_then(|()| sweep(record, directory))
    }
}

/// Ends the keeper: asks it first, then kills it. True if it ended all guests and gave notice of their deaths.
fn end_keeper(keeper: i32, directory: &Directory) -> bool {
    let Some(pidfd) =
        Pid::from_raw(keeper).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return false;
    };
    let asked = || -> Result<bool> {
        let socket = directory.socket();
        let stream =
            UnixStream::connect(&socket).doing(|| format!("ask the keeper at {socket:?}"))?;
        stream.set_read_timeout(Some(CLOSING)).doing(|| "set a limit".into())?;
        let mut control = Control::new(stream);
        control.send(&Wish::Down, None).doing(|| "ask".into())?;
        let (reply, _) = control.receive::<Reply>().doing(|| "hear".into())?;
        Ok(matches!(reply, Reply::Done))
    };
    let noticed = asked().unwrap_or(false);
    let gone = |limit: Duration| {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                answer => return matches!(answer, Ok(1..)),
            }
        }
    };
    if !(noticed && gone(Duration::from_secs(5))) {
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        gone(Duration::from_secs(5));
    }
    noticed
}

/// Empties the guests of a lab without a keeper, and gives notice of their deaths in its stead.
fn bury_all(record: &Record, directory: &Directory) -> Result<()> {
    exterminate(record, directory)?;
    for guest in record.guests() {
        if let Some(words) = record.on_death.as_ref().filter(|_| record.keeper.is_some()) {
            // The pool may be gone with everything else; the lab goes in any case.
            if let Err(error) = give_notice(&death_notice(words, guest)) {
                eprintln!("vshmem-lab: guest{guest}: no death notice: {error}");
            }
        }
    }
    Ok(())
}

fn exterminate(record: &Record, directory: &Directory) -> Result<()> {
    census::exterminate(&record.uids(), directory.path(), EXTERMINATION).map_err(|left| {
        Error::Lingering {
            name: record.name.clone(),
            count: left.len(),
            first: left.first().copied().unwrap_or_default(),
            seconds: EXTERMINATION.as_secs(),
        }
    })
}

/// Clears away what a lab leaves: stray processes, its entry at the pool, its directory.
pub(crate) fn sweep(record: &Record, directory: &Directory) -> Result<()> {
    exterminate(record, directory)?;
    let _lock = NamingLock::take()?;
    clear_away_locked(record, directory)
}

/// The part of [`sweep`] that changes what labs share.
fn clear_away_locked(record: &Record, directory: &Directory) -> Result<()> {
    admission::withdraw_locked(record)?;
    directory.remove()
}
