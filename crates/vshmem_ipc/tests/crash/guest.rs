//! A guest with clients that stop at crash points, as the host sees it, and as it is inside.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use vshmem_ipc::Client;
use vshmem_lab::{ExecRequest, Lab, Streams, UpOptions};
use vshmem_session::{CreateRequest, Session, create, remove};
use vshmem_wire::DomainState;

use crate::fixture::ROOT;
use crate::plan::{Batch, Step};
use crate::run::{self, Fate, Order, findings};
use crate::scenario::{self, Scenario};

/// The verb of the process that starts clients inside the guest.
pub const RUNNER: &str = "only-run-clients";
/// The pool, inside.
const DEVICE: &str = "/dev/mmapper";
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long survivors may take for their calls on the objects of one client.
const BOUND: Duration = Duration::from_secs(9);

#[derive(Debug, Default)]
pub struct Tally {
    /// Points at which a client stood when its guest ended or was evicted.
    pub points: BTreeSet<String>,
    pub missed: Vec<String>,
    pub boots: u32,
    /// Locks that clients of the guest held then.
    pub locks: usize,
}

/// A pool, and a lab with one guest on it.
pub struct Ground {
    name: String,
    path: PathBuf,
    lab: Lab,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = Lab::down_named(self.lab.name());
        let _ = remove(&self.name);
    }
}

impl Ground {
    /// Of the size that a scenario wants which has it for itself.
    pub fn new(alone: Option<&'static Scenario>) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("crash-guests-{}-{number}", std::process::id());
        let limits = [
            ("shmmni", 160),
            ("semmni", 160),
            ("msgmni", 160),
            ("domains", 4),
            ("clients", 48),
            ("threads", 128),
            ("attaches", 256),
            ("undos", 160),
            ("slabs", alone.map_or(64, |scenario| scenario.slabs)),
        ];
        let request = CreateRequest {
            name: name.clone(),
            bytes: 16 << 20,
            mode: 0o600,
            group: None,
            huge_page: None,
            placement: None,
            limits: limits.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            evict_after: 0,
            backed: true,
            prepare: 0,
            dax: false,
            uuid: None,
        };
        let path = create(&request).expect("a pool");
        let options = UpOptions {
            name: name.clone(),
            count: 1,
            memory_mib: 192,
            pool: Some(path.clone()),
            pool_name: Some(name.clone()),
            ..UpOptions::default()
        };
        let lab = Lab::up(&options).unwrap_or_else(|error| {
            let _ = remove(&name);
            panic!("lab {name}: {error}")
        });
        Self { name, path, lab }
    }

    fn join(&self) -> Session {
        Session::join(vshmem_link::open(&self.path).expect("a link")).expect("a place")
    }
}

/// The process in the guest that starts clients there, and takes orders by line.
struct Runner {
    orders: PipeWriter,
    answers: Receiver<String>,
    /// What clients have written to standard error.
    said: Said,
    exec: JoinHandle<()>,
}

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic there").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Said {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic there")).into_owned()
    }
}

impl Runner {
    fn start(ground: &Ground) -> Self {
        let (input, orders) = io::pipe().expect("a pipe");
        let (output, answers): (PipeReader, PipeWriter) = io::pipe().expect("a pipe");
        let own = std::env::current_exe().expect("this program");
        let staged = format!("/run/vshmem/bin/{}", own.file_name().expect("a name").display());
        let request = ExecRequest::new([staged.as_str(), RUNNER]);
        let lab = Lab::open(ground.lab.name()).expect("the lab");
        let said = Said::default();
        let heard = said.clone();
        let exec = std::thread::spawn(move || {
            let streams = Streams {
                stdin: Some(input.into()),
                stdout: Box::new(answers),
                stderr: Box::new(heard),
            };
            // The guest dies under it.
            let _ = lab.exec_with(1, &request, streams);
        });
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { orders, answers, said, exec }
    }

    /// Gives an order and returns the answer, while `meanwhile` is done again and again.
    fn ask(&mut self, order: &str, mut meanwhile: impl FnMut()) -> Result<String, String> {
        writeln!(self.orders, "{order}").map_err(|error| format!("{order}: {error}"))?;
        let begun = Instant::now();
        loop {
            match self.answers.recv_timeout(Duration::from_millis(1)) {
                Ok(answer) => return Ok(answer),
                Err(_) if begun.elapsed() > TIMEOUT => return Err(format!("{order}: no answer")),
                Err(_) => meanwhile(),
            }
        }
    }

    fn end(self) {
        drop(self.orders);
        let _ = self.exec.join();
    }
}

