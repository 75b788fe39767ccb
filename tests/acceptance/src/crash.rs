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
const FOR_EVER: Duration = Duration::from_secs(60);
/// How long a waiter is given to wake from a change that never happened: it must not.
const NOT_YET: Duration = Duration::from_millis(300);

/// How often a waker may have found the waiter on its way to the wait queue. It then takes another
/// path, by which its message or token arrives as well, and does not come to the step.
const MOST_EARLY_WAKERS: u32 = 20;

/// A waiter and those that may wake it. Only `waker` dies.
struct Actors {
    waiter: Actor,
    next: Actor,
}

/// What a case asks of its actors.
struct Orders {
    sleep: String,
    wake: String,
    left: String,
    remove: String,
    woken: &'static str,
}

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
    let mut actors = Actors { waiter: sound(), next: sound() };
    // A message for a receiver that sleeps beside a ring is handed to it.
    for (call, change) in [("semop", "semop"), ("msgsnd", "msg-hand-over")] {
        for (step, happened) in STEPS {
            let order = format!("{change}/{step}");
            let line = (0..MOST_EARLY_WAKERS)
                .find_map(|_| actors.wake_and_die(pool, call, &order, happened, dying(&order)));
            report.push(line.unwrap_or_else(|| panic!("{order}: no waker came to the step")));
        }
    }
    actors.waiter.end();
    actors.next.end();
    pool.assert_clean();
    report
}

impl Actors {
    /// One case, and a line about it: `None` if the waker did not come to the step.
    fn wake_and_die(
        &mut self,
        pool: &Pool,
        call: &str,
        order: &str,
        happened: bool,
        mut waker: Actor,
    ) -> Option<String> {
        waker.pid();
        let (id, orders) = self.object_of(call);
        self.waiter.tell(&orders.sleep);
        // A reader of the pool sees the waiter before the change that enqueues it has ended.
        until("the waiter sleeps", || pool.waiters(id) == 1);
        let start = Instant::now();
        waker.tell(&orders.wake);
        // A waker that is slow to come to its step must not be overtaken by the next one.
        let is_early = waker.lives_and_answers();
        let line = if happened || is_early {
            let Some((answer, when)) = self.waiter.hear_within(FOR_EVER) else {
                panic!("{order}: the waiter sleeps for ever");
            };
            assert_eq!(answer, orders.woken, "{order}");
            let took = when.duration_since(start).as_secs_f64();
            format!("waker killed at {order}: the waiter woke after {took:.3} s")
        } else {
            let heard = self.waiter.hear_within(NOT_YET);
            assert_eq!(heard, None, "{order}: a change that had not happened woke the waiter");
            assert_eq!(self.next.ask(&orders.wake), "0", "{order}");
            assert_eq!(self.waiter.hear(), orders.woken, "{order}");
            format!("waker killed at {order}: nothing had happened; the next waker wakes")
        };
        let left = self.next.ask(&orders.left);
        assert!(left == "0" || left.starts_with("qnum 0 "), "{order}: {left}");
        let code = waker.end();
        let expected: &[i32] = if is_early { &[0] } else { &[-1, 128 + 9] };
        assert!(expected.contains(&code), "{order}: the waker ended with {code}");
        assert_eq!(self.next.ask(&orders.remove), "0");
        (!is_early).then_some(line)
    }

    /// A new object, and the orders that use it.
    fn object_of(&mut self, call: &str) -> (i64, Orders) {
        if call == "semop" {
            let id = self.waiter.number("semget 0 1 01600");
            let orders = Orders {
                sleep: format!("semop {id} 0,-1"),
                wake: format!("semop {id} 0,1"),
                left: format!("semctl {id} 0 getval"),
                remove: format!("semctl {id} 0 rmid"),
                woken: "0",
            };
            return (id, orders);
        }
        let id = self.waiter.number("msgget 0 01600");
        let orders = Orders {
            sleep: format!("msgrcv {id} 0 0"),
            wake: format!("msgsnd {id} 3 text"),
            left: format!("msgctl {id} stat"),
            remove: format!("msgctl {id} rmid"),
            woken: "3 text",
        };
        (id, orders)
    }
}
