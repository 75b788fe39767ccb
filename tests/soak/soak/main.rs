//! Processes under load on one pool, killed and stopped at random, and accounts that must balance.
//!
//! SOAK_SECONDS says for how long (25 s by default), SOAK_SEED repeats a run's dice, though not
//! its timing. See tests/soak/README.md.

#![forbid(unsafe_code)]

mod epoch;
mod journal;
mod message;
mod objects;
mod random;
mod worker;
mod worker_pool;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use vshmem_acceptance::{build, run};
use vshmem_session::{CreateRequest, create, remove};

use epoch::Ground;
use worker_pool::Tally;

/// Workers come and go for that long before all of them are killed and the accounts are drawn up.
const EPOCH: u64 = 4;
/// An epoch that is not over by then hangs.
const HANGS: Duration = Duration::from_secs(120);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A pool that goes at the end.
struct Pool(String);

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = remove(&self.0);
    }
}

fn prepare(pool: &Pool) -> Result<Ground, String> {
    let limits = [
        ("shmmni", 64),
        ("semmni", 64),
        ("msgmni", 64),
        ("domains", 4),
        ("clients", 96),
        ("threads", 192),
        ("attaches", 512),
        ("undos", 512),
        ("slabs", 64),
    ];
    let request = CreateRequest {
        name: pool.0.clone(),
        bytes: 24 << 20,
        mode: 0o600,
        group: None,
        huge_page: None,
        placement: None,
        limits: limits.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        evict_after: 0,
        backed: false,
        prepare: 0,
        dax: false,
        uuid: None,
    };
    let place = create(&request).map_err(|error| error.to_string())?;
    let session = epoch::join(&place)?;
    let on = epoch::Objects::make(&session).map_err(|errno| format!("the objects: {errno}"))?;
    session.leave().map_err(|errno| format!("leaving: {errno}"))?;
    let journals = std::env::temp_dir().join(format!("vshmem-soak-{}", std::process::id()));
    let bare = epoch::room(&epoch::look_at(&place)?)?;
    let has_far = worker_pool::can_be_far();
    if !has_far {
        println!("SKIPPED: a second domain: `unshare --pid` needs root");
    }
    Ok(Ground { name: pool.0.clone(), place, journals, on, has_far, bare })
}

/// Ends this process when an epoch hangs, with the locks of the pool for a last word.
fn guard(name: String, begun: std::sync::mpsc::Receiver<u64>) {
    std::thread::spawn(move || {
        let mut seed = 0;
        loop {
            match begun.recv_timeout(HANGS) {
                Ok(next) => seed = next,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    let vshmem = build::vshmem();
                    let mut ls = std::process::Command::new(vshmem);
                    let shown = run(ls.args(["ls", "--locks", "--pool", &name]));
                    eprintln!("an epoch hangs (seed {seed}):\n{}{}", shown.out, shown.err);
                    let _ = remove(&name);
                    std::process::exit(1);
                }
            }
        }
    });
}

fn soak() -> Result<(), String> {
    let seconds = number("SOAK_SECONDS").unwrap_or(25);
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number("SOAK_SEED").unwrap_or(clock.map_or(1, |since| since.as_secs()));
    println!("soak: SOAK_SECONDS={seconds} SOAK_SEED={seed}");
    let pool = Pool(format!("soak-{}", std::process::id()));
    let ground = prepare(&pool)?;
    let (tell, begun) = std::sync::mpsc::channel();
    guard(pool.0.clone(), begun);
    let start = Instant::now();
    let (mut all, mut epochs) = (Tally::default(), 0);
    while start.elapsed().as_secs() < seconds {
        let _ = tell.send(seed + epochs);
        let tally = epoch::run(&ground, EPOCH, seed + epochs)
            .map_err(|what| format!("epoch {epochs} (seed {}): {what}", seed + epochs))?;
        all.add(tally);
        epochs += 1;
        if epochs.is_multiple_of(10) {
            println!("{:.0} s: {all:?}", start.elapsed().as_secs_f64());
        }
    }
    let check = run(std::process::Command::new(build::vshmem()).args(["pool", "check", &pool.0]));
    if check.code != 0 {
        return Err(format!("pool check: {}{}", check.out, check.err));
    }
    let _ = std::fs::remove_dir_all(&ground.journals);
    let took = start.elapsed().as_secs_f64();
    println!(
        "soak: {} processes killed ({:.1}/s), {} stopped, {} agents and {} domains killed, {} operations ({:.0}/s), {} messages, in {epochs} epochs and {took:.0} s",
        all.kills,
        all.kills as f64 / took,
        all.stops,
        all.agents,
        all.domains,
        all.operations,
        all.operations as f64 / took,
        all.messages,
    );
    println!("soak: all accounts balance, nothing leaked, pool check clean");
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "worker") {
        return match worker::be(&words[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        };
    }
    // As libtest counts, for tests/run.
    match soak() {
        Ok(()) => {
            println!("test result: ok. 1 passed; 0 failed; 0 ignored");
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("{what}\ntest result: FAILED. 0 passed; 1 failed; 0 ignored");
            ExitCode::FAILURE
        }
    }
}
