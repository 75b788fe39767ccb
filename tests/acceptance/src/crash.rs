//! Wakers that die at a named step of their change, while a waiter sleeps for it.

use std::time::{Duration, Instant};

use crate::{Actor, Pool, until};

/// The steps of a change under a lock, in order, and whether the change has happened by then.
const STEPS: [(&str, bool); 6] = [
    ("acquired", false),
    ("written", false),
    ("committed", true),
    ("half-applied", true),
    ("applied", true),
    ("released", true),
];
/// What counts as asleep for ever.
const FOR_EVER: Duration = Duration::from_secs(20);
/// How long a waiter is given to wake from a change that never happened: it must not.
const NOT_YET: Duration = Duration::from_millis(300);

/// For each call and step: a waiter sleeps, a waker dies at the step, and either its change has
/// happened and the waiter wakes, or it has not and the next waker wakes it. One line a case.
///
/// # Panics
/// When a waiter sleeps for ever, or a change is lost or doubled.
pub fn wakers(
    pool: &Pool,
    dying: impl Fn(&str) -> Actor,
    sound: impl Fn() -> Actor,
) -> Vec<String> {
    let mut report = Vec::new();
    let mut waiter = sound();
    let mut next = sound();
    // A message for a receiver that sleeps beside a ring is handed to it.
    for (call, change) in [("semop", "semop"), ("msgsnd", "msg-hand-over")] {
        for (step, happened) in STEPS {
            let order = format!("{change}/{step}");
            let mut waker = dying(&order);
            waker.pid();
            let (id, sleep, wake, left) = match call {
                "semop" => {
                    let set = waiter.number("semget 0 1 01600");
                    let left = format!("semctl {set} 0 getval");
                    (set, format!("semop {set} 0,-1"), format!("semop {set} 0,1"), left)
                }
                _ => {
                    let queue = waiter.number("msgget 0 01600");
                    let left = format!("msgctl {queue} stat");
                    (queue, format!("msgrcv {queue} 0 0"), format!("msgsnd {queue} 3 text"), left)
                }
            };
            waiter.tell(&sleep);
            until("the waiter sleeps", || pool.waiters(id) == 1);
            let start = Instant::now();
            waker.tell(&wake);
            if !happened {
                // A waker that is slow to come to its step must not be overtaken by the next one.
                waker.hear_its_end();
            }
            let timeout = if happened { FOR_EVER } else { NOT_YET };
            let heard = waiter.hear_within(timeout);
            let answer = match (heard, happened) {
                (Some((answer, when)), true) => {
                    let took = when.duration_since(start).as_secs_f64();
                    report.push(format!(
                        "waker killed at {order}: the waiter woke after {took:.3} s"
                    ));
                    answer
                }
                (None, false) => {
                    report.push(format!(
                        "waker killed at {order}: nothing had happened; the next waker wakes"
                    ));
                    assert_eq!(next.ask(&wake), "0", "{order}");
                    waiter.hear()
                }
                (Some(_), false) => {
                    panic!("{order}: a change that had not happened woke the waiter")
                }
                (None, true) => panic!("{order}: the waiter sleeps for ever"),
            };
            assert_eq!(answer, if call == "semop" { "0" } else { "3 text" }, "{order}");
            let left = next.ask(&left);
            assert!(left == "0" || left.starts_with("qnum 0 "), "{order}: {left}");
            let code = waker.end();
            assert!(
                [-1, 128 + 9].contains(&code),
                "{order}: the waker ended with {code}, so it did not die there"
            );
            let remove = if call == "semop" {
                format!("semctl {id} 0 rmid")
            } else {
                format!("msgctl {id} rmid")
            };
            assert_eq!(next.ask(&remove), "0");
        }
    }
    waiter.end();
    next.end();
    pool.assert_clean();
    report
}
