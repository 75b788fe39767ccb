//! One run: a pool, a child that is killed or stopped, and what is looked at afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use vshmem_ipc::{Client, DomainIdentity, Severity};
use vshmem_session::{CreateRequest, Session, create, is_gone, remove};

use vshmem_wire::ClientState;

use crate::fixture::{CREATE, ROOT};
use crate::scenario::{self, Scenario};

pub const SCENARIO: &str = "VSHMEM_CRASH_SCENARIO";
pub const POOL: &str = "VSHMEM_CRASH_POOL";
/// Which of several children on one pool it is.
pub const SHARE: &str = "VSHMEM_CRASH_SHARE";
/// Set for a child that is to be in a domain of its own.
const APART: &str = "VSHMEM_CRASH_APART";

/// What becomes of a child at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// SIGKILL.
    Killed,
    /// SIGSTOP, and later SIGCONT.
    Stopped,
    /// The same, in a domain of its own that is evicted meanwhile.
    Evicted,
}

/// Where a child is to die, or to stop.
#[derive(Debug, Clone)]
pub struct Order {
    pub name: String,
    pub nth: u32,
    pub fate: Fate,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stop = if self.fate == Fate::Killed { "" } else { ":stop" };
        write!(f, "{}:{}{stop}", self.name, self.nth)
    }
}

/// A pool of its own, removed at the end.
pub struct Run {
    scenario: &'static Scenario,
    name: String,
    path: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = remove(&self.name);
    }
}

