//! Guests of QEMU: started stopped, their threads pinned, then let go.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use vshmem_link::process_start;
use vshmem_plan::{Guest, NumberSet, Plan, form};

use super::applied_plan::Change;
use super::journal::{Journal, crash_point};
use crate::again::again;
use crate::failure::{Failure, failed};
use crate::qmp::Qmp;

/// How often QEMU is asked for while it prepares the guest's memory.
const AGAIN: Duration = Duration::from_millis(20);
/// How long it may prepare each GiB: with every page to be cleared, a slow machine takes half of
/// that.
const PER_GIB: Duration = Duration::from_secs(2);
/// How long it may take beside.
const STARTING: Duration = Duration::from_secs(60);
/// How long it may take to end after it has left a connection.
const LEAVING: Duration = Duration::from_secs(2);
/// What becomes QEMU: it waits for a line first, so that its pid is recorded before there is a
/// guest. If none comes because this process was killed, it ends.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;
const QEMU: &str = "qemu-system-x86_64";

/// How guests are started.
#[derive(Debug)]
pub struct Start {
    /// Without hardware virtualisation.
    pub emulated: bool,
    /// Further words for QEMU; `{guest}` in them is the guest's name.
    pub words: Vec<String>,
}

impl Start {
    /// The words that follow the program's name. `directory`: where the sockets are.
    pub fn words(&self, plan: &Plan, number: usize, directory: &Path) -> Vec<String> {
        let name = &plan.guests[number].name;
        let socket = directory.join(format!("{name}.qmp"));
        let mut words = form::qemu_words(plan, number, self.emulated, &socket.to_string_lossy());
        words.extend(["-display", "none"].map(str::to_owned));
        words.extend(self.words.iter().map(|word| word.replace("{guest}", name)));
        words
    }

    /// Starts a guest.
    pub fn start_guest(&self, journal: &mut Journal<'_>, number: usize) -> Result<(), Failure> {
        let guest = journal.applied.plan.guests[number].clone();
        let directory = journal.records.make_guests(&journal.applied.name)?;
        let words = self.words(&journal.applied.plan, number, &directory);
        let log = directory.join(format!("{}.log", guest.name));
        let mut child = spawn(&guest.name, &words, &log)?;
        let pid = child.id();
        let start = process_start(pid);
        if start == 0 {
            // Without it, nothing tells this process from a later one of the same pid.
            return failed(ended(&guest, &log));
        }
        journal.record(Change::Guest { name: guest.name.clone(), pid, start })?;
        // All further threads have it from this one.
        pin(pid, &guest.emulator)?;
        let gate = child.stdin.take().map(|mut gate| gate.write_all(b"go\n"));
        if !matches!(gate, Some(Ok(()))) {
            return failed(ended(&guest, &log));
        }
        crash_point();
        let socket = directory.join(format!("{}.qmp", guest.name));
        let stream = connect(&mut child, &guest, &socket, &log)?;
        let mut unlike = |found| match has_ended(&mut child) {
            // It listens before it has looked at all of its words.
            true => Failure::Failed(ended(&guest, &log)),
            false => Failure::Failed(format!("{}: QEMU's monitor: {found}", guest.name)),
        };
        let mut qmp = Qmp::new(stream).map_err(&mut unlike)?;
        crash_point();
        pin_vcpus(&guest, &qmp.vcpu_threads().map_err(&mut unlike)?)?;
        crash_point();
        qmp.ask("cont").map_err(unlike)?;
        crash_point();
        Ok(())
    }
}

fn spawn(guest: &str, words: &[String], log: &Path) -> Result<Child, Failure> {
    let output = File::create(log)
        .and_then(|file| Ok((file.try_clone()?, file)))
        .or_else(|error| failed(format!("{}: cannot write it: {error}", log.display())))?;
    // In a session of its own, no terminal that is closed ends it.
    Command::new("setsid")
        .args(["sh", "-c", GATE, guest, QEMU])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(output.0)
        .stderr(output.1)
        .spawn()
        .or_else(|error| failed(format!("{guest}: cannot start `setsid sh`: {error}")))
}

/// Waits until QEMU answers, which it does when it has the guest's memory.
fn connect(
    child: &mut Child,
    guest: &Guest,
    socket: &Path,
    log: &Path,
) -> Result<UnixStream, Failure> {
    let limit = patience(guest.bytes());
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Ok(stream);
        }
        if !matches!(child.try_wait(), Ok(None)) {
            return failed(ended(guest, log));
        }
        std::thread::sleep(AGAIN);
    }
    failed(format!(
        "{}: QEMU does not answer within {} s. `{}` prints its command line: start it by hand and see what it waits for",
        guest.name,
        limit.as_secs(),
        again(&[], &["--dry-run"])
    ))
}

/// Whether QEMU has ended, or does so right after it has left a connection.
fn has_ended(child: &mut Child) -> bool {
    let end = Instant::now() + LEAVING;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(AGAIN);
    }
    true
}

fn patience(bytes: u64) -> Duration {
    STARTING + PER_GIB * u32::try_from(bytes >> 30).unwrap_or(u32::MAX >> 2)
}

fn ended(guest: &Guest, log: &Path) -> String {
    let said = fs::read_to_string(log).unwrap_or_default();
    let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
    format!("{}: QEMU ended and said: {}", guest.name, crate::show::sanitized(&said))
}

/// Where one thread is several vCPUs, it gets the CPUs of all of them.
fn pin_vcpus(guest: &Guest, threads: &[(usize, u32)]) -> Result<(), Failure> {
    for (_, thread) in threads {
        let own = threads.iter().filter(|(_, other)| other == thread);
        let cpus = own.filter_map(|(vcpu, _)| guest.vcpus.get(*vcpu).copied());
        pin(*thread, &cpus.collect())?;
    }
    Ok(())
}

fn pin(thread: u32, cpus: &NumberSet) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        if cpu as usize >= CpuSet::MAX_CPU {
            return failed(format!(
                "CPU {cpu}: no thread can be pinned to it from here, only to CPUs below {}. `--to libvirt` pins to all",
                CpuSet::MAX_CPU
            ));
        }
        set.set(cpu as usize);
    }
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
    sched_setaffinity(thread, &set).or_else(|error| {
        failed(format!(
            "thread {}: cannot be pinned to CPUs {cpus}: {error}. `cat /proc/self/status | grep Cpus_allowed_list` shows what this session may use",
            thread.map_or(0, |thread| thread.as_raw_nonzero().get())
        ))
    })
}
