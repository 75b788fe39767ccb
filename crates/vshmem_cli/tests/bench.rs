//! `vshmem bench`: a short run between plain processes, its table and its lines; no figure is judged.

mod rig;

use std::path::Path;
use std::process::Command;

use rig::{Installed, complaint, refusal, vshmem};

/// The C programs, built into a directory.
fn programs(directory: &Path) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
    let build = directory.join("bench");
    let made = Command::new("make")
        .arg("-C")
        .arg(sources)
        .arg(format!("BUILD={}", build.display()))
        .output()
        .expect("the tests of `bench` need make and cc");
    assert!(made.status.success(), "{}", complaint(&made));
    build.display().to_string()
}

#[test]
fn a_short_run_between_processes() {
    let installed = Installed::new();
    let programs = programs(installed.path());
    let beside = Path::new(env!("CARGO_BIN_EXE_vshmem")).with_file_name("libvshmem_preload.so");
    // Without the real library "vshmem" measures the kernel again, which does for everything looked at here.
    let mut command = if beside.is_file() { vshmem() } else { installed.command() };
    let json = installed.path().join("runs.jsonl");
    let output = command
        .args(["bench", "pingpong", "--quick", "--between", "processes", "--sizes", "8,64K"])
        .args(["--pairs", "2", "--rounds", "500", "--programs", &programs, "--json"])
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    let shown = String::from_utf8_lossy(&output.stdout);
    for part in [
        "two processes of one kernel",
        "sysv, 1 kernel",
        "vshmem / sysv",
        "64 KiB",
        "by pair index",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let text = std::fs::read_to_string(&json).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    // UDP carries 8 B, but not 64 KiB.
    assert_eq!((of("machine"), of("sample"), of("summary")), (1, 2 * 7, 2));
    let samples = lines.iter().filter(|line| line["kind"] == "sample");
    assert!(samples.clone().all(|line| line["median_ns"].as_f64().is_some_and(|ns| ns >= 0.0)));
    assert!(samples.clone().all(|line| line["rounds"] == 500));
}

#[test]
fn what_cannot_be_measured_is_said_in_a_sentence() {
    refusal(
        &["bench", "pingpong", "--programs", "/nonexistent"],
        &["pingpong_sysv", "make -C bench"],
    );
    let installed = Installed::new();
    let programs = programs(installed.path());
    refusal(
        &["bench", "pingpong", "--programs", &programs, "--lab", "clitest-no-lab"],
        &["clitest-no-lab", "not up"],
    );
}
