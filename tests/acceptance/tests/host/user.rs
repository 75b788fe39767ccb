//! Without root.

use std::process::Command;

use vshmem_acceptance::suite::{root, say};
use vshmem_acceptance::{Pool, Ran, build, run};

/// A user that has no private pool, no home and no name.
const OTHER_USER: [&str; 5] = ["--reuid", "61234", "--regid", "61234", "--clear-groups"];
const PRIVATE: &str = "private-61234";

fn other_user(words: &[&str]) -> Ran {
    let mut command = Command::new("setpriv");
    command.args(OTHER_USER).args(words).env_remove("VSHMEM_POOL").current_dir("/tmp");
    run(&mut command)
}

pub fn all() {
    if !root("an ordinary user (played by root through setpriv)") {
        return;
    }
    let vshmem = build::public().join("vshmem").display().to_string();
    let v = |words: &[&str]| other_user(&[&[vshmem.as_str()], words].concat());
    let _ = v(&["pool", "rm", "--force", PRIVATE]);
    // Nothing named and nothing set up.
    v(&["ls"]).refused(1, &["vshmem run"]);
    let actor = build::actor().display().to_string();
    let line = format!(
        "printf 'semget 0x1 1 01600\\nsemop 16384 0,1\\nsemctl 16384 0 getval\\n' | {actor}"
    );
    assert_eq!(v(&["run", "sh", "-c", &line]).ok(), "16384\n0\n1\n");
    assert!(v(&["ls"]).ok().contains("0x00000001"));
    assert!(v(&["ls", "-s", "--json"]).ok().contains("16384"));
    assert!(v(&["pool", "ls"]).ok().contains(PRIVATE));
    v(&["pool", "check", PRIVATE]).ok();
    v(&["pool", "show", PRIVATE]).ok();
    v(&["rm", "-s", "16384"]).ok();
    assert!(!v(&["ls"]).ok().contains("0x00000001"));
    let _ = v(&["doctor"]);
    // Its own named pool, with the stock programs on it.
    v(&["pool", "create", "acceptance-other-user", "--size", "16M"]).ok();
    let flood = build::public_program("bench", "flood").display().to_string();
    let ran =
        v(&["run", "--pool", "acceptance-other-user", "--", &flood, "--both", "--rounds", "5000"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    v(&["pool", "check", "acceptance-other-user"]).ok();
    // What only the host's root can do says so.
    let lab = v(&["lab", "up", "--guest", "uml", "--pool", "acceptance-other-user"]);
    lab.refused(1, &["root"]);
    v(&["pool", "rm", "--force", "acceptance-other-user"]).ok();
    // The oracle, as this user.
    let probe = build::public_program("tests/conformance/probe", "probe").display().to_string();
    let compare = build::public_program("tests/conformance", "compare.sh").display().to_string();
    let expected = build::public_program("tests/conformance", "expected_differences.txt")
        .display()
        .to_string();
    let setting = format!("EXPECTED_DIFFERENCES={expected}");
    let on_pool = format!("{vshmem} run --share all,posix --");
    // File locks also while programs end all the time: root alone sees what those have open.
    for (jobs, cases) in [("JOBS=1", "*"), ("JOBS=8", "posix_lock_*")] {
        let ran = other_user(&["env", &setting, jobs, &compare, &probe, &on_pool, cases]);
        say(&format!("probe as an ordinary user: {}", ran.out.lines().last().unwrap_or_default()));
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    v(&["pool", "check", PRIVATE]).ok();
    v(&["pool", "rm", "--force", PRIVATE]).ok();
}

/// As root gives up its rights for good before it makes its first call: it is served as with the
/// kernel, though the pool's file is closed to the user that it has become.
pub fn former_root() {
    if !root("a program that gives up root") {
        return;
    }
    let pool = Pool::new("16M", &[]);
    let become_nobody = "use POSIX; POSIX::setgid(65534); POSIX::setuid(65534); ";
    let call = "my $id = semget(0, 1, 0600); print defined $id ? \"ok $>\\n\" : \"$!\\n\"";
    for fork in ["", "exit(wait() < 0) if fork; "] {
        let ran = run(pool.run().args(["perl", "-e", &format!("{fork}{become_nobody}{call}")]));
        assert_eq!(ran.clone().ok(), "ok 65534\n", "{fork}: {ran:?}");
    }
    assert_eq!(pool.rows("semaphores").len(), 2);
}
