//! Round trips between two guests: over a pool, over libxenvchan, Xen's own way to share memory,
//! and over its network.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use vshmem_acceptance::suite::{say, skip};

use crate::rig::{Beside, DOM0, RIVAL, Xen};
use crate::shared;

const POOL: &str = "beside";
/// How often each has its turn. They alternate, because figures wander with whatever else the
/// machine does.
const TURNS: usize = 3;
const ROUNDS: u32 = 100;
const FIRST_PORT: usize = 7001;

/// What carries the bytes.
enum Way {
    Pool,
    /// libxenvchan.
    Channel,
    /// Xen's network: dom0 copies what passes.
    Network,
}

pub struct Contender {
    pub what: &'static str,
    /// With the words for the one who asks and the one who answers to follow.
    command: &'static str,
    way: Way,
}

/// No side looks without end: the guests may share one emulated processor.
pub const CONTENDERS: [Contender; 7] = [
    Contender {
        what: "libxenvchan, asleep",
        command: "pingpong_vchan --transport vchan-asleep",
        way: Way::Channel,
    },
    Contender {
        what: "queue of a pool, asleep",
        command: "VSHMEM_SPIN=0 pingpong_sysv --transport msg",
        way: Way::Pool,
    },
    Contender {
        what: "semaphores of a pool, asleep",
        command: "VSHMEM_SPIN=0 pingpong_sysv --transport sem",
        way: Way::Pool,
    },
    Contender {
        what: "libxenvchan, looking",
        command: "pingpong_vchan --transport vchan-looking",
        way: Way::Channel,
    },
    Contender {
        what: "queue of a pool, looking",
        command: "pingpong_sysv --transport msg",
        way: Way::Pool,
    },
    Contender {
        what: "memory of a pool, looking",
        command: "pingpong_sysv --looks 5000 --transport shm",
        way: Way::Pool,
    },
    Contender {
        what: "TCP over Xen's network",
        command: "pingpong_net --transport tcp",
        way: Way::Network,
    },
];

impl Contender {
    pub fn is_on_a_pool(&self) -> bool {
        matches!(self.way, Way::Pool)
    }

    /// What a guest runs: the first asks, the second answers.
    fn line(&self, guests: &Guests, rounds: u32, nth: usize, port: usize) -> String {
        let batches = rounds.min(20);
        let rounds = format!("--size 64 --rounds {rounds} --warmup 10 --batches {batches}");
        let command = format!("{} {rounds} --timeout 200", self.command);
        let host = match self.way {
            Way::Pool => return on_pool(&command, ["ping", "pong"][nth]),
            Way::Channel => &guests.domains[1 - nth],
            // Where the second listens.
            Way::Network => guests.addresses[1],
        };
        format!("{command} --host {host} --port {port} {}", ["client", "server"][nth])
    }

    /// One turn: nanoseconds a round, median of batches.
    pub fn measure(&self, guests: &Guests, rounds: u32) -> f64 {
        let port = FIRST_PORT + guests.turns.fetch_add(1, Relaxed);
        let answers = guests.xen.start(2, &self.line(guests, rounds, 1, port));
        let said = guests.xen.shell(1, &self.line(guests, rounds, 0, port)).ok();
        answers.end().ok();
        let said: serde_json::Value = serde_json::from_str(said.trim()).expect("a line of JSON");
        said["median_ns"].as_f64().expect("a median")
    }
}

/// `NAME=VALUE PROGRAM OPTIONS` on the pool.
fn on_pool(command: &str, role: &str) -> String {
    let (setting, program) = match command.split_once(' ') {
        Some((setting, program)) if setting.contains('=') => (setting, program),
        _ => ("VSHMEM_LOG=", command),
    };
    format!("export VSHMEM_POOL={POOL}; export {setting}; exec vshmem run {program} {role}")
}

/// Two guests with a pool of their own, and an agent in each.
pub struct Guests {
    pub xen: Arc<Xen>,
    /// Their numbers, as libxenvchan names them.
    pub domains: [String; 2],
    addresses: [&'static str; 2],
    /// So many turns were had: each has a port of its own.
    turns: AtomicUsize,
    agents: Vec<Beside>,
}

impl Guests {
    pub fn meet(xen: Arc<Xen>) -> Self {
        xen.shell(DOM0, &format!("vshmem pool create {POOL} --xen --size 4M")).ok();
        let domains = [1, 2]
            .map(|guest| xen.shell(DOM0, &format!("xl domid guest{guest}")).ok().trim().to_owned());
        // Agents stay for as long as a process uses the pool: notifications are forwarded from the
        // first round.
        let stay = format!("vshmem run --pool {POOL} tail -f /dev/null");
        let agents = [1, 2].map(|guest| xen.start(guest, &stay)).into();
        let addresses = ["10.77.0.1", "10.77.0.2"];
        Self { xen, domains, addresses, turns: AtomicUsize::new(0), agents }
    }

    pub fn part(self) {
        for guest in [1, 2] {
            self.xen.shell(guest, "kill $(pidof tail)").ok();
        }
        for agent in self.agents {
            agent.end();
        }
        self.xen.shell(DOM0, &format!("vshmem pool rm --force {POOL}")).ok();
    }
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
    let guests = Guests::meet(shared());
    let mut medians = vec![Vec::new(); CONTENDERS.len()];
    for _ in 0..TURNS {
        for (contender, medians) in CONTENDERS.iter().zip(&mut medians) {
            medians.push(contender.measure(&guests, ROUNDS));
        }
    }
    say(&format!(
        "round trips of 64 bytes between two guests, {}, median of {TURNS} turns (smallest .. largest):",
        guests.xen.lab().made_of()
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
    guests.part();
}
