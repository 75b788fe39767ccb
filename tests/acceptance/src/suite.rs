//! Running the tests of one binary.

use std::process::ExitCode;

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
            each(name, test);
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.iter().copied().flatten().map(trial).collect()).exit_code()
}

/// Whether this is root; says a skip aloud if not.
pub fn root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(what, "it needs root");
    }
    root
}
