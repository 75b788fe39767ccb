//! Random deaths under load.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Pool, build, until};

const WORKERS: usize = 6;
const TOKENS: [i64; 2] = [5, 4];

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

/// Kills at random for that long; SOAK_SECONDS says how long.
pub fn soak() {
    let seconds =
        std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut random =
        std::env::var("SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
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
    let set = keeper.number("semget 0 2 0600");
    for (at, tokens) in TOKENS.iter().enumerate() {
        assert_eq!(keeper.ask(&format!("semctl {set} {at} setval {tokens}")), "0");
    }
    let ids = [set, keeper.number("msgget 0 0600"), keeper.number("shmget 0 65536 0600")];
    let mut workers: Vec<Child> = (0..WORKERS).map(|_| worker(&pool, &ids, next())).collect();
    let (end, mut kills, mut agents) = (Instant::now() + Duration::from_secs(seconds), 0, 0);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_micros(next() % 60_000));
        if next() % 40 == 0
            && let Some(agent) = pool.agent()
        {
            vshmem_acceptance::actor::kill(agent);
            agents += 1;
        }
        let victim = next() as usize % WORKERS;
        if let Some(complaint) = complaint(&mut workers[victim]) {
            panic!("{complaint}");
        }
        workers[victim].kill().unwrap();
        workers[victim].wait().unwrap();
        workers[victim] = worker(&pool, &ids, next());
        kills += 1;
    }
    for mut worker in workers {
        assert_eq!(complaint(&mut worker), None);
        worker.kill().unwrap();
        worker.wait().unwrap();
        kills += 1;
    }
    // No process is left but the keeper, whose calls start an agent if the last one has been
    // killed.
    until("all dead clients are reaped", || {
        keeper.ask(&format!("semctl {set} 0 stat"));
        let clients = pool.rows("clients");
        clients.iter().filter(|row| row["state"] != "agent").count() == 1
    });
    let mut total = || {
        let of =
            |at: usize, keeper: &mut Actor| keeper.number(&format!("semctl {set} {at} getval"));
        of(0, &mut keeper) + of(1, &mut keeper)
    };
    assert_eq!(total(), TOKENS.iter().sum::<i64>(), "tokens were lost or made");
    assert!(keeper.ask(&format!("shmctl {} stat", ids[2])).starts_with("nattch 0 "));
    // A worker killed between shmget and IPC_RMID leaves its segment, as it would with the kernel;
    // one that was marked for removal is gone with its last user.
    let mut orphans = pool.rows("segments");
    orphans.retain(|row| row["id"] != ids[2]);
    for orphan in &orphans {
        assert!(orphan["nattch"] == 0 && orphan["status"] == serde_json::json!([]), "{orphan}");
        assert_eq!(keeper.ask(&format!("shmctl {} rmid", orphan["id"])), "0");
    }
    assert!(orphans.len() <= kills, "{orphans:?}");
    let left = keeper.ask(&format!("msgctl {} stat", ids[1]));
    pool.assert_clean();
    for order in [
        format!("semctl {set} 0 rmid"),
        format!("msgctl {} rmid", ids[1]),
        format!("shmctl {} rmid", ids[2]),
    ] {
        assert_eq!(keeper.ask(&order), "0");
    }
    pool.assert_clean();
    say(&format!(
        "{kills} workers and {agents} agents killed in {seconds} s; tokens conserved, {left}, pool check clean"
    ));
}
