//! `vshmem bench`: a short run between plain processes, its table and its lines; no figure is
//! judged.

mod rig;

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use rig::{Installed, Name, complaint, expect, refusal, vshmem};
use serde_json::Value;

/// Where the C programs are, once built.
fn programs() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
        let made = Command::new("make")
            .args(["-j2", "-C"])
            .arg(sources)
            .arg(format!("BUILD={}", build.display()))
            .output()
            .expect("the tests of `bench` need make and cc");
        assert!(made.status.success(), "{}", complaint(&made));
        build.display().to_string()
    });
    &BUILD
}

/// Without the real library "vshmem" measures the kernel again, which does for everything looked at
/// here.
fn command(installed: &Installed) -> Command {
    let beside = Path::new(env!("CARGO_BIN_EXE_vshmem")).with_file_name("libvshmem_preload.so");
    if beside.is_file() { vshmem() } else { installed.command() }
}

fn lines_of(json: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(json).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_short_run_between_processes() {
    let installed = Installed::new();
    let mut command = command(&installed);
    let json = installed.path().join("runs.jsonl");
    let output = command
        .args(["bench", "pingpong", "--quick", "--between", "processes", "--sizes", "8,64K"])
        .args(["--pairs", "2", "--rounds", "500", "--programs", programs(), "--json"])
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    let shown = String::from_utf8_lossy(&output.stdout);
    for part in [
        "two processes of one kernel",
        "sysv, 1 kernel",
        "sysv / vshmem",
        "64 KiB",
        "by pair index",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let lines = lines_of(&json);
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
        &["pingpong_sysv", "make programs"],
    );
    refusal(
        &["bench", "pingpong", "--programs", programs(), "--lab", "clitest-no-lab"],
        &["clitest-no-lab", "not up"],
    );
}

#[test]
fn a_short_run_of_system_v_calls() {
    let installed = Installed::new();
    let json = installed.path().join("runs.jsonl");
    let only = "semop,msg-8,sem-trip-asleep,shm-1m-touched,contend-sem-2,contend-msg-2";
    let output = command(&installed)
        .args(["bench", "sysv", "--quick", "--only", only, "--pairs", "2", "--rounds", "100"])
        .args(["--milliseconds", "20", "--seed", "7", "--programs", programs(), "--json"])
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    let shown = String::from_utf8_lossy(&output.stdout);
    for part in ["semmni 10100", "quartiles", "interval", ">= 15", "smallest share, pool"] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let lines = lines_of(&json);
    let of = |kind: &'static str| lines.iter().filter(move |line| line["kind"] == kind);
    let count = |kind| of(kind).count();
    assert_eq!((count("machine"), count("sample"), count("summary")), (1, 6 * 2 * 2 + 2, 6));
    let machine = of("machine").next().unwrap();
    assert_eq!((&machine["seed"], &machine["pool"]["clients"]), (&7.into(), &1200.into()));
    assert!(of("sample").all(|line| line["median_ns"].as_f64().is_some_and(|ns| ns > 0.0)));
    let places: Vec<&Value> = of("sample").map(|line| &line["place"]).collect();
    assert_eq!(places.iter().filter(|place| ***place == "pool").count(), 12);
    for name in ["contend-sem-2", "contend-msg-2"] {
        let mut samples = of("sample").filter(|line| line["name"] == name);
        assert!(samples.all(|line| line["smallest_share"].as_f64().is_some_and(|one| one <= 1.0)));
    }
    let mut sustained = of("sample").filter(|line| line["name"] == "shm-1m-touched");
    assert!(sustained.all(|line| line["cpu_ns"].is_f64()));
    let semop = of("summary").next().unwrap();
    assert_eq!(semop["answers"][0]["target"]["at_least"], 15.0);
    let interval = &semop["answers"][0]["interval"];
    let [low, high] = ["low", "high"].map(|end| interval[end].as_f64().unwrap());
    let value = semop["answers"][0]["value"].as_f64().unwrap();
    assert!(low <= value && value <= high);
    assert!(shown.contains("kernel / prepared pool"), "{shown}");
    // The pool that was made for it is gone.
    let pool = machine["pool"]["file"].as_str().unwrap();
    assert!(!Path::new(pool).exists(), "{pool}");
}

#[test]
fn system_v_calls_that_cannot_be_measured_are_refused() {
    for (words, part) in [
        (&["--only", "nonsense"][..], "--list"),
        (&["--pairs", "0"], "--pairs"),
        (&["--pairs", "many"], "--pairs"),
        (&["--rounds", "1"], "--rounds"),
        (&["--milliseconds", "0"], "--milliseconds"),
        (&["--sizes", "8"], "--sizes"),
        (&["--lab", "lab"], "--guests"),
        (&["--guests", "--only", "semop"], "--list"),
    ] {
        let output = expect(2, &[&["bench", "sysv"], words].concat());
        assert!(complaint(&output).contains(part), "{words:?}: {}", complaint(&output));
    }
    refusal(&["bench", "sysv", "--programs", "/nonexistent"], &["sysv_calls", "make programs"]);
    let missing = Name::new("bench-none");
    refusal(
        &["bench", "sysv", "--programs", programs(), "--only", "semop", "--pool", &missing.0],
        &[&missing.0, "pool create"],
    );
}

#[test]
fn what_a_pool_has_no_room_for_is_left_out_and_said() {
    let installed = Installed::new();
    let pool = Name::new("bench-small");
    expect(0, &["pool", "create", &pool.0, "--size", "8M", "--limit", "semmni=50"]);
    let output = command(&installed)
        .args(["bench", "sysv", "--only", "semop,lookup-semget", "--pairs", "1", "--rounds", "10"])
        .args(["--programs", programs(), "--pool", &pool.0])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("semop"), "{shown}");
    if shown.contains("lookup-semget") {
        // The library that does nothing has left it to the kernel.
        assert!(output.status.success(), "{}", complaint(&output));
    } else {
        assert_eq!(output.status.code(), Some(1));
        let said = complaint(&output);
        assert!(said.contains("lookup-semget") && said.contains("--limit"), "{said}");
    }
}

#[test]
fn the_list_names_everything_with_its_target() {
    let output = expect(0, &["bench", "sysv", "--list"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    for part in ["semop-undo", "kernel / pool >= 10", "lookup-shmget", "one / many >= 1/1.2"] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let output = expect(0, &["bench", "sysv", "--list", "--guests"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    for part in ["sem-trip-guests", "raw / guests >= 1/4", "tcp / guests >= 40"] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let output = expect(0, &["bench", "sysv", "--list", "--only", "getval"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
}
