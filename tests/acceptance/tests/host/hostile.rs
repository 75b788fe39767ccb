//! A member that writes nonsense over the whole pool, or over the locks in it, while programs use
//! it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Pool, Ran, build, run};

/// Bookkeeping and heap of a pool of that size; behind them lies what belongs to the programs.
const POOL: &str = "32M";
const BYTES: &str = "9000000";
/// How long there is scribbling.
const SECONDS: &str = "8";
/// Programs give up by themselves long before this.
const BOUND: Duration = Duration::from_secs(300);

/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS: `vshmem run` and shells give 128 +
/// n.
fn crashed(code: i32) -> bool {
    [4, 5, 6, 7, 8, 11, 31].contains(&(code - 128))
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Whatever they answer, they answer.
fn end(what: &str, mut child: Child, begun: Instant) {
    use std::os::unix::process::ExitStatusExt;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
            assert!(!crashed(code), "{what} crashed: {status}");
            return;
        }
        if begun.elapsed() > BOUND {
            let _ = child.kill();
            panic!("{what} does not come to an end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Scribbles slowly, so that programs get far, and fast, so that nothing holds.
pub fn scribbler() {
    let scribble = build::programs("tests/acceptance/programs").join("scribble");
    let bench = build::programs("bench");
    let probe = build::programs("tests/conformance/probe").join("probe");
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64 | 1);
    for rate in ["20", "1000", "20000"] {
        say(&format!("scribble {rate} a second, seed {seed}"));
        let pool = Pool::new(POOL, &[]);
        let seed = seed.to_string();
        let mut hostile = Command::new(&scribble);
        hostile.arg(pool.path()).args([BYTES, SECONDS, rate, &seed]);
        let mut hostile = start(&mut hostile);
        while hostile.try_wait().unwrap().is_none() {
            let begun = Instant::now();
            let flood = ["--both", "--rounds", "20000", "--timeout", "4"];
            let programs = [
                ("flood", start(pool.run().arg(bench.join("flood")).args(flood))),
                ("handover", start(pool.run().arg(bench.join("handover")).args(flood))),
                ("probe", start(pool.run().arg(&probe).args(["--timeout", "2", "--jobs", "8"]))),
            ];
            for words in [["ls", "--json"], ["ls", "--locks"]] {
                let Ran { code, err, .. } = pool.verb(words);
                assert!(!crashed(code), "vshmem {words:?} crashed: {err}");
            }
            for more in [None, Some("--repair")] {
                let mut check = Command::new(build::vshmem());
                let Ran { code, err, .. } =
                    run(check.args(["pool", "check", pool.name()]).args(more));
                assert!(!crashed(code), "vshmem pool check {more:?} crashed: {err}");
            }
            for (what, child) in programs {
                end(what, child, begun);
            }
        }
    }
}

/// Words that the forger writes.
const FORGED: &str = "30000000";

/// Marks stripped and forged, and all else of the locks: no memory of the program's own changes,
/// and once the member has stopped the program ends.
pub fn forger() {
    let programs = build::programs("tests/acceptance/programs");
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64 | 1);
    for words in ["all,posix", "shm,pthread,posix-sem"] {
        say(&format!("forge locks, --share {words}, seed {seed}"));
        let pool = Pool::new(POOL, &[]);
        let mut locker = Command::new(build::vshmem());
        locker.args(["run", "--pool", pool.name(), "--share", words, "--"]);
        let mut locker = start(locker.arg(programs.join("locker")));
        let begun = Instant::now();
        let seed = seed.to_string();
        let mut hostile = Command::new(programs.join("forger"));
        let mut hostile = start(hostile.arg(pool.path()).args([FORGED, &seed]));
        let status = loop {
            if let Some(status) = locker.try_wait().unwrap() {
                break Some(status);
            }
            if begun.elapsed() > BOUND {
                let _ = locker.kill();
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let _ = hostile.kill();
        let _ = hostile.wait();
        let status = status.expect("the program with the locks does not come to an end");
        assert!(status.success(), "the program with the locks: {status}");
    }
}
