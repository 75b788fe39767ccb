//! Round trips over a semaphore or a queue: in one kernel, between two guests, and with an answer
//! that is late.

use super::comparison::{Case, Comparison, Figure, Length, Pins, Place, Question, speed_up};
use super::posix;
use super::programs::{contender, trip};
use super::target::{Target, faster};
use crate::pingpong::NET_KERNEL;

/// A way to make a round trip, and how many round trips of a flag in shared memory it may take.
struct Way {
    transport: &'static str,
    about: &'static str,
    size: u64,
    most_raw: f64,
    /// How many times as fast as TCP between guests it has to be.
    over_tcp: f64,
}

const WAYS: [Way; 2] = [
    Way { transport: "sem", about: "two semaphores", size: 0, most_raw: 4.0, over_tcp: 50.0 },
    Way {
        transport: "msg",
        about: "a queue, 8 B each way",
        size: 8,
        most_raw: 6.0,
        over_tcp: 40.0,
    },
];

/// Between two processes of one kernel.
pub(super) fn in_one_kernel() -> Vec<Comparison> {
    let mut all = Vec::new();
    for way in &WAYS {
        for (suffix, how, pins, no_spin, target) in [
            ("", "two CPUs", Pins::Apart, false, faster(10.0)),
            ("-asleep", "two CPUs, each waiter sleeps", Pins::Apart, true, faster(1.0)),
            ("-one-cpu", "both processes on one CPU", Pins::Together, false, faster(1.0)),
        ] {
            let case = Case { no_spin, ..trip(way.transport, way.size, pins) };
            let name = format!("{}-trip{suffix}", way.transport);
            let about = format!("round trip over {}, {how}", way.about);
            let mut comparison = Comparison::of_both(&name, &about, &case, target);
            if suffix.is_empty() {
                comparison.contenders.push(contender("raw", Place::Kernel, trip("raw", 0, pins)));
                let (pool, raw) = (1, 2);
                let most = Some(Target::at_most_times(way.most_raw));
                comparison.questions.push(speed_up("raw / pool", Figure::Wall, raw, pool, most));
            }
            all.push(comparison);
        }
    }
    all
}

/// Messages one way, from one process to another.
pub(super) fn streams() -> Vec<Comparison> {
    let apart = Pins::Apart;
    let rows = [
        ("stream-8", 8, apart, "two CPUs", faster(10.0)),
        ("stream-1k", 1024, apart, "two CPUs", faster(4.0)),
        ("stream-8-one-cpu", 8, Pins::Together, "both processes on one CPU", faster(1.0)),
    ];
    let one = |(name, size, pins, how, target): (&str, u64, Pins, &str, Option<Target>)| {
        let case = trip("stream", size, pins);
        let about = format!("messages of {size} B one way, {how}");
        let mut comparison = Comparison::of_both(name, &about, &case, target);
        if pins == apart {
            comparison.contenders.push(contender("raw", Place::Kernel, trip("raw", 0, pins)));
            let (pool, raw) = (1, 2);
            comparison.questions.push(speed_up(
                "a round trip of raw / a message",
                Figure::Wall,
                raw,
                pool,
                (size == 8).then(|| Target::at_most_times(1.5)),
            ));
        }
        comparison
    };
    rows.into_iter().map(one).collect()
}

/// CPU time of a waiter that is answered after a while, beside one that sleeps at once.
pub(super) fn late_answers() -> Vec<Comparison> {
    let rows = [("10us", 10_000, 10_000_u64), ("1ms", 1_000_000, 400), ("100ms", 100_000_000, 10)];
    let one = |(name, delay, rounds): (&str, u64, u64)| {
        let mut case = trip("sem", 0, Pins::Apart);
        case.words.extend(["--delay".into(), delay.to_string()]);
        case.length = Length::Fixed { rounds };
        let asleep = Case { no_spin: true, ..case.clone() };
        Comparison {
            name: format!("sem-answer-{name}"),
            about: format!("round trip over two semaphores, answered after {name}"),
            contenders: vec![
                contender("kernel", Place::Kernel, case.clone()),
                contender("pool", Place::Pool, case),
                contender("pool, sleeps at once", Place::Pool, asleep),
            ],
            questions: vec![
                speed_up(
                    "CPU time of the waiter: sleeps at once / pool",
                    Figure::Cpu,
                    2,
                    1,
                    Some(Target::at_most_times(2.0)),
                ),
                speed_up("kernel / pool", Figure::Wall, 0, 1, None),
            ],
        }
    };
    rows.into_iter().map(one).collect()
}

/// What `vshmem bench sysv --guests` compares: one side in each of two guests, beside memory and
/// TCP between the same guests, and beside one kernel.
#[must_use]
pub fn between_guests() -> Vec<Comparison> {
    WAYS.iter().map(of_guests).chain(posix::trips_of_guests()).collect()
}

fn of_guests(way: &Way) -> Comparison {
    let name = way.transport;
    let case = trip(name, way.size, Pins::Apart);
    let raw = trip("raw", 0, Pins::Apart);
    let tcp = Case { program: NET_KERNEL, ..trip("tcp", 8, Pins::Free) };
    let contenders = vec![
        contender("raw, two guests", Place::Guests, raw.clone()),
        contender(&format!("{name}, two guests"), Place::Guests, case.clone()),
        contender("tcp 8 B, two guests", Place::Network, tcp),
        contender("raw, one kernel", Place::Kernel, raw),
        contender(&format!("{name}, one kernel's own"), Place::Kernel, case.clone()),
        contender(&format!("{name}, a pool in one kernel"), Place::Pool, case),
    ];
    let [raw, guests, tcp, raw_here, kernel, pool] = [0, 1, 2, 3, 4, 5];
    let most = Some(Target::at_most_times(way.most_raw));
    let ratio = |label: &str, over, under, target| -> Question {
        speed_up(label, Figure::Wall, over, under, target)
    };
    Comparison {
        name: format!("{name}-trip-guests"),
        about: format!("round trip over {}, one side in each of two guests", way.about),
        contenders,
        questions: vec![
            ratio("raw / guests", raw, guests, most),
            ratio("tcp / guests", tcp, guests, faster(way.over_tcp)),
            ratio("one kernel's own / guests", kernel, guests, None),
            ratio("raw / a pool in one kernel", raw_here, pool, most),
            ratio("one kernel's own / a pool in it", kernel, pool, None),
        ],
    }
}
