//! Running the tests of one binary.

use std::process::ExitCode;
use std::time::Instant;

use libtest_mimic::{Arguments, Trial};

/// One test.
pub type Test = (&'static str, fn());

/// Says a line aloud even if the test passes.
pub fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "    {line}");
}

/// Says aloud that something was not tested.
pub fn skip(what: &str, why: &str) {
    say(&format!("SKIPPED: {what}: {why}"));
}

/// Runs groups of tests one at a time: they measure, and two CPUs are soon busy.
pub fn run(tests: &[&[Test]]) -> ExitCode {
    run_each(tests, |_, test| test())
}

/// Skips every test aloud instead, for the same reason.
pub fn run_none(tests: &[&[Test]], why: &'static str) -> ExitCode {
    run_each(tests, move |name, _| skip(name, why))
}

fn run_each(tests: &[&[Test]], each: impl Fn(&str, fn()) + Clone + Send + 'static) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trial = |&(name, test): &Test| {
        let each = each.clone();
        Trial::test(name, move || {
            let began = Instant::now();
            each(name, test);
            match began.elapsed().as_secs() {
                0 => {}
                seconds => say(&format!("{seconds} s: {name}")),
            }
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.iter().copied().flatten().map(trial).collect()).exit_code()
}

/// The cases of the conformance probe that an emulated guest runs, as the shell's words: those that
/// can differ by how a guest has got the pool, because they map it, sleep on it or share it with a
/// child. With VSHMEM_TEST_ORACLE=whole all of them (make test-qemu-all, make test-xen-all). The
/// others run on this machine and in User Mode Linux.
#[must_use]
pub fn cases_of_links() -> &'static str {
    if std::env::var_os("VSHMEM_TEST_ORACLE").is_some_and(|word| word == "whole") {
        return "";
    }
    "'shm_again_*' 'shm_a[dt]*' 'shm_exec_*' 'shm_fork_*' 'shm_large' 'shm_lock*' 'shm_m*' 'shm_page*' \
     'shm_posix*' 'shm_rmid_*' 'shm_s*' 'shm_vfork*' 'shm_window_*' 'posix_shm_map*' 'posix_shm_in*' \
     'posix_shm_[prs]*' 'wait_*' 'fault_*' 'end_exec_while_*' 'end_cancel_receiver'"
}

/// Whether this is root; says a skip aloud if not.
pub fn root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(what, "it needs root");
    }
    root
}
