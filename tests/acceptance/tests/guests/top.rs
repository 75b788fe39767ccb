//! `vshmem top` against a load that is known, and that two guests share.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Guests, build};

use crate::exchange::RUN;
use crate::shared;

/// Of each guest: two operations, and a message of so many bytes.
const TURNS: u64 = 3000;
const BYTES: u64 = 64;

/// What all reports of `top` come to: operations, messages, bytes.
#[derive(Debug, Default)]
struct Totals {
    sums: [f64; 3],
    reports: u32,
    seen: [bool; 2],
}

impl Totals {
    fn add(&mut self, report: &Value) {
        let seconds = report["seconds"].as_f64().unwrap();
        for (sum, what) in self.sums.iter_mut().zip(["operations", "messages", "bytes"]) {
            *sum += report["total"][what].as_f64().unwrap() * seconds;
        }
        self.reports += 1;
        let clients = report["clients"].as_array().unwrap();
        for (seen, guest) in self.seen.iter_mut().zip(["guest1", "guest2"]) {
            *seen |= clients.iter().any(|row| row["domain"] == guest);
        }
    }
}

/// The count of an object since it was made.
fn count(report: &Value, kind: &str, id: i64) -> u64 {
    let rows = report["objects"].as_array().unwrap();
    let row = rows.iter().find(|row| row["kind"] == kind && row["id"] == id);
    row.unwrap_or_else(|| panic!("no {kind} {id} in {report}"))["count"].as_u64().unwrap()
}

/// The load, in both guests at once.
fn load(guests: &Guests, set: i64, queue: i64) {
    let [set, queue, turns] = [set.to_string(), queue.to_string(), TURNS.to_string()];
    let paced = ["paced", &set, &queue, &turns, "1000"];
    let one = |guest| guests.run(guest, &[RUN, &paced].concat()).ok();
    thread::scope(|scope| {
        let first = scope.spawn(|| one(1));
        let rates = [one(2), first.join().unwrap()];
        say(&format!("guest 2: {}; guest 1: {}", rates[0].trim(), rates[1].trim()));
    });
}

/// What `top` reports from before the load until after it, and its last report.
fn watched(guests: &Guests, set: i64, queue: i64) -> (Totals, Value) {
    let mut top = Command::new(build::vshmem())
        .args(["top", "--pool", guests.pool().name(), "--json", "--interval", "0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(count(&next(), "semaphore", set), 0);
    let mut totals = Totals::default();
    let last = thread::scope(|scope| {
        let load = scope.spawn(|| load(guests, set, queue));
        while !load.is_finished() {
            totals.add(&next());
        }
        load.join().unwrap();
        // The end of the load may lie in this interval, or in one that was reported already.
        let [before, last] = [next(), next()];
        totals.add(&before);
        totals.add(&last);
        last
    });
    drop(lines);
    assert!(top.wait().unwrap().success());
    (totals, last)
}

pub fn two_guests() {
    let guests = shared();
    let mut keeper = Actor::on(guests.pool());
    let (set, queue) = (keeper.number("semget 0 1 0600"), keeper.number("msgget 0 0600"));
    let (totals, last) = watched(&guests, set, queue);
    for (sum, known) in totals.sums.iter().zip([4 * TURNS, 2 * TURNS, 2 * TURNS * BYTES]) {
        let known = known as f64;
        assert!((sum - known).abs() <= known * 0.02, "{sum} instead of {known}: {totals:?}");
    }
    assert_eq!(totals.seen, [true; 2], "whether programs of each guest were seen");
    // The host and every guest show the same.
    let words = ["vshmem", "top", "--json", "--count", "1", "--interval", "0.1"];
    let inside: Value = serde_json::from_str(&guests.run(2, &words).ok()).unwrap();
    for report in [last, inside] {
        assert_eq!(count(&report, "semaphore", set), 4 * TURNS);
        assert_eq!(count(&report, "queue", queue), 2 * TURNS);
    }
    let [operations, messages, bytes] = totals.sums;
    say(&format!(
        "{} reports: {operations:.1} operations of {}, {messages:.1} messages of {}, {bytes:.0} bytes of {}",
        totals.reports,
        4 * TURNS,
        2 * TURNS,
        2 * TURNS * BYTES
    ));
    assert_eq!(keeper.ask(&format!("semctl {set} 0 rmid")), "0");
    assert_eq!(keeper.ask(&format!("msgctl {queue} rmid")), "0");
}
