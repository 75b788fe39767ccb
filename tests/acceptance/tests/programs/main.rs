//! Other people's programs, and the oracle, under `vshmem run` on this machine.

use std::process::{Command, ExitCode};

use vshmem_acceptance::suite::{self, Test, say, skip};
use vshmem_acceptance::{Pool, Ran, build, run};

const TESTS: &[Test] = &[
    ("the_pool_behaves_as_the_kernel_does", probe),
    ("the_pool_behaves_as_the_kernel_does_with_cases_at_once", probe_at_once),
    ("sysv_ipc_of_python_passes_its_own_tests", python),
    ("ipcmk_ipcrm_and_ipcs_see_the_pool", util_linux),
    ("perl_passes_its_own_tests", perl),
    ("stress_ng_verifies_what_it_reads_back", stress_ng),
    ("the_examples_and_kernels_run_in_every_order", stock),
];

/// Large enough for stress-ng, whose segments have 8 MiB each.
const SIZE: &str = "512M";

fn main() -> ExitCode {
    suite::run(&[TESTS])
}

fn prefix(pool: &Pool) -> String {
    format!("{} run --pool {} --", build::vshmem().display(), pool.name())
}

fn script(name: &str) -> Command {
    Command::new(build::source().join("tests").join(name))
}

/// Says the last line aloud and insists on success.
#[track_caller]
fn passed(what: &str, ran: &Ran) {
    let last = ran.out.lines().last().unwrap_or_default();
    if last.starts_with("0 passed, 0 failed") {
        skip(what, ran.out.lines().next().unwrap_or_default());
    } else {
        say(&format!("{what}: {last}"));
    }
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

fn compare(jobs: &str, what: &str) {
    let pool = Pool::new("64M", &["--limit", "clients=2000", "--limit", "threads=4000"]);
    let probe = build::programs("tests/conformance/probe").join("probe");
    let ran = run(script("conformance/compare.sh").arg(probe).arg(prefix(&pool)).env("JOBS", jobs));
    ran.out.lines().filter(|line| line.starts_with("differs as expected")).for_each(say);
    passed(what, &ran);
    pool.assert_clean();
}

fn probe() {
    compare("1", "probe, pool against the kernel");
}

fn probe_at_once() {
    compare("8", "probe, eight cases at a time");
}

/// Runs one of the scripts of tests/third_party, and sees to it that no object was made in the kernel meanwhile: as root
/// in an IPC namespace of its own, because other programs of this machine make objects too.
fn third_party(name: &str, what: &str, arguments: &[&str]) {
    const WATCHED: &str = "\"$@\"; code=$?; tail -qn +2 /proc/sysvipc/* >&2; exit $code";
    let pool = Pool::new(SIZE, &[]);
    let script = build::source().join("tests/third_party").join(name);
    let alone = rustix::process::geteuid().is_root();
    let mut command = Command::new(if alone { "unshare" } else { "sh" });
    if alone {
        command.args(["--ipc", "sh", "-c", WATCHED, "sh"]);
    }
    let ran = run(command.arg(script).arg(prefix(&pool)).args(arguments));
    passed(what, &ran);
    if alone {
        assert!(!ran.err.lines().any(is_object), "objects are left in the kernel: {}", ran.err);
    }
    pool.assert_clean();
}

/// Whether a line is one of /proc/sysvipc: a dozen numbers.
fn is_object(line: &str) -> bool {
    let numbers = line.split_whitespace().filter(|word| word.parse::<i64>().is_ok()).count();
    numbers >= 10 && numbers == line.split_whitespace().count()
}

fn python() {
    third_party("run_sysv_ipc.sh", "sysv_ipc of Python", &[]);
}

fn util_linux() {
    third_party("run_util_linux.sh", "ipcmk, ipcrm and ipcs", &[]);
}

fn perl() {
    third_party("run_perl_ipc.sh", "Perl's IPC::SysV", &[]);
}

fn stress_ng() {
    third_party("run_stress_ng.sh", "stress-ng", &["3"]);
}

fn stock() {
    let pool = Pool::new("64M", &[]);
    for directory in ["examples", "bench"] {
        let check = build::source().join(directory).join("check.sh");
        let ran = run(Command::new(check).arg(build::programs(directory)).arg(prefix(&pool)));
        passed(&format!("{directory}/check.sh"), &ran);
        pool.assert_clean();
    }
}