/// How a child came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
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
            ("futexes", 4),
            ("locks", 16),
            ("slabs", scenario.slabs),
        ];
        let request = CreateRequest {
            name: name.clone(),
            bytes: 8 << 20,
            mode: 0o600,
            group: None,
            huge_page: None,
            placement: None,
            limits: limits.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            evict_after: 0,
            backed: false,
            dax: false,
            prepare: 0,
            uuid: None,
        };
        let path = create(&request).expect("a pool");
        Self { scenario, name, path }
    }

    pub fn join(&self) -> Session {
        Session::join(vshmem_link::open(&self.path).expect("a link")).expect("a place")
    }

    pub fn spawn(&self, scenario: &str, environment: &[(&str, &str)]) -> Child {
        let program = std::env::current_exe().expect("this program");
        Command::new(program)
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
            .env(SCENARIO, scenario)
            .env(POOL, &self.path)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child")
    }

    /// A process that holds a bit of everything and has been killed in its sleep.
    pub fn victim(&self, session: &Session, environment: &[(&str, &str)]) {
        if !self.scenario.victim {
            return;
        }
        let mut child = self.spawn("victim", environment);
        let pid = child.id();
        let begun = Instant::now();
        while sleeping(session.client(), pid) < scenario::VICTIM_WAITERS {
            assert!(begun.elapsed() < Duration::from_secs(60), "the victim never slept");
            std::thread::yield_now();
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
    }

    /// Runs the scenario with the order and says what was not as it should be; if nothing, whether
    /// the child came by the point at all.
    #[expect(
        clippy::zombie_processes,
        reason = "`await_child` waits, by pid: it must also see it stop"
    )]
    pub fn by(&self, order: &Order) -> Result<bool, String> {
        let session = self.join();
        let survivor = session.client();
        (self.scenario.prepare)(&session);
        let mut environment =
            if order.fate == Fate::Evicted { vec![(APART, "1")] } else { Vec::new() };
        self.victim(&session, &environment);
        let text = order.to_string();
        environment.push(("VSHMEM_CRASH", text.as_str()));
        let child = self.spawn(self.scenario.name, &environment);
        let pid = child.id();
        let rest = self.await_child(survivor, pid);
        if order.fate == Fate::Evicted && rest == Rest::Stopped {
            self.evict_and_revive(&session, child)?;
        } else if rest == Rest::Stopped {
            // All others continue: none of these calls may need the one that is stopped.
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
            match self.await_child(survivor, pid) {
                Rest::Ended(0) => {}
                rest => return Err(format!("it came to {rest:?} after SIGCONT: {}", said(child))),
            }
        } else if rest != Rest::Killed {
            // The way is not the same each time; what follows must hold anyway.
            if rest != Rest::Ended(0) {
                return Err(format!("{rest:?}: {}", said(child)));
            }
        }
        self.reap(&session)?;
        (self.scenario.survive)(&session);
        (self.scenario.verify)(&session, order)?;
        scenario::verify_empty(&session, 0)?;
        let wrong = findings(survivor, false);
        if !wrong.is_empty() {
            return Err(format!("in the end: {wrong:?}"));
        }
        Ok(matches!(rest, Rest::Killed | Rest::Stopped))
    }

    /// Evicts the domain of a child that is stopped, lets the child go on to its end, and looks
    /// whether it has spoilt anything or lost what it had attached.
    fn evict_and_revive(&self, session: &Session, child: Child) -> Result<(), String> {
        let survivor = session.client();
        let pid = child.id();
        (self.scenario.survive)(session);
        let domains = survivor.pool().domains().expect("a list");
        for row in domains.iter().filter(|row| row.name == PAUSED) {
            survivor.evict_domain(row.index).map_err(|errno| format!("eviction: {errno}"))?;
        }
        let attached = quarantined(survivor);
        let wrong = findings(survivor, true);
        if !wrong.is_empty() {
            return Err(format!("evicted: {wrong:?}"));
        }
        (self.scenario.survive)(session);
        // Whatever is given out now must not be what it can still write to.
        let all = fill(session);
        let wrong = findings(survivor, true);
        if !wrong.is_empty() {
            return Err(format!("evicted, and all memory taken: {wrong:?}"));
        }
        kill_process(pid_of(pid), Signal::CONT).expect("SIGCONT");
        let rest = self.await_child(survivor, pid);
        if !matches!(rest, Rest::Ended(_)) {
            return Err(format!("it came to {rest:?} after its eviction: {}", said(child)));
        }
        let wrong = findings(survivor, true);
        if !wrong.is_empty() {
            return Err(format!("it went on after its eviction: {wrong:?}: {}", said(child)));
        }
        let kept = quarantined(survivor);
        if kept != attached {
            let said = said(child);
            return Err(format!(
                "its attaches were {attached:?} and became {kept:?}: {rest:?}: {said}"
            ));
        }
        for id in all {
            survivor.segment_remove(id, &ROOT).map_err(|errno| format!("removal: {errno}"))?;
        }
        said(child);
        Ok(())
    }

    /// Waits for the child to come to rest, and plays the others' part meanwhile.
    pub fn await_child(&self, survivor: &Client, pid: u32) -> Rest {
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

    /// Reaps dead clients of this domain, and takes back what they have left.
    pub fn reap_and_leave(&self, session: &Session) -> Result<(), String> {
        let survivor = session.client();
        for row in survivor.pool().clients().expect("a list") {
            if row.domain == survivor.domain() && is_gone(row.pid, 0) {
                survivor
                    .reap_process(row.pid, is_gone)
                    .map_err(|errno| format!("reaping: {errno}"))?;
            }
        }
        survivor.reclaim_all().map_err(|errno| format!("reclaiming: {errno}"))
    }

    /// What an agent does.
    pub fn reap(&self, session: &Session) -> Result<(), String> {
        let survivor = session.client();
        // Twice, as an agent that looks now and then: what a change that was committed by the dead
        // has brought about is seen once a client has carried it out.
        for _ in 0..2 {
            for row in survivor.pool().clients().expect("a list") {
                if row.domain == survivor.domain() && is_gone(row.pid, 0) {
                    survivor
                        .reap_process(row.pid, is_gone)
                        .map_err(|errno| format!("reaping: {errno}"))?;
                }
            }
            survivor
                .free_joining_slots(survivor.domain(), &|pid| is_gone(pid, 0))
                .map_err(|errno| format!("strangers: {errno}"))?;
        }
        for row in survivor.pool().domains().expect("a list") {
            if row.index != survivor.domain() {
                survivor.reap_domain(row.index).map_err(|errno| format!("reaping: {errno}"))?;
            }
        }
        if self.scenario.repairs {
            let left = survivor.repair().map_err(|errno| format!("repair: {errno}"))?;
            if !left.is_empty() {
                return Err(format!("repair left {left:?}"));
            }
        }
        let wrong = findings(survivor, false);
        if wrong.is_empty() { Ok(()) } else { Err(format!("after the reaping: {wrong:?}")) }
    }
}

