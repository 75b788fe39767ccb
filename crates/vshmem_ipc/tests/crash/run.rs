//! One run: a pool, a child that is killed or stopped, and what is looked at afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use vshmem_ipc::{Member, Severity};
use vshmem_session::{CreateRequest, Session, create, is_gone, remove};

use crate::scenario::{self, Scenario};

const SCENARIO: &str = "VSHMEM_CRASH_SCENARIO";
const POOL: &str = "VSHMEM_CRASH_POOL";

/// Where a child is to die, or to stop.
#[derive(Debug, Clone)]
pub struct Order {
    pub name: String,
    pub nth: u32,
    pub stop: bool,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.name, self.nth, if self.stop { ":stop" } else { "" })
    }
}

/// A pool of its own, removed at the end.
pub struct Run {
    scenario: &'static Scenario,
    name: String,
    place: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = remove(&self.name);
    }
}

/// How a child came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Ended(i32),
    Killed,
    Stopped,
}

impl Run {
    pub fn new(scenario: &'static Scenario) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("crash-{}-{number}", std::process::id());
        let limits = [
            ("shmmni", 16),
            ("semmni", 16),
            ("msgmni", 16),
            ("domains", 4),
            ("clients", 16),
            ("threads", 48),
            ("attaches", 64),
            ("undos", 32),
            ("slabs", scenario.slabs),
        ];
        let request = CreateRequest {
            name: name.clone(),
            bytes: 8 << 20,
            mode: 0o600,
            group: None,
            huge_page: None,
            limits: limits.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            evict_after: 0,
            backed: false,
        };
        let place = create(&request).expect("a pool");
        Self { scenario, name, place }
    }

    fn join(&self) -> Session {
        Session::join(vshmem_link::open(&self.place).expect("a link")).expect("a place")
    }

    fn spawn(&self, scenario: &str, environment: &[(&str, &str)]) -> Child {
        let program = std::env::current_exe().expect("this program");
        Command::new(program)
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
            .env(SCENARIO, scenario)
            .env(POOL, &self.place)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child")
    }

