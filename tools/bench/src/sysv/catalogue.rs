//! Everything that `vshmem bench sysv` can compare, with the targets of the design.

use super::comparison::{
    Case, Comparison, Contender, Figure, Length, Pins, Place, Question, speed_up,
};
use super::programs::calls;
use super::target::{Target, faster};
use super::{posix, trips};

/// Objects that there are at most.
const MOST_OBJECTS: u64 = 10_000;
/// Clients that there are at most.
const MOST_CLIENTS: u64 = 1000;
/// Objects and clients that other programs may have while the kernel is measured.
const SPARE: u64 = 100;

/// How many objects the kernel lets there be, and so how many it is compared among.
#[derive(Debug, Clone, Copy)]
pub struct KernelLimits {
    /// SEMMNI.
    pub semaphore_sets: u64,
    /// MSGMNI.
    pub queues: u64,
    /// SHMMNI.
    pub segments: u64,
}

impl KernelLimits {
    /// Those of this machine; Linux's defaults if they cannot be read.
    #[must_use]
    pub fn here() -> Self {
        let word = |file: &str, nth: usize| -> Option<u64> {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).ok()?;
            text.split_whitespace().nth(nth)?.parse().ok()
        };
        Self {
            semaphore_sets: word("sem", 3).unwrap_or(32_000),
            queues: word("msgmni", 0).unwrap_or(32_000),
            segments: word("shmmni", 0).unwrap_or(4096),
        }
    }
}

/// All comparisons, in the order in which they are made.
#[must_use]
pub fn catalogue(limits: KernelLimits) -> Vec<Comparison> {
    let mut all = without_waiting();
    all.extend(trips::in_one_kernel());
    all.extend(trips::streams());
    all.extend(trips::late_answers());
    all.extend(segments());
    for (call, about, limit) in [
        ("semop", "semop +1, semop -1 by id", limits.semaphore_sets),
        ("semget", "semget by key", limits.semaphore_sets),
        ("msgget", "msgget by key", limits.queues),
        ("shmget", "shmget by key", limits.segments),
    ] {
        all.push(lookup(call, about, limit.saturating_sub(SPARE).min(MOST_OBJECTS)));
    }
    all.extend(contention());
    all.extend(requests());
    all.extend(posix::without_waiting());
    all.extend(posix::trips_in_one_kernel());
    all
}

fn without_waiting() -> Vec<Comparison> {
    let rows: [(&str, &str, &[&str], Option<Target>); 9] = [
        ("semop", "semop +1, semop -1", &["semop"], faster(15.0)),
        ("semop-undo", "semop +1, semop -1 with SEM_UNDO", &["semop-undo"], faster(12.0)),
        (
            "semop-program",
            "semop as programs call it: built before each call, one of two semaphores",
            &["semop-program"],
            faster(15.0),
        ),
        ("semop-program-undo", "the same with SEM_UNDO", &["semop-program-undo"], faster(12.0)),
        (
            "semop-array",
            "semop +1, semop -1 on three semaphores at once",
            &["semop-array"],
            faster(3.0),
        ),
        ("getval", "semctl GETVAL", &["getval"], None),
        ("msg-8", "msgsnd, msgrcv of 8 B", &["--size", "8", "message"], faster(10.0)),
        ("msg-1k", "msgsnd, msgrcv of 1 KiB", &["--size", "1024", "message"], faster(6.0)),
        ("msg-8k", "msgsnd, msgrcv of 8 KiB", &["--size", "8192", "message"], faster(3.0)),
    ];
    rows.into_iter()
        .map(|(name, about, words, target)| Comparison::of_both(name, about, &calls(words), target))
        .collect()
}

