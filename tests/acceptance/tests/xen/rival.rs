//! Round trips between two guests: over a pool, and over libxenvchan, Xen's own way to share
//! memory.

use vshmem_acceptance::suite::{say, skip};

use crate::rig::{DOM0, RIVAL, Xen};
use crate::shared;

const POOL: &str = "beside";
/// How often each has its turn. They alternate, because figures wander with whatever else the
/// machine does.
const TURNS: usize = 3;
const ROUNDS: &str = "--size 64 --rounds 100 --warmup 10 --batches 20 --timeout 200";

struct Contender {
    what: &'static str,
    /// With the words for the one who asks and the one who answers to follow.
    command: &'static str,
    /// Whether it is on a pool.
    pool: bool,
}

/// No side looks without end: the guests may share one emulated processor.
const CONTENDERS: [Contender; 6] = [
    Contender {
        what: "libxenvchan, asleep",
        command: "pingpong_vchan --transport vchan-asleep",
        pool: false,
    },
    Contender {
        what: "queue of a pool, asleep",
        command: "VSHMEM_SPIN=0 pingpong_sysv --transport msg",
        pool: true,
    },
    Contender {
        what: "semaphores of a pool, asleep",
        command: "VSHMEM_SPIN=0 pingpong_sysv --transport sem",
        pool: true,
    },
    Contender {
        what: "libxenvchan, looking",
        command: "pingpong_vchan --transport vchan-looking",
        pool: false,
    },
    Contender {
        what: "queue of a pool, looking",
        command: "pingpong_sysv --transport msg",
        pool: true,
    },
    Contender {
        what: "memory of a pool, looking",
        command: "pingpong_sysv --looks 5000 --transport shm",
        pool: true,
    },
];

impl Contender {
    /// One turn: nanoseconds a round, median of batches.
    fn measure(&self, xen: &Xen, domains: [u32; 2], channel: usize) -> f64 {
        let line = |other: u32, role: &str| {
            let Self { command, .. } = self;
            if self.pool {
                return format!("export VSHMEM_POOL={POOL}; export {}", spun(command, role));
            }
            format!("{command} {ROUNDS} --host {other} --port {channel} {role}")
        };
        let roles = if self.pool { ["ping", "pong"] } else { ["client", "server"] };
        let answers = xen.start(2, &line(domains[0], roles[1]));
        let said = xen.shell(1, &line(domains[1], roles[0])).ok();
        answers.end().ok();
        let said: serde_json::Value = serde_json::from_str(said.trim()).expect("a line of JSON");
        said["median_ns"].as_f64().expect("a median")
    }
}

/// `NAME=VALUE PROGRAM OPTIONS` under `vshmem run`.
fn spun(command: &str, role: &str) -> String {
    let (setting, program) = match command.split_once(' ') {
        Some((setting, program)) if setting.contains('=') => (setting, program),
        _ => ("VSHMEM_LOG=", command),
    };
    format!("{setting}; exec vshmem run {program} {ROUNDS} {role}")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn beside() {
    if RIVAL.is_none() {
        skip("round trips over libxenvchan", "its library is not unpacked (scripts/guest-xen)");
        return;
    }
    let xen = shared();
    xen.shell(DOM0, &format!("vshmem pool create {POOL} --xen --size 4M")).ok();
    let domains = [1, 2].map(|guest| {
        let id = xen.shell(DOM0, &format!("xl domid guest{guest}")).ok();
        id.trim().parse().expect("the number of a domain")
    });
    // Agents stay for as long as a process uses the pool: notifications are forwarded from the
    // first round.
    let agents = [1, 2]
        .map(|guest| xen.start(guest, &format!("vshmem run --pool {POOL} tail -f /dev/null")));
    let mut medians = vec![Vec::new(); CONTENDERS.len()];
    for turn in 0..TURNS {
        for (nth, contender) in CONTENDERS.iter().enumerate() {
            medians[nth].push(contender.measure(&xen, domains, turn * CONTENDERS.len() + nth + 1));
        }
    }
    for guest in [1, 2] {
        xen.shell(guest, "kill $(pidof tail)").ok();
    }
    for agent in agents {
        agent.end();
    }
    say(&format!(
        "round trips of 64 bytes between two guests, {}, median of {TURNS} turns (smallest .. largest):",
        xen.lab().made_of()
    ));
    for (contender, medians) in CONTENDERS.iter().zip(medians) {
        let ms = |ns: f64| ns / 1e6;
        let (least, most) = medians
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), &one| (least.min(one), most.max(one)));
        say(&format!(
            "{:<30} {:>8.2} ms ({:.2} .. {:.2})",
            contender.what,
            ms(median(medians)),
            ms(least),
            ms(most)
        ));
    }
    say("emulated: this shows that all of them work, not how fast they are");
    xen.shell(DOM0, &format!("vshmem pool rm --force {POOL}")).ok();
}
