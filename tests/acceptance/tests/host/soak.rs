//! Random deaths under load.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vshmem_acceptance::churn::Shared;
use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Pool, build, until};

const WORKERS: usize = 6;

fn worker(pool: &Pool, ids: &[i64; 3], seed: u64) -> Child {
    let churn = build::programs("tests/acceptance/programs").join("churn");
    let mut command: Command = pool.run();
    command.arg(churn).args(ids.map(|id| id.to_string())).arg(seed.to_string());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// How a worker ended that was not killed.
fn complaint(worker: &mut Child) -> Option<String> {
    use std::io::Read;
    let status = worker.try_wait().unwrap()?;
    let mut text = String::new();
    let _ = worker.stderr.take().map(|mut err| err.read_to_string(&mut text));
    Some(format!("a worker ended by itself: {status}: {text}"))
}

/// What a variable of the environment says.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// How many were killed.
struct Kills {
    workers: usize,
    agents: usize,
}

/// Kills workers and agents until `end`, and the last workers then.
fn kill_until(end: Instant, pool: &Pool, ids: &[i64; 3], next: &mut dyn FnMut() -> u64) -> Kills {
    let mut workers: Vec<Child> = (0..WORKERS).map(|_| worker(pool, ids, next())).collect();
    let mut kills = Kills { workers: 0, agents: 0 };
    while Instant::now() < end {
        std::thread::sleep(Duration::from_micros(next() % 60_000));
        if next().is_multiple_of(40)
            && let Some(agent) = pool.agent()
        {
            vshmem_acceptance::actor::kill(agent);
            kills.agents += 1;
        }
        let victim = next() as usize % WORKERS;
        assert_eq!(complaint(&mut workers[victim]), None);
        workers[victim].kill().unwrap();
        workers[victim].wait().unwrap();
        workers[victim] = worker(pool, ids, next());
        kills.workers += 1;
    }
    for mut worker in workers {
        assert_eq!(complaint(&mut worker), None);
        worker.kill().unwrap();
        worker.wait().unwrap();
        kills.workers += 1;
    }
    kills
}

/// Kills at random for that long; SOAK_SECONDS says how long.
pub fn soak() {
    let seconds = setting("SOAK_SECONDS").unwrap_or(20);
    let mut random = setting("SOAK_SEED").unwrap_or_else(|| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |since| since.as_nanos() as u64)
    });
    say(&format!("SOAK_SEED={random} SOAK_SECONDS={seconds}"));
    let mut next = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random >> 33
    };
    let pool = Pool::new("64M", &[]);
    let mut keeper = Actor::on(&pool);
    let objects = Shared::make(&mut keeper);
    let end = Instant::now() + Duration::from_secs(seconds);
    let kills = kill_until(end, &pool, &objects.ids(), &mut next);
    // No process is left but the keeper, whose calls start an agent if the last one has been
    // killed.
    until("all dead clients are reaped", || {
        keeper.ask(&format!("semctl {} 0 stat", objects.set));
        let clients = pool.rows("clients");
        clients.iter().filter(|row| row["state"] != "agent").count() == 1
    });
    let segments = objects.assert_conserved(&pool, &mut keeper);
    assert!(segments <= kills.workers, "{segments} segments are left");
    let left = keeper.ask(&format!("msgctl {} stat", objects.queue));
    objects.remove(&pool, &mut keeper);
    let Kills { workers, agents } = kills;
    say(&format!(
        "{workers} workers and {agents} agents killed in {seconds} s; tokens conserved, {left}, pool check clean"
    ));
}