fn segments() -> Vec<Comparison> {
    let rows: [(&str, &str, &[&str], f64); 5] = [
        ("shm-4k", "shmget, shmat, shmdt, IPC_RMID of 4 KiB", &["--size", "4096", "segment"], 1.0),
        ("shm-4k-touched", "the same, written to", &["--size", "4096", "--touch", "segment"], 1.4),
        ("shm-attach", "shmat, shmdt of 4 KiB", &["--size", "4096", "segment-attach"], 1.2),
        ("shm-attach-1m", "shmat, shmdt of 1 MiB", &["--size", "1048576", "segment-attach"], 1.2),
        (
            "shm-attach-16m",
            "shmat, shmdt of 16 MiB",
            &["--size", "16777216", "segment-attach"],
            1.2,
        ),
    ];
    let mut all: Vec<Comparison> = rows
        .into_iter()
        .map(|(name, about, words, times)| {
            Comparison::of_both(name, about, &calls(words), faster(times))
        })
        .collect();
    let large = Case {
        length: Length::Sustained,
        pins: Pins::Free,
        ..calls(&["--size", "1048576", "--touch", "segment-sustained"])
    };
    let mut sustained = Comparison::of_both(
        "shm-1m-touched",
        "shmget, shmat, each page written to, shmdt, IPC_RMID of 1 MiB, on and on",
        &large,
        None,
    );
    let place = Place::PreparedPool;
    sustained.contenders.push(Contender { label: place.name().to_owned(), place, case: large });
    let (kernel, pool, prepared) = (0, 1, 2);
    let cpu = "CPU time of all processes";
    sustained.questions.extend([
        speed_up("kernel / prepared pool", Figure::Wall, kernel, prepared, faster(10.0)),
        speed_up(&format!("kernel / pool, {cpu}"), Figure::Cpu, kernel, pool, None),
        speed_up(&format!("kernel / prepared pool, {cpu}"), Figure::Cpu, kernel, prepared, None),
    ]);
    all.push(sustained);
    all
}

/// Indexes of the contenders of a lookup.
const ONE: usize = 0;

fn lookup(call: &str, about: &str, kernel_objects: u64) -> Comparison {
    let case = |objects: u64, clients: u64, random: bool| {
        let name = format!("lookup-{call}");
        let (objects, clients) = (objects.to_string(), clients.to_string());
        let mut words = vec!["--objects", &objects, "--clients", &clients];
        words.extend(random.then_some("--random"));
        words.push(&name);
        calls(&words)
    };
    let (mut contenders, mut questions) = (Vec::new(), Vec::new());
    let mut enter = |place: Place, objects, clients, random| {
        let (many, clients_are) = (plural(objects, "object"), plural(clients, "client"));
        let which = if random { "random among " } else { "" };
        let label = format!("{}, {which}{many}, {clients_are}", place.name());
        if let Some(known) = contenders.iter().position(|one: &Contender| one.label == label) {
            return known;
        }
        contenders.push(Contender { label, place, case: case(objects, clients, random) });
        contenders.len() - 1
    };
    for objects in [1, 100, MOST_OBJECTS] {
        for clients in [1, 100, MOST_CLIENTS] {
            let this = enter(Place::Pool, objects, clients, false);
            if this != ONE {
                let label = format!("{}, {}", plural(objects, "object"), plural(clients, "client"));
                questions.push(speed_up(
                    &label,
                    Figure::Wall,
                    ONE,
                    this,
                    Some(Target::at_most_times(1.2)),
                ));
            }
        }
    }
    let [random, hot] = [true, false].map(|random| enter(Place::Pool, kernel_objects, 1, random));
    let [kernel_random, kernel_hot] =
        [true, false].map(|random| enter(Place::Kernel, kernel_objects, 1, random));
    let kernel_one = enter(Place::Kernel, 1, 1, false);
    questions.push(Question::Quotient {
        label: format!("random / hot among {kernel_objects}: kernel / pool"),
        figure: Figure::Wall,
        over: vec![hot, kernel_random],
        under: vec![random, kernel_hot],
        target: Some(Target::AtLeast(1.0)),
    });
    for (label, over, under) in [
        (format!("kernel / pool, random among {kernel_objects}"), kernel_random, random),
        ("kernel / pool, 1 object".into(), kernel_one, ONE),
    ] {
        questions.push(speed_up(&label, Figure::Wall, over, under, None));
    }
    Comparison {
        name: format!("lookup-{call}"),
        about: format!("{about}: one among many, with many clients; at random"),
        contenders,
        questions,
    }
}

fn contention() -> Vec<Comparison> {
    let mut all = Vec::new();
    for (name, case_name, about) in [
        ("sem", "contend-semaphore", "processes share a semaphore around a critical section"),
        ("msg", "contend-queue", "processes, half of them send to the other half over one queue"),
    ] {
        for processes in [2_u64, 8, 64] {
            let number = processes.to_string();
            let case = Case {
                // Each is to have its turn at a CPU several times, or a share says nothing.
                length: Length::Time { spans: processes.div_ceil(16) },
                pins: Pins::Free,
                ..calls(&["--processes", &number, case_name])
            };
            let mut comparison = Comparison::of_both(
                &format!("contend-{name}-{processes}"),
                &format!("{processes} {about}"),
                &case,
                faster(1.0),
            );
            let (kernel, pool) = (0, 1);
            comparison.questions.extend([
                Question::SmallestShare { of: kernel, target: None },
                Question::SmallestShare { of: pool, target: Some(Target::Above(0.0)) },
            ]);
            all.push(comparison);
        }
    }
    all
}