/// What `check` finds; only what is wrong, or also what is unfinished.
pub fn findings(this_client: &Client, wrong_only: bool) -> Vec<String> {
    this_client
        .pool()
        .check()
        .expect("a look")
        .into_iter()
        .filter(|finding| !wrong_only || finding.severity == Severity::Wrong)
        .map(|finding| finding.what)
        .collect()
}

/// Takes all free pages, and returns the segments.
pub fn fill(session: &Session) -> Vec<i32> {
    let mut all = Vec::new();
    // A few slots stay for others.
    while all.len() < 8 {
        let free = session.client().pool().space().expect("a count").largest_free;
        match session.client().shmget(0, free * 4096, CREATE | 0o600, &ROOT, session) {
            Ok(id) => all.push(id),
            Err(_) => break,
        }
    }
    all
}

/// What clients in quarantine have attached: (client, segment, how often).
pub fn quarantined(this_client: &Client) -> Vec<(u32, u32, u32)> {
    let pool = this_client.pool();
    let mut all = Vec::new();
    for row in pool.clients().expect("a list") {
        if row.state != ClientState::Quarantined {
            continue;
        }
        for segment in 0..pool.geometry().shmmni {
            let attached = pool.attached_to(segment).expect("a list");
            let mine = attached.into_iter().filter(|(client, _)| *client == row.index);
            all.extend(mine.map(|(client, count)| (client, segment, count)));
        }
    }
    all
}

/// Threads of a process that sleep in the pool.
pub fn sleeping(this_client: &Client, pid: u32) -> u32 {
    let rows = this_client.pool().clients().expect("a list");
    rows.iter().find(|row| row.pid == pid).map_or(0, |row| row.sleeping)
}

pub fn pid_of(pid: u32) -> Pid {
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

pub fn said(mut child: Child) -> String {
    use std::io::Read;
    let mut text = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        let _ = pipe.read_to_string(&mut text);
    }
    let _ = child.wait();
    text
}

/// The crash points that a scenario passes, and how often.
#[expect(
    clippy::zombie_processes,
    reason = "`await_child` waits, by pid: it must also see it stop"
)]
pub fn points(scenario: &'static Scenario) -> BTreeMap<String, u32> {
    let run = Run::new(scenario);
    let session = run.join();
    (scenario.prepare)(&session);
    run.victim(&session, &[]);
    let mut child = run.spawn(scenario.name, &[("VSHMEM_CRASH_LIST", "1")]);
    let pid = child.id();
    let pipe = child.stderr.take().expect("its standard error");
    let text = std::thread::scope(|scope| {
        let text = scope.spawn(|| std::io::read_to_string(pipe).expect("text"));
        let rest = run.await_child(session.client(), pid);
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

/// Exit code of a child whose calls were refused.
const EVICTED: i32 = 99;
/// Name of the domain of a child that is to be evicted.
const PAUSED: &str = "paused";

/// Joins as the environment says.
pub fn join_as_child(path: &std::path::Path) -> Session {
    let link = vshmem_link::open(path).expect("a link");
    if std::env::var_os(APART).is_none() {
        return Session::join(link).expect("a place");
    }
    Session::join_in(link, paused()).expect("a place")
}

/// The domain of a child that is to be evicted.
pub fn paused() -> DomainIdentity {
    DomainIdentity {
        boot_id: [8; 16],
        pid_namespace: 4,
        born: 0,
        name: PAUSED.to_owned(),
        named: false,
    }
}

/// What a child does: joins, and runs the scenario that the environment names.
pub fn be_child() {
    let (Some(name), Some(path)) = (std::env::var_os(SCENARIO), std::env::var_os(POOL)) else {
        return;
    };
    if let Some(share) = std::env::var(SHARE).ok().and_then(|text| text.parse().ok()) {
        scenario::turn_to(share);
    }
    if std::env::var_os(APART).is_some() || std::env::var_os(SHARE).is_some() {
        // Once evicted, its calls fail; other threads of it may wait for what never comes.
        std::panic::set_hook(Box::new(|what| {
            eprintln!("{what}");
            std::process::exit(EVICTED);
        }));
    }
    let session = join_as_child(path.as_ref());
    match name.to_str() {
        Some("victim") => return scenario::victim(&session),
        Some("mover") => return scenario::mover(&session),
        Some("porter") => return scenario::porter(&session),
        _ => {}
    }
    let scenario = scenario::SCENARIOS.iter().find(|s| name == s.name).expect("a scenario");
    (scenario.act)(session);
}
