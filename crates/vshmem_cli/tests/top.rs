//! `vshmem top` and `vshmem metrics`, against a load that is known.

mod rig;

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rig::{Installed, Name, complaint, expect, vshmem};
use vshmem_ipc::{Operation, Receive, Superuser};
use vshmem_session::{Session, find};

const TURNS: u64 = 40_000;
const BYTES: usize = 64;

/// A set and a queue, and what was done with them.
struct Load {
    session: Session,
    set: i32,
    queue: i32,
}

impl Load {
    fn new(name: &Name) -> Self {
        let session = Session::join(find(&name.0).unwrap()).unwrap();
        let set = session.client().semget(0, 2, 0o600, &Superuser).unwrap();
        let queue = session.client().msgget(0, 0o600, &Superuser).unwrap();
        Self { session, set, queue }
    }

    /// Two operations, a message and its receipt for each turn.
    fn run(&self) {
        let me = self.session.client();
        let by = |change| Operation { number: 0, change, no_wait: true, undo: false };
        let wanted = Receive {
            mtype: 0,
            room: BYTES,
            no_wait: true,
            cut: false,
            except: false,
            copy: false,
        };
        for _ in 0..TURNS {
            me.semop(self.set, &[by(1)], None, &Superuser).unwrap();
            me.semop(self.set, &[by(-1)], None, &Superuser).unwrap();
            me.msgsnd(self.queue, 1, &[7; BYTES], true, &Superuser).unwrap();
            me.msgrcv(self.queue, wanted, &Superuser, &mut |_, size, _| Ok(size)).unwrap();
        }
    }
}

/// A command that is stopped with the test.
struct Running(Child);

impl Running {
    fn start(words: &[&str]) -> (Self, BufReader<std::process::ChildStdout>) {
        let mut child = vshmem().args(words).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        (Self(child), lines)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn top_counts_a_known_load_within_two_per_cent() {
    let name = Name::with_pool("top-load");
    let load = Load::new(&name);
    let (mut top, lines) =
        Running::start(&["top", "--pool", &name.0, "--json", "--interval", "0.05"]);
    let mut lines = lines.lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!(first["total"]["operations"], 0.0);
    load.run();
    let (mut operations, mut messages, mut bytes) = (0.0, 0.0, 0.0);
    loop {
        let report = next();
        let seconds = report["seconds"].as_f64().unwrap();
        let of = |what: &str| report["total"][what].as_f64().unwrap() * seconds;
        operations += of("operations");
        messages += of("messages");
        bytes += of("bytes");
        let count = |kind: &str| {
            let objects = report["objects"].as_array().unwrap();
            let row = objects.iter().find(|row| row["kind"] == kind).unwrap();
            row["count"].as_u64().unwrap()
        };
        if count("semaphore") == 2 * TURNS && count("queue") == TURNS {
            break;
        }
    }
    for (measured, known) in
        [(operations, 2 * TURNS), (messages, TURNS), (bytes, TURNS * BYTES as u64)]
    {
        let known = known as f64;
        assert!((measured - known).abs() <= known * 0.02, "{measured} instead of {known}");
    }
    // It ends by itself when nobody reads any more.
    drop(lines);
    assert!(top.0.wait().unwrap().success());
    load.session.leave().unwrap();
}

#[test]
fn top_prints_a_table_per_interval_and_says_who_waits() {
    let name = Name::with_pool("top-table");
    let load = Load::new(&name);
    let (set, me) = (load.set, load.session.client());
    std::thread::scope(|scope| {
        let down = Operation { number: 1, change: -1, no_wait: false, undo: false };
        let waiter = scope.spawn(move || me.semop(set, &[down], None, &Superuser));
        rig::until("a waiter", || me.semaphore_waiters(set, 1, false, &Superuser) == Ok(1));
        let top = ["top", "--pool", &name.0, "--batch", "--count", "2", "--interval", "0.02"];
        let text = String::from_utf8(expect(0, &top).stdout).unwrap();
        assert_eq!(text.matches(&format!("Pool {}, ", name.0)).count(), 2, "{text}");
        for part in ["------ Objects ------", "RATE/S", "2 semaphores", "semaphore 1 rises"] {
            assert_eq!(text.matches(part).count(), 2, "{part}: {text}");
        }
        assert!(!text.contains('\x1b'), "colour where there is no terminal");
        let up = Operation { change: 1, ..down };
        me.semop(set, &[up], None, &Superuser).unwrap();
        waiter.join().unwrap().unwrap();
    });
    load.session.leave().unwrap();
}

/// Name, labels and value of a sample.
fn sample(line: &str) -> (&str, &str, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.strip_suffix('}').unwrap().split_once('{').unwrap();
    assert!(name.starts_with("vshmem_"), "{line}");
    for label in labels.split(',') {
        let (label, value) = label.split_once('=').unwrap();
        assert!(label.chars().all(|c| c.is_ascii_lowercase()), "{line}");
        assert!(value.starts_with('"') && value.ends_with('"'), "{line}");
    }
    (name, labels, value.parse().unwrap())
}

/// Checks every line, and returns the value of a series by its beginning.
fn checked(text: &str) -> impl Fn(&str) -> f64 + use<> {
    let mut family = String::new();
    let mut families = HashSet::new();
    let mut series = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split_once(' ').unwrap().0.to_owned();
            assert!(families.insert(family.clone()), "{family} stands twice");
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {family} ")).unwrap();
            assert_eq!(kind == "counter", family.ends_with("_total"), "{family} {kind}");
            assert!(["counter", "gauge"].contains(&kind));
            continue;
        }
        let (name, labels, value) = sample(line);
        assert_eq!(name, family, "a sample outside of its family");
        series.push((format!("{name}{{{labels}}}"), value));
    }
    let names: HashSet<_> = series.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), series.len(), "a series stands twice");
    move |wanted| {
        let found = series.iter().find(|(name, _)| name.starts_with(wanted));
        found.unwrap_or_else(|| panic!("no {wanted}")).1
    }
}