    /// A process that holds a bit of everything and has been killed in its sleep.
    fn victim(&self, session: &Session) {
        if !self.scenario.victim {
            return;
        }
        let mut child = self.spawn("victim", &[]);
        let pid = child.id();
        let begun = Instant::now();
        while sleeping(session.member(), pid) < scenario::VICTIM_SLEEPERS {
            assert!(begun.elapsed() < Duration::from_secs(60), "the victim never slept");
            std::thread::yield_now();
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
    }

    /// Runs the scenario with the order and says what was not as it should be; if nothing, whether
    /// the child came by the point at all.
    #[expect(clippy::zombie_processes, reason = "`tend` waits, by pid: it must also see it stop")]
    pub fn by(&self, order: &Order) -> Result<bool, String> {
        let session = self.join();
        let survivor = session.member();
        (self.scenario.prepare)(&session);
        self.victim(&session);
        let text = order.to_string();
        let child = self.spawn(self.scenario.name, &[("VSHMEM_CRASH", &text)]);
        let pid = child.id();
        let rest = self.tend(survivor, pid);
        if rest == Rest::Stopped {
            // Everybody else goes on: none of these calls may need the one that is stopped.
            let begun = Instant::now();
            (self.scenario.survive)(&session);
            let took = begun.elapsed();
            let wrong = findings(survivor, true);
            kill_process(pid_of(pid), Signal::CONT).expect("SIGCONT");
            if !wrong.is_empty() {
                return Err(format!("while it was stopped: {wrong:?}"));
            }
            if took > Duration::from_secs(9) {
                return Err(format!("survivors took {took:?}"));
            }
            match self.tend(survivor, pid) {
                Rest::Ended(0) => {}
                rest => return Err(format!("it came to {rest:?} after SIGCONT: {}", said(child))),
            }
        } else if rest != Rest::Killed {
            // The way is not the same each time; what follows must hold anyway.
            if rest != Rest::Ended(0) {
                return Err(format!("{rest:?}: {}", said(child)));
            }
        }
        self.bury(&session)?;
        (self.scenario.survive)(&session);
        (self.scenario.verify)(&session, order)?;
        let wrong = findings(survivor, false);
        if !wrong.is_empty() {
            return Err(format!("in the end: {wrong:?}"));
        }
        Ok(matches!(rest, Rest::Killed | Rest::Stopped))
    }

    /// Waits for the child to come to rest, and plays the others' part meanwhile.
    fn tend(&self, survivor: &Member, pid: u32) -> Rest {
        let begun = Instant::now();
        loop {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            match waitpid(Some(pid_of(pid)), options).expect("waitpid") {
                Some((_, status)) => return rest_of(status),
                None => (self.scenario.attend)(survivor, pid),
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{}: the child neither ends nor stops",
                self.scenario.name
            );
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// What an agent does.
    fn bury(&self, session: &Session) -> Result<(), String> {
        let survivor = session.member();
        // Twice, as an agent that looks now and then: what a change that was committed by the dead
        // has brought about is seen once somebody has carried it out.
        for _ in 0..2 {
            for row in survivor.pool().clients().expect("a list") {
                if row.domain == survivor.domain() && is_gone(row.pid, 0) {
                    survivor.bury_process(row.pid).map_err(|errno| format!("burial: {errno}"))?;
                }
            }
            survivor
                .free_strangers(survivor.domain(), &|pid| is_gone(pid, 0))
                .map_err(|errno| format!("strangers: {errno}"))?;
        }
        for row in survivor.pool().domains().expect("a list") {
            if row.index != survivor.domain() {
                survivor.bury_domain(row.index).map_err(|errno| format!("burial: {errno}"))?;
            }
        }
        if self.scenario.repairs {
            let left = survivor.repair().map_err(|errno| format!("repair: {errno}"))?;
            if !left.is_empty() {
                return Err(format!("repair left {left:?}"));
            }
        }
        let wrong = findings(survivor, false);
        if wrong.is_empty() { Ok(()) } else { Err(format!("after the burial: {wrong:?}")) }
    }
}

/// What `check` finds; only what is wrong, or also what is unfinished.
fn findings(member: &Member, wrong_only: bool) -> Vec<String> {
    member
        .pool()
        .check()
        .expect("a look")
        .into_iter()
        .filter(|finding| !wrong_only || finding.severity == Severity::Wrong)
        .map(|finding| finding.what)
        .collect()
}

/// Threads of a process that sleep in the pool.
pub fn sleeping(member: &Member, pid: u32) -> u32 {
    let rows = member.pool().clients().expect("a list");
    rows.iter().find(|row| row.pid == pid).map_or(0, |row| row.sleeping)
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).expect("a pid")
}

fn rest_of(status: WaitStatus) -> Rest {
    if status.stopped() {
        Rest::Stopped
    } else if status.signaled() {
        Rest::Killed
    } else {
        Rest::Ended(status.exit_status().unwrap_or(-1))
    }
}

fn said(mut child: Child) -> String {
    use std::io::Read;
    let mut text = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        let _ = pipe.read_to_string(&mut text);
    }
    let _ = child.wait();
    text
}

/// The crash points that a scenario passes, and how often.
#[expect(clippy::zombie_processes, reason = "`tend` waits, by pid: it must also see it stop")]
pub fn points(scenario: &'static Scenario) -> BTreeMap<String, u32> {
    let run = Run::new(scenario);
    let session = run.join();
    (scenario.prepare)(&session);
    run.victim(&session);
    let mut child = run.spawn(scenario.name, &[("VSHMEM_CRASH_LIST", "1")]);
    let pid = child.id();
    let pipe = child.stderr.take().expect("its standard error");
    let text = std::thread::scope(|scope| {
        let text = scope.spawn(|| std::io::read_to_string(pipe).expect("text"));
        let rest = run.tend(session.member(), pid);
        let text = text.join().expect("text");
        assert_eq!(rest, Rest::Ended(0), "{}: {text}", scenario.name);
        text
    });
    let mut points = BTreeMap::new();
    for name in text.lines().filter_map(|line| line.strip_prefix("crash point ")) {
        *points.entry(name.to_owned()).or_default() += 1;
    }
    points
}

/// What a child does: joins, and runs the scenario that the environment names.
pub fn be_child() {
    let (Some(name), Some(place)) = (std::env::var_os(SCENARIO), std::env::var_os(POOL)) else {
        return;
    };
    let session = Session::join(vshmem_link::open(place.as_ref()).expect("a link"));
    let session = session.expect("a place");
    if name == "victim" {
        scenario::victim(&session);
        return;
    }
    let scenario = scenario::SCENARIOS.iter().find(|s| name == s.name).expect("a scenario");
    (scenario.act)(session);
}
