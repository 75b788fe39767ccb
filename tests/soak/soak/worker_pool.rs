//! The groups of workers: those in C, which their own parent kills, and those in Rust, which are
//! killed here.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use vshmem_acceptance::build;
use vshmem_session::Session;

use crate::journal::Journal;
use crate::objects::{FIRST_KEY, Objects};
use crate::random::Random;

/// Numbers of the C programs' workers, in this domain and in the other one.
pub const STORM_FIRST: u32 = 1;
pub const FAR_STORM_FIRST: u32 = 51;
pub const STORM_WORKERS: u32 = 6;
/// Numbers of the Rust workers.
pub const CREW_FIRST: u32 = 101;
pub const CREW_WORKERS: u32 = 4;

/// What is done to whom.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub kills: u64,
    pub domains: u64,
    pub stops: u64,
    pub agents: u64,
    pub operations: u64,
    pub messages: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.domains += other.domains;
        self.stops += other.stops;
        self.agents += other.agents;
        self.operations += other.operations;
        self.messages += other.messages;
    }
}

/// Runs a command in a PID namespace of its own, a domain, which ends with it. Its first process
/// takes in orphans, as agents are.
const FAR: [&str; 8] =
    ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "\"$@\"; exit $?"];

/// Whether this machine lets us make one.
pub fn can_be_far() -> bool {
    let mut command = Command::new(FAR[0]);
    command.args(&FAR[1..]).args(["sh", "true"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// programs/storm.c under `vshmem run`.
pub struct Storm {
    child: Child,
    first: u32,
}

impl Storm {
    /// With workers from `first` on: [`STORM_FIRST`] here, [`FAR_STORM_FIRST`] in another domain.
    pub fn start(
        first: u32,
        pool: &str,
        journals: &Path,
        on: &Objects,
        seed: u64,
    ) -> Result<Self, String> {
        let program = build::programs("tests/soak/programs").join("storm");
        let mut command = Command::new(build::vshmem());
        if first == FAR_STORM_FIRST {
            command = Command::new(FAR[0]);
            command.args(&FAR[1..]).arg("sh").arg(build::vshmem());
        }
        command.args(["run", "--pool", pool, "--"]).arg(program).arg(journals);
        command.arg(seed.to_string()).arg(STORM_WORKERS.to_string()).arg(first.to_string());
        command.args(on.ids().map(|id| id.to_string())).arg(FIRST_KEY.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Self { child, first })
    }

    /// Kills it with all its workers and its domain's agent at once, as a container ends.
    pub fn kill_domain(mut self, journals: &Path) -> Result<Tally, String> {
        // The namespace's first process: it is not over before all others are.
        let unshare = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
        let children = children.map_err(|error| error.to_string())?;
        let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let first = first.and_then(Pid::from_raw).ok_or("the other domain has no first process")?;
        kill_process(first, Signal::KILL).map_err(|error| error.to_string())?;
        self.child.wait().map_err(|error| error.to_string())?;
        let journal = Journal::open(journals, self.first).map_err(|error| error.to_string())?;
        for worker in self.first..self.first + STORM_WORKERS {
            journal.write_doubts(worker).map_err(|error| error.to_string())?;
        }
        let kills = u64::from(STORM_WORKERS);
        Ok(Tally { kills, domains: 1, ..Tally::default() })
    }

    /// An error when it has ended, which it must not by itself.
    pub fn look(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("storm ended: {status}: {}", self.said())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn said(&mut self) -> String {
        let mut text = String::new();
        let _ = self.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut text));
        text
    }

    /// Has it kill all its workers, and ends it.
    pub fn end(mut self) -> Result<Tally, String> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        let pipe = self.child.stdout.take();
        let _ = pipe.map(|mut pipe| pipe.read_to_string(&mut text));
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let figures: Vec<u64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match figures[..] {
            [kills, stops, operations] if status.success() => {
                Ok(Tally { kills, stops, operations, ..Tally::default() })
            }
            _ => Err(format!("storm ended: {status}: {text}{}", self.said())),
        }
    }
}

struct Worker {
    child: Child,
    number: u32,
    stopped: bool,
}

/// Workers in Rust.
pub struct WorkerPool {
    place: PathBuf,
    journals: PathBuf,
    on: Objects,
    journal: Journal,
    workers: Vec<Worker>,
    pub tally: Tally,
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // It may have ended by itself, which is noticed when it is waited for.
        let _ = kill_process(pid, signal);
    }
}

impl WorkerPool {
    pub fn start(
        place: &Path,
        journals: &Path,
        on: &Objects,
        random: &mut Random,
    ) -> Result<Self, String> {
        let journal = Journal::open(journals, CREW_FIRST).map_err(|error| error.to_string())?;
        let mut worker_pool = Self {
            place: place.to_owned(),
            journals: journals.to_owned(),
            on: *on,
            journal,
            workers: Vec::new(),
            tally: Tally::default(),
        };
        for number in CREW_FIRST..CREW_FIRST + CREW_WORKERS {
            let child = worker_pool.spawn(number, random)?;
            worker_pool.workers.push(Worker { child, number, stopped: false });
        }
        Ok(worker_pool)
    }

    fn spawn(&self, number: u32, random: &mut Random) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("worker").arg(&self.place).arg(&self.journals);
        command.args([
            CREW_FIRST.to_string(),
            number.to_string(),
            random.roll(1 << 30).to_string(),
        ]);
        command.args(self.on.ids().map(|id| id.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map_err(|error| format!("{command:?}: {error}"))
    }

    /// Kills, stops or continues one at random.
    pub fn strike(&mut self, session: &Session, random: &mut Random) -> Result<(), String> {
        let at = random.roll(self.workers.len() as u64) as usize;
        let fate = random.roll(8);
        let worker = &mut self.workers[at];
        if fate < 3 {
            send(&worker.child, if worker.stopped { Signal::CONT } else { Signal::STOP });
            self.tally.stops += u64::from(!worker.stopped);
            worker.stopped = !worker.stopped;
            return Ok(());
        }
        self.kill(at, session, random.even())?;
        let number = self.workers[at].number;
        let child = self.spawn(number, random)?;
        self.workers[at] = Worker { child, number, stopped: false };
        Ok(())
    }

    /// Kills one and settles its accounts; reaps it, or leaves that to the agent.
    fn kill(&mut self, at: usize, session: &Session, reap: bool) -> Result<(), String> {
        let worker = &mut self.workers[at];
        let pid = worker.child.id();
        send(&worker.child, Signal::KILL);
        let status = worker.child.wait().map_err(|error| error.to_string())?;
        if status.code().is_some() {
            let mut text = String::new();
            let _ = worker.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut text));
            return Err(format!("a worker ended by itself: {status}: {text}"));
        }
        self.tally.kills += 1;
        self.journal.write_doubts(worker.number).map_err(|error| error.to_string())?;
        if reap {
            session
                .client()
                .reap_process(pid, vshmem_session::is_gone)
                .map_err(|errno| format!("reaping: {errno}"))?;
        }
        Ok(())
    }

    /// Kills all of them.
    pub fn end(mut self, session: &Session) -> Result<Tally, String> {
        for at in 0..self.workers.len() {
            self.kill(at, session, true)?;
        }
        self.workers.clear();
        Ok(self.tally)
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            let _ = pipe.flush();
        }
        let _ = self.child.wait();
    }
}