#[test]
fn metrics_are_what_prometheus_reads_and_count_exactly() {
    let name = Name::with_pool("metrics");
    let load = Load::new(&name);
    load.run();
    let printed = String::from_utf8(expect(0, &["metrics", "--pool", &name.0]).stdout).unwrap();
    let value = checked(&printed);
    let labels = |kind: &str, id: i32| format!("{{pool=\"{}\",kind=\"{kind}\",id=\"{id}\"", name.0);
    let operations = format!("vshmem_semaphore_operations_total{}", labels("semaphore", load.set));
    assert_eq!(value(&operations), 2.0 * TURNS as f64);
    let queue = labels("queue", load.queue);
    assert_eq!(value(&format!("vshmem_queue_messages_total{queue}")), TURNS as f64);
    assert_eq!(value(&format!("vshmem_queue_message_bytes_mean{queue}")), BYTES as f64);
    assert_eq!(value(&format!("vshmem_queue_messages{queue}")), 0.0);
    assert_eq!(value("vshmem_domain_alive"), 1.0);
    // The same into a file, which is there whole or not at all.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vshmem.prom");
    let output = ["metrics", "--pool", &name.0, "--output", path.to_str().unwrap()];
    for _ in 0..2 {
        expect(0, &output);
        let value = checked(&fs::read_to_string(&path).unwrap());
        assert_eq!(value(&operations), 2.0 * TURNS as f64);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "a draft was left");
    // What is no file stays what it is: /dev/null would be a file afterwards.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    rig::refusal(
        &["metrics", "--pool", &name.0, "--output", link.to_str().unwrap()],
        &["is no regular file"],
    );
    assert!(link.is_symlink());
    load.session.leave().unwrap();
}

#[test]
fn metrics_are_served_over_http() {
    let name = Name::with_pool("metrics-http");
    let words = ["metrics", "--pool", &name.0, "--listen", "127.0.0.1:0"];
    let (_server, mut said) = Running::start(&words);
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("metrics at http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    let ask = |request: &str| {
        let mut connection = TcpStream::connect(address).unwrap();
        write!(connection, "{request} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    for _ in 0..2 {
        let answer = ask("GET /metrics");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("version=0.0.4"), "{head}");
        assert!(checked(body)("vshmem_pool_bytes") > 0.0);
    }
    assert!(ask("GET /other").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics").starts_with("HTTP/1.1 405 "));
    // One who says nothing is not waited for by others for long, and breaks nothing.
    drop(TcpStream::connect(address).unwrap());
    assert!(ask("GET /metrics").starts_with("HTTP/1.1 200 "));
    expect(0, &["pool", "rm", &name.0]);
    let gone = ask("GET /metrics");
    assert!(gone.starts_with("HTTP/1.1 503 ") && gone.contains("there is none of that name"));
}

/// The members of a pool write what its UUID and its name are, and may spoil it.
#[test]
fn a_pool_hides_no_other_one_from_metrics() {
    let [name, forged] = ["metrics-honest", "metrics-forged"].map(Name::new);
    expect(0, &["pool", "create", &name.0, "--size", "8M"]);
    rig::forge(&name, &forged);
    let words = ["metrics", "--pool", &forged.0, "--pool", &name.0];
    let metrics = || String::from_utf8(expect(0, &words).stdout).unwrap();
    let text = metrics();
    let value = checked(&text);
    for name in [&name.0, &forged.0] {
        assert_eq!(value(&format!("vshmem_pool_readable{{pool=\"{name}\"}}")), 1.0);
        assert!(value(&format!("vshmem_pool_bytes{{pool=\"{name}\"}}")) > 0.0);
    }
    fs::write(forged.path(), [0; 8192]).unwrap();
    let text = metrics();
    let value = checked(&text);
    assert_eq!(value(&format!("vshmem_pool_readable{{pool=\"{}\"}}", forged.0)), 0.0);
    assert!(value(&format!("vshmem_pool_bytes{{pool=\"{}\"}}", name.0)) > 0.0);
}

#[test]
fn who_may_not_open_a_pool_is_told_so() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: it takes root to be another user");
        return;
    }
    let name = Name::with_pool("top-closed");
    let installed = Installed::new();
    fs::set_permissions(installed.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for verb in ["top", "metrics"] {
        let mut command = installed.command();
        command.args([verb, "--pool", &name.0]).uid(NOBODY).gid(NOBODY);
        let output = command.output().unwrap();
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("vshmem: ") && said.lines().count() == 1, "{said}");
        assert!(said.contains(&name.0), "{said}");
    }
}

#[test]
fn options_that_make_no_sense_are_wrong_use() {
    for words in [
        &["top", "--interval", "0"][..],
        &["top", "--interval", "soon"],
        &["top", "--count", "0"],
        &["top", "--sort", "colour"],
        &["metrics", "--listen", "127.0.0.1:0", "--output", "x"],
    ] {
        expect(2, words);
    }
    let name = Name::with_pool("listen");
    rig::refusal(
        &["metrics", "--pool", &name.0, "--listen", "nowhere"],
        &["--listen nowhere", "vshmem metrics --listen 127.0.0.1:9809"],
    );
}