/// Brings the clients of a batch to their points, one after the other.
fn bring(
    session: &Session,
    runner: &mut Runner,
    batch: &Batch,
    tally: &mut Tally,
) -> Result<(), String> {
    let survivor = session.client();
    for (share, Step { scenario, point }) in batch.0.iter().enumerate() {
        scenario::turn_to(share as i32);
        (scenario.prepare)(session);
        if scenario.victim {
            let pid = runner.ask(&format!("start {share} victim -"), || ())?;
            let pid = pid.parse().map_err(|_| format!("victim: {pid}"))?;
            let begun = Instant::now();
            while run::sleeping(survivor, pid) < scenario::VICTIM_WAITERS {
                if begun.elapsed() > TIMEOUT {
                    return Err("the victim never slept".to_owned());
                }
                std::thread::yield_now();
            }
            runner.ask("kill", || ())?;
        }
        let order = format!("start {share} {} {point}:1:stop", scenario.name);
        let pid = runner.ask(&order, || ())?;
        let pid: u32 = pid.parse().map_err(|_| format!("{order}: {pid}"))?;
        let rest = runner.ask("rest", || {
            scenario::turn_to(share as i32);
            (scenario.attend)(survivor, pid);
        })?;
        match rest.as_str() {
            "stopped" => {
                tally.points.insert(point.clone());
            }
            // Which way threads take is not the same each time.
            "ended 0" => tally.missed.push(format!("{} {point}", scenario.name)),
            other => {
                return Err(format!("{} {point}: {other}: {}", scenario.name, runner.said.text()));
            }
        }
    }
    tally.boots += 1;
    let Some(domain) = guest_domain(survivor)? else {
        let early = batch.0.iter().all(is_before_domain);
        return early.then_some(()).ok_or_else(|| "the guest's domain is not there".to_owned());
    };
    let clients = survivor.pool().clients().map_err(|errno| errno.to_string())?;
    let inside = |index: u32| clients.iter().any(|row| row.index == index && row.domain == domain);
    let locks = survivor.pool().locks().map_err(|errno| errno.to_string())?;
    tally.locks += locks.iter().filter(|row| row.client.is_some_and(inside)).count();
    Ok(())
}

/// Whether a client stands there before its domain is in the pool: when it claims a thread slot for
/// joining, or has just begun to look for its domain.
fn is_before_domain(step: &Step) -> bool {
    step.point.starts_with("join-domain/") || step.point.contains("slot_guard.rs@")
}

/// None: all clients of the guest stand at points before its domain is in the pool.
fn guest_domain(me: &Client) -> Result<Option<u32>, String> {
    let rows = me.pool().domains().map_err(|errno| errno.to_string())?;
    Ok(rows.iter().find(|row| row.name == "guest1").map(|row| row.index))
}

/// Survivors continue with the objects of every client.
fn survive(session: &Session, batch: &Batch) -> Result<(), String> {
    for (share, step) in batch.0.iter().enumerate() {
        scenario::turn_to(share as i32);
        let begun = Instant::now();
        (step.scenario.survive)(session);
        if begun.elapsed() > BOUND {
            return Err(format!("survivors took {:?}", begun.elapsed()));
        }
    }
    Ok(())
}

/// Declares the guest dead, and looks whether everything is as it should be.
///
/// The pool does not know a guest whose only client has died before its domain was there, so that
/// nobody can say of the process that it is dead. The thread slot that it has claimed stays taken.
fn reap_and_verify(session: &Session, batch: &Batch, fate: Fate) -> Result<(), String> {
    let me = session.client();
    let rows = me.pool().domains().map_err(|errno| errno.to_string())?;
    for row in rows.iter().filter(|row| row.index != me.domain()) {
        me.reap_domain(row.index).map_err(|errno| format!("reaping: {errno}"))?;
    }
    if batch.0.iter().any(|step| step.scenario.repairs) {
        me.repair().map_err(|errno| format!("repair: {errno}"))?;
    }
    let unknown = guest_domain(me)?.is_none();
    let joining = |one: &String| {
        one.starts_with("thread slot ") && one.ends_with("held by a process that was joining")
    };
    let (kept, wrong): (Vec<_>, Vec<_>) =
        findings(me, false).into_iter().partition(|one| unknown && joining(one));
    if !wrong.is_empty() || kept.len() > batch.0.len() {
        return Err(format!("after the reaping: {kept:?} {wrong:?}"));
    }
    let rows = me.pool().domains().map_err(|errno| errno.to_string())?;
    let alive = rows.iter().filter(|row| row.state == DomainState::Alive).count();
    if alive != 1 {
        return Err(format!("domains: {rows:?}"));
    }
    survive(session, batch)?;
    for (share, step) in batch.0.iter().enumerate() {
        scenario::turn_to(share as i32);
        let order = Order { name: step.point.clone(), nth: 1, fate };
        (step.scenario.verify)(session, &order)
            .map_err(|what| format!("{} {}: {what}", step.scenario.name, step.point))?;
    }
    scenario::verify_empty(session, kept.len() as u32)?;
    let wrong = findings(me, false);
    if wrong == kept { Ok(()) } else { Err(format!("in the end: {wrong:?}")) }
}

