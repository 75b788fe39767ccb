//! What a running program gets when a pool cannot serve it.

use std::process::Command;

use vshmem_acceptance::suite::root;
use vshmem_acceptance::{Actor, Pool, build, run};

/// The numbers of a refusal as the actor says them: how many went well, and the errno.
fn stuffed(answer: &str) -> (u64, &str) {
    let (count, errno) = answer.split_once(' ').unwrap_or_else(|| panic!("{answer}"));
    (count.parse().unwrap_or_else(|_| panic!("{answer}")), errno)
}

pub fn full() {
    let pool = Pool::new(
        "16M",
        &["--limit", "msgmnb=1g", "--limit", "msgmax=8192", "--limit", "shmmni=8"],
    );
    let mut actor = Actor::on(&pool);
    // Segments until there is no memory: ENOSPC or ENOMEM at shmget, and what was given stays
    // usable.
    let mut segments = vec![actor.number("shmget 0 1048576 0600")];
    let refusal = loop {
        let answer = actor.ask("shmget 0 2097152 0600");
        match answer.parse() {
            Ok(id) if segments.len() < 64 => segments.push(id),
            _ => break answer,
        }
    };
    assert_eq!(refusal, "-1 ENOSPC");
    for id in &segments {
        let at = actor.number(&format!("shmat {id} 0"));
        assert_eq!(actor.number(&format!("poke {at} 1048568 5")), 5, "no SIGBUS at the touch");
    }
    for (at, id) in segments.iter().enumerate() {
        assert_eq!(actor.ask(&format!("shmdt {at}")), "0");
        assert_eq!(actor.ask(&format!("shmctl {id} rmid")), "0");
    }
    // The table of segments full: ENOSPC too.
    let small: Vec<i64> = (0..8).map(|_| actor.number("shmget 0 4096 0600")).collect();
    assert_eq!(actor.ask("shmget 0 4096 0600"), "-1 ENOSPC");
    small.iter().for_each(|id| assert_eq!(actor.ask(&format!("shmctl {id} rmid")), "0"));
    let set = actor.number("semget 0 1 0600");
    // Messages until there is no memory, and again after some have been taken.
    let queue = actor.number("msgget 0 0600");
    let answer = actor.ask(&format!("stuff {queue} 8000"));
    let (sent, errno) = stuffed(&answer);
    assert!(sent > 10, "{answer}");
    assert_eq!(errno, "ENOMEM");
    for _ in 0..4 {
        assert!(actor.ask(&format!("msgrcv {queue} 0 04000")).starts_with("1 "));
    }
    let answer = actor.ask(&format!("stuff {queue} 8000"));
    assert!((4..=5).contains(&stuffed(&answer).0), "{answer}");
    // With a full pool what is there goes on, and what is new is refused.
    assert_eq!(actor.ask(&format!("semop {set} 0,1")), "0");
    assert_eq!(actor.ask("semget 0 32 0600"), "-1 ENOMEM");
    assert_eq!(actor.ask(&format!("msgctl {queue} rmid")), "0");
    assert_eq!(actor.ask(&format!("semctl {set} 0 rmid")), "0");
    actor.end();
    pool.assert_clean();
}

/// A pool that goes bad or away between `vshmem run` and the first call, played by setting the
/// variables by hand.
pub fn unusable() {
    let pool = Pool::new("16M", &[]);
    let sound = std::fs::read(pool.path()).unwrap();
    let scratch = std::path::PathBuf::from(format!("/dev/shm/vshmem.bad{}", std::process::id()));
    let mut newer = sound.clone();
    // The version follows the magic.
    newer[8] = newer[8].wrapping_add(1);
    let cases: [(&str, Option<&[u8]>, &str); 5] = [
        ("wrong magic", Some(&[b'x'; 65536]), "magic number"),
        ("newer version", Some(&newer), "version"),
        ("truncated", Some(&sound[..sound.len() / 2]), "truncated"),
        ("empty", Some(&[]), "truncated"),
        ("unknown", None, "bad"),
    ];
    for (what, bytes, words) in cases {
        let _ = std::fs::remove_file(&scratch);
        if let Some(bytes) = bytes {
            std::fs::write(&scratch, bytes).unwrap();
        }
        let mut command = Command::new("env");
        command
            .arg(format!("LD_PRELOAD={}", build::binaries().join("libvshmem_preload.so").display()))
            .arg(format!("VSHMEM_POOL={}", scratch.display()))
            .arg("VSHMEM_LOG=info")
            .arg("sh")
            .args([
                "-c",
                "printf 'shmget 0 4096 0600\\nsemop 16384 0,1\\nmsgget 0 0600\\n' | exec \"$0\"",
            ])
            .arg(build::actor());
        let ran = run(&mut command);
        assert_eq!(ran.code, 0, "{what}: {ran:?}");
        assert_eq!(ran.out, "-1 ENOSYS\n".repeat(3), "{what}: {}", ran.err);
        assert!(ran.err.contains(words), "{what}: {words:?} is not in: {}", ran.err);
        let ran = run(Command::new(build::vshmem())
            .args(["run", "--pool"])
            .arg(&scratch)
            .args(["--", "true"]));
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{what}: {}", ran.err);
        assert!(ran.err.contains(words), "{what}: {words:?} is not in: {}", ran.err);
    }
    let _ = std::fs::remove_file(&scratch);
}

/// Inside a pool the modes of its objects are kept: by number of user and group.
pub fn modes() {
    if !root("objects of two users") {
        return;
    }
    let pool = Pool::new("32M", &["--mode", "0666"]);
    let mut owner = Actor::on(&pool);
    let mut command = Command::new("setpriv");
    command.args(build::NOBODY).arg(build::public().join("vshmem")).args([
        "run",
        "--pool",
        pool.name(),
        "--",
    ]);
    let mut other = Actor::start(&mut command);
    let (segment, set, queue) = (
        owner.number("shmget 0x66 4096 01600"),
        owner.number("semget 0x66 1 01600"),
        owner.number("msgget 0x66 01600"),
    );
    for (order, expected) in [
        ("shmget 0x66 0 0600".to_owned(), "-1 EACCES"),
        (format!("shmat {segment} 0"), "-1 EACCES"),
        (format!("shmctl {segment} stat"), "-1 EACCES"),
        (format!("shmctl {segment} rmid"), "-1 EPERM"),
        ("semget 0x66 0 0600".to_owned(), "-1 EACCES"),
        (format!("semop {set} 0,1"), "-1 EACCES"),
        (format!("semctl {set} 0 getval"), "-1 EACCES"),
        (format!("semctl {set} 0 rmid"), "-1 EPERM"),
        ("msgget 0x66 0600".to_owned(), "-1 EACCES"),
        (format!("msgsnd {queue} 1 text"), "-1 EACCES"),
        (format!("msgrcv {queue} 0 04000"), "-1 EACCES"),
        (format!("msgctl {queue} rmid"), "-1 EPERM"),
    ] {
        assert_eq!(other.ask(&order), expected, "{order}");
    }
    let open = other.number("semget 0x67 1 01600");
    // Root may.
    assert_eq!(owner.ask(&format!("semctl {open} 0 rmid")), "0");
}
