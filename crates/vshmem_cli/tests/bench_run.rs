//! `vshmem bench run` when it is killed: nothing that was measured is lost, and what remains is
//! done once.

mod rig;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// So many that a run is far from done when this test, on a busy machine, comes to kill it.
const REPETITIONS: u32 = 150;

/// Programs that measure nothing, and say so quickly.
fn stubs(directory: &Path) {
    for name in ["dgemm", "faults"] {
        let path = directory.join(name);
        let line = r#"#!/bin/sh
echo '{"bench":"stub","seconds":0.5,"mflops":1234.5678901234567,"median_ns":12.25}'
"#;
        rig::write_program(&path, line.as_bytes());
    }
}

fn run(path: &Path, repetitions: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vshmem"));
    command
        .args(["bench", "run", "--only", "dgemm,faults-malloc", "--environments", "native"])
        .args(["--seed", "5", "--repetitions", &repetitions.to_string()])
        .arg("--programs")
        .arg(path)
        .arg(path.join("study"))
        .stdin(Stdio::null());
    command
}

/// Whole lines of a kind.
fn lines(journal: &str, kind: &str) -> Vec<String> {
    let whole = journal.rfind('\n').map_or("", |end| &journal[..end]);
    let mark = format!("{{\"kind\":\"{kind}\"");
    whole.lines().filter(|line| line.starts_with(&mark)).map(str::to_owned).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn a_killed_run_goes_on_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    stubs(directory.path());
    let journal = directory.path().join("study/journal.jsonl");
    let read = || fs::read_to_string(&journal).unwrap_or_default();
    let mut before: Vec<String> = Vec::new();
    // Killed three times, each time after some more.
    for round in 1..=3 {
        let said = directory.path().join("said");
        let mut child = run(directory.path(), REPETITIONS)
            .stdout(Stdio::null())
            .stderr(fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        while lines(&read(), "sample").len() < round * 20 {
            let ended = child.try_wait().unwrap();
            let said = fs::read_to_string(&said).unwrap();
            assert_eq!(ended, None, "it ended before it was killed: {said}");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let after = lines(&read(), "sample");
        assert_eq!(after[..before.len()], before, "what was there is there");
        before = after;
    }
    // And in the middle of a write.
    let torn = read() + "{\"kind\":\"sample\",\"case\":\"dgemm-32.nat";
    fs::write(&journal, torn).unwrap();
    let output = run(directory.path(), 2).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("runs are done; the rest takes"), "{}", text(&output));
    let samples = lines(&read(), "sample");
    assert_eq!(samples[..before.len()], before);
    let runs: HashSet<(String, u64)> = samples
        .iter()
        .map(|line| {
            let sample: serde_json::Value = serde_json::from_str(line).unwrap();
            (sample["case"].as_str().unwrap().into(), sample["repetition"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(runs.len(), samples.len(), "each once");
    let cases: HashSet<&String> = runs.iter().map(|(case, _)| case).collect();
    assert_eq!(
        runs.len(),
        cases.len() * REPETITIONS as usize,
        "the repetitions that it was begun with"
    );
    assert_eq!(lines(&read(), "session").len(), 4);
    let page = fs::read_to_string(directory.path().join("study/report.html")).unwrap();
    assert!(page.contains("in 4 sessions"));
}

#[test]
fn ctrl_c_leaves_a_journal_that_is_gone_on_with() {
    let directory = tempfile::tempdir().unwrap();
    stubs(directory.path());
    let journal = directory.path().join("study/journal.jsonl");
    let mut child = run(directory.path(), 500).stderr(Stdio::piped()).spawn().unwrap();
    while lines(&fs::read_to_string(&journal).unwrap_or_default(), "sample").len() < 10 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("resumes"), "{}", text(&output));
    let report = Command::new(env!("CARGO_BIN_EXE_vshmem"))
        .args(["bench", "report"])
        .arg(directory.path().join("study"))
        .output()
        .unwrap();
    assert!(report.status.success(), "{}", text(&report));
}

#[test]
fn what_is_not_there_is_named_and_the_rest_measured() {
    let directory = tempfile::tempdir().unwrap();
    stubs(directory.path());
    fs::remove_file(directory.path().join("faults")).unwrap();
    let output = run(directory.path(), 3).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("faults: not found"), "{}", text(&output));
    fs::remove_file(directory.path().join("dgemm")).unwrap();
    fs::remove_dir_all(directory.path().join("study")).unwrap();
    let output = run(directory.path(), 3).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("nothing could be run"), "{}", text(&output));
}

#[test]
fn names_that_there_are_not_are_usage() {
    for (option, name) in [("--only", "nonsense"), ("--environments", "moon")] {
        let output = Command::new(env!("CARGO_BIN_EXE_vshmem"))
            .args(["bench", "run", "/nowhere/at/all", option, name])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(name), "{}", text(&output));
    }
}

/// The comparison of a plan: the same programs in one kernel and in guests, and what it leaves out.
#[test]
fn the_comparison_of_a_plan_says_what_it_does_not_show() {
    let list = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vshmem"));
        command.args(["bench", "run", "--list", "--plan"]).args(words);
        text(&command.output().unwrap())
    };
    let said = list(&[]);
    for part in ["limit: Huge pages", "--lab", "laplace-512.guests.vshmem", "hpcc-1000.native"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("guest-host") && !said.contains("noise"), "{said}");
    let of_own_guests = "limit: Guests are User Mode Linux";
    assert!(said.contains(of_own_guests) && !list(&["--lab", "x"]).contains(of_own_guests));
}
