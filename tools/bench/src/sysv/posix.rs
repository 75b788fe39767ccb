//! POSIX queues, semaphores and process-shared locks.

use super::comparison::{Case, Comparison, Contender, Figure, Pins, Place, Question, speed_up};
use super::programs::{calls, contender, trip};
use super::target::{Target, faster};

/// Calls that never wait.
pub(super) fn without_waiting() -> Vec<Comparison> {
    let (kernel, pool) = (0, 1);
    let faster_than_the_kernel = [
        ("mq-64", "mq_send, mq_receive of 64 B", "posix-message", faster(8.0)),
        ("mq-64-priority", "the same with priority 5", "posix-message-urgent", None),
    ];
    let queues = faster_than_the_kernel.into_iter().map(|(name, about, case, target)| {
        Comparison::of_both(name, about, &posix(calls(&["--size", "64", case])), target)
    });
    let beside_the_c_library = [
        ("posix-sem", "sem_post, sem_wait", "posix-sem", Some(1.5)),
        ("mutex", "lock, unlock of a process-shared mutex", "mutex", Some(1.3)),
        ("mutex-robust", "the same, robust", "mutex-robust", None),
        ("mutex-private", "the same of threads of one process", "mutex-private", Some(1.1)),
        ("rwlock", "rdlock, unlock of a process-shared rwlock", "rwlock", None),
    ];
    let locks = beside_the_c_library.into_iter().map(|(name, about, case, most)| {
        let mut comparison = Comparison::of_both(name, about, &posix(calls(&[case])), None);
        let most = most.map(Target::at_most_times);
        comparison.questions = vec![speed_up("glibc / pool", Figure::Wall, kernel, pool, most)];
        comparison
    });
    queues.chain(locks).collect()
}

/// A way to make a round trip, and the one of System V that it is measured by.
struct Way {
    transport: &'static str,
    about: &'static str,
    size: u64,
    beside: &'static str,
    /// How many round trips of that it may take.
    most: f64,
}

const WAYS: [Way; 3] = [
    Way {
        transport: "posix-sem",
        about: "two POSIX semaphores",
        size: 0,
        beside: "sem",
        most: 1.2,
    },
    Way {
        transport: "mq",
        about: "two POSIX queues, 8 B each way",
        size: 8,
        beside: "msg",
        most: 1.2,
    },
    Way {
        transport: "cond",
        about: "a mutex and condition variables",
        size: 0,
        beside: "sem",
        most: 2.0,
    },
];

fn posix(case: Case) -> Case {
    Case { posix: true, ..case }
}

/// Round trips between two processes of one kernel.
pub(super) fn trips_in_one_kernel() -> Vec<Comparison> {
    let one = |way: &Way| {
        let case = posix(trip(way.transport, way.size, Pins::Apart));
        let name = format!("{}-trip", way.transport);
        let about = format!("round trip over {}, two CPUs", way.about);
        let mut comparison = Comparison::of_both(&name, &about, &case, None);
        let label = format!("{} on the pool", way.beside);
        comparison.contenders.push(contender(&label, Place::Pool, sysv(way)));
        comparison.questions.push(by_sysv(way, 1, 2));
        comparison
    };
    WAYS.iter().map(one).collect()
}

/// The same with one side in each of two guests.
pub(super) fn trips_of_guests() -> impl Iterator<Item = Comparison> {
    WAYS.iter().map(|way| {
        let case = posix(trip(way.transport, way.size, Pins::Apart));
        let name = way.transport;
        let contenders: Vec<Contender> = vec![
            contender(&format!("{name}, two guests"), Place::Guests, case.clone()),
            contender(&format!("{}, two guests", way.beside), Place::Guests, sysv(way)),
            contender("raw, two guests", Place::Guests, trip("raw", 0, Pins::Apart)),
            contender(&format!("{name}, one kernel's own"), Place::Kernel, case),
        ];
        let [guests, sysv, raw, kernel] = [0, 1, 2, 3];
        Comparison {
            name: format!("{name}-trip-guests"),
            about: format!("round trip over {}, one side in each of two guests", way.about),
            contenders,
            questions: vec![
                by_sysv(way, guests, sysv),
                speed_up("raw / guests", Figure::Wall, raw, guests, None),
                speed_up("one kernel's own / guests", Figure::Wall, kernel, guests, None),
            ],
        }
    })
}

fn sysv(way: &Way) -> Case {
    trip(way.beside, way.size, Pins::Apart)
}

fn by_sysv(way: &Way, posix: usize, sysv: usize) -> Question {
    let most = Some(Target::at_most_times(way.most));
    speed_up(&format!("{} / {}", way.beside, way.transport), Figure::Wall, sysv, posix, most)
}