/// SIGKILL for the whole guest while its clients stand at their points.
pub fn kill_whole(ground: &Ground, batch: &Batch, tally: &mut Tally) -> Result<(), String> {
    let session = ground.join();
    let mut runner = Runner::start(ground);
    bring(&session, &mut runner, batch, tally)?;
    ground.lab.kill(1).map_err(|error| error.to_string())?;
    runner.end();
    // Before the guest is declared dead.
    survive(&session, batch)?;
    let wrong = findings(session.client(), true);
    if !wrong.is_empty() {
        return Err(format!("before the reaping: {wrong:?}"));
    }
    reap_and_verify(&session, batch, Fate::Killed)
}

/// The guest is paused and evicted while its clients stand at their points; then both go on.
pub fn evict_paused(ground: &Ground, batch: &Batch, tally: &mut Tally) -> Result<(), String> {
    let session = ground.join();
    let me = session.client();
    let mut runner = Runner::start(ground);
    bring(&session, &mut runner, batch, tally)?;
    ground.lab.pause(1).map_err(|error| error.to_string())?;
    survive(&session, batch)?;
    match guest_domain(me)? {
        Some(domain) => me.evict_domain(domain).map_err(|errno| format!("eviction: {errno}"))?,
        // They join only afterwards.
        None => {
            for Step { scenario, point } in &batch.0 {
                tally.points.remove(point);
                tally.missed.push(format!("{} {point}", scenario.name));
            }
        }
    }
    let attached = run::quarantined(me);
    survive(&session, batch)?;
    // Whatever is given out now must not be what it can still write to.
    let all = run::fill(&session);
    let wrong = findings(me, true);
    if !wrong.is_empty() {
        return Err(format!("evicted: {wrong:?}"));
    }
    ground.lab.resume(1).map_err(|error| error.to_string())?;
    let ended = runner.ask("continue", || ())?;
    let wrong = findings(me, true);
    if !wrong.is_empty() {
        let said = runner.said.text();
        return Err(format!("it went on after its eviction: {wrong:?} ({ended}): {said}"));
    }
    let kept = run::quarantined(me);
    if kept != attached {
        return Err(format!("its attaches were {attached:?} and became {kept:?}"));
    }
    for id in all {
        me.segment_remove(id, &ROOT).map_err(|errno| format!("removal: {errno}"))?;
    }
    ground.lab.kill(1).map_err(|error| error.to_string())?;
    runner.end();
    reap_and_verify(&session, batch, Fate::Evicted)
}

/// Inside the guest: starts the clients that it is asked for.
///
/// `start SHARE SCENARIO ORDER` answers with its pid, `rest` with how the last one came to rest;
/// `kill` ends the last one, and `continue` lets all go on and answers when they have ended.
pub fn be_runner() -> io::Result<()> {
    let mut children: Vec<Child> = Vec::new();
    for line in io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        // A point may have a space in its name.
        let answer = match words[..] {
            ["start", share, scenario, ..] => {
                let order = words[3..].join(" ");
                let child = Command::new(std::env::current_exe()?)
                    .env(run::SCENARIO, scenario)
                    .env(run::POOL, DEVICE)
                    .env(run::SHARE, share)
                    .env("VSHMEM_CRASH", order)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .spawn()?;
                let pid = child.id().to_string();
                children.push(child);
                pid
            }
            ["rest"] => rest(children.last())?,
            ["kill"] => {
                let mut child = children.pop().ok_or(io::ErrorKind::NotFound)?;
                child.kill()?;
                child.wait()?.to_string()
            }
            ["continue"] => {
                let pids: Vec<Pid> = children.iter().filter_map(pid_of).collect();
                for pid in pids {
                    // It may have ended at its point's neglect.
                    let _ = kill_process(pid, Signal::CONT);
                }
                let ends = children.iter_mut().map(Child::wait).map(|end| match end {
                    Ok(status) => status.code().map_or("killed".to_owned(), |c| c.to_string()),
                    Err(error) => error.to_string(),
                });
                ends.collect::<Vec<_>>().join(" ")
            }
            _ => "?".to_owned(),
        };
        println!("{answer}");
    }
    Ok(())
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id() as i32)
}

/// Waits until a client stops or ends.
fn rest(child: Option<&Child>) -> io::Result<String> {
    let Some(pid) = child.and_then(pid_of) else { return Ok("none".to_owned()) };
    let Some((_, status)) = waitpid(Some(pid), WaitOptions::UNTRACED)? else {
        return Ok("nothing".to_owned());
    };
    Ok(match status.exit_status() {
        _ if status.stopped() => "stopped".to_owned(),
        Some(code) => format!("ended {code}"),
        None => "killed".to_owned(),
    })
}
