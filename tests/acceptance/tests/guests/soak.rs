//! Random deaths under load, in two guests and on the host at once, a whole guest among them.

use std::time::{Duration, Instant};

use vshmem_acceptance::churn::Shared;
use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, build, until};

use crate::shared;

const SECONDS: u64 = 15;

/// Starts a worker, kills it after a while, and so on; prints how many.
fn line(program: &str, ids: &[i64; 3], seed: u64) -> String {
    let [set, queue, segment] = ids;
    format!(
        "n=0; end=$(( $(date +%s) + {SECONDS} )); while [ $(date +%s) -lt $end ]; do n=$((n + 1)); \
         {program} {set} {queue} {segment} $(({seed} + n)) & p=$!; sleep 0.$((n * 37 % 7 + 1)); \
         kill -9 $p || {{ wait $p; echo BY ITSELF $?; }}; wait $p 2>/dev/null; done; echo $n"
    )
}

pub fn soak() {
    let guests = shared();
    let pool = guests.pool();
    let mut keeper = Actor::on(pool);
    let objects = Shared::make(&mut keeper);
    let ids = objects.ids();
    let churn = build::programs("tests/acceptance/programs").join("churn");
    let here =
        format!("{} run --pool {} -- {}", build::vshmem().display(), pool.name(), churn.display());
    let start = Instant::now();
    let kills: Vec<String> = std::thread::scope(|scope| {
        let guest = |guest: u32, seed: u64| {
            let (guests, line) = (&guests, line("vshmem run churn", &ids, seed));
            scope.spawn(move || guests.shell(guest, &line))
        };
        let host = |seed: u64| {
            let line = line(&here, &ids, seed);
            scope.spawn(move || {
                vshmem_acceptance::run(std::process::Command::new("sh").args(["-c", &line]))
            })
        };
        let workers = [guest(1, 100), guest(1, 200), guest(2, 300), host(400)];
        // In the middle of it all the power goes off in guest 2.
        std::thread::sleep(Duration::from_secs(SECONDS / 2));
        guests.open().kill(2).unwrap();
        let outcome = |worker: std::thread::ScopedJoinHandle<'_, vshmem_acceptance::Ran>| {
            let ran = worker.join().unwrap();
            assert!(!ran.out.contains("BY ITSELF") && !ran.err.contains("churn"), "{ran:?}");
            ran.out.trim().to_owned()
        };
        workers.into_iter().map(outcome).collect()
    });
    guests.open().restart(2).unwrap();
    // `vshmem pool serve` may be a member too, besides agents.
    let is_ours = |row: &serde_json::Value| row["command"] != "vshmem";
    until("all dead clients are reaped", || {
        pool.rows("clients").iter().filter(|row| is_ours(row)).count() == 1
    });
    objects.assert_conserved(pool, &mut keeper);
    objects.remove(pool, &mut keeper);
    say(&format!(
        "{} workers killed in guest 1, {} on the host, guest 2 whole, in {:.0} s; tokens conserved, pool check clean",
        kills[..2].join(" + "),
        kills[3],
        start.elapsed().as_secs_f64()
    ));
}