/// A server and its clients over one queue, with types as addresses.
fn requests() -> Vec<Comparison> {
    let rows = [
        ("requests-1", 1_u64, Pins::Apart, "each on a CPU of its own", faster(10.0)),
        ("requests-16", 16, Pins::Free, "on two CPUs or more", faster(1.2)),
    ];
    rows.into_iter()
        .map(|(name, clients, pins, how, target)| {
            let number = (clients + 1).to_string();
            let case = Case {
                length: Length::Time { spans: 1 },
                pins,
                ..calls(&["--processes", &number, "requests"])
            };
            let about = format!(
                "request and answer over one queue, distinguished by type: {} and a server, {how}",
                plural(clients, "client")
            );
            let mut comparison = Comparison::of_both(name, &about, &case, target);
            if clients > 1 {
                let (kernel, pool) = (0, 1);
                comparison.questions.extend([
                    Question::SmallestShare { of: kernel, target: None },
                    Question::SmallestShare { of: pool, target: Some(Target::Above(0.0)) },
                ]);
            }
            comparison
        })
        .collect()
}

fn plural(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Comparison> {
        let limits = KernelLimits { semaphore_sets: 32_000, queues: 32_000, segments: 4096 };
        [catalogue(limits), trips::between_guests()].concat()
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = all().into_iter().map(|comparison| comparison.name).collect();
        let number = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), number);
    }

    #[test]
    fn contenders_of_one_comparison_have_different_labels() {
        for comparison in all() {
            let mut labels: Vec<&str> =
                comparison.contenders.iter().map(|one| one.label.as_str()).collect();
            labels.sort_unstable();
            labels.dedup();
            assert_eq!(labels.len(), comparison.contenders.len(), "{}", comparison.name);
        }
    }

    #[test]
    fn questions_are_about_contenders_that_exist() {
        for comparison in all() {
            for question in &comparison.questions {
                let asked: Vec<usize> = match question {
                    Question::Quotient { over, under, .. } => [&over[..], &under[..]].concat(),
                    Question::SmallestShare { of, .. } => vec![*of],
                };
                assert!(asked.iter().all(|&nth| nth < comparison.contenders.len()));
            }
        }
    }

    /// Those of docs/guide/measuring.md, which a comparison must not lose.
    #[test]
    fn calls_streams_and_requests_have_their_targets() {
        let all = all();
        let raw = "a round trip of raw / a message >= 1/1.5";
        for (name, targets) in [
            ("semop", "kernel / pool >= 15"),
            ("semop-undo", "kernel / pool >= 12"),
            ("semop-program", "kernel / pool >= 15"),
            ("semop-program-undo", "kernel / pool >= 12"),
            ("semop-array", "kernel / pool >= 3"),
            ("msg-8", "kernel / pool >= 10"),
            ("msg-1k", "kernel / pool >= 6"),
            ("msg-8k", "kernel / pool >= 3"),
            ("shm-attach", "kernel / pool >= 1.2"),
            ("stream-8", &format!("kernel / pool >= 10; {raw}")),
            ("stream-1k", "kernel / pool >= 4"),
            ("requests-1", "kernel / pool >= 10"),
            ("requests-16", "kernel / pool >= 1.2; smallest share > 0"),
        ] {
            let one = all.iter().find(|one| one.name == name).unwrap();
            assert_eq!(one.targets(), targets, "{name}");
        }
    }

    #[test]
    fn a_lookup_is_measured_for_every_number_of_objects_and_clients() {
        let all = all();
        let lookup = all.iter().find(|one| one.name == "lookup-shmget").unwrap();
        let pool = lookup.contenders.iter().filter(|one| one.place == Place::Pool).count();
        assert_eq!(pool, 9 + 2);
        // The kernel has no room for 10,000 segments by default.
        let labels: Vec<&str> = lookup.contenders.iter().map(|one| one.label.as_str()).collect();
        assert!(labels.contains(&"pool, 10000 objects, 1000 clients"), "{labels:?}");
        assert!(labels.contains(&"kernel, random among 3996 objects, 1 client"), "{labels:?}");
        assert_eq!(
            lookup.targets(),
            "one / many >= 1/1.2; random / hot among 3996: kernel / pool >= 1"
        );
    }
}
