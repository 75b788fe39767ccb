//! Round trips between two domains: shared memory in one kernel, the same across domains, TCP, UDP.

mod contender;
mod results;

use crate::Watch;
use crate::error::{Error, Result};
use crate::kernel::{Kernels, Reading};
use crate::machine::Machine;
use crate::pace::{pace, warmup};
use crate::site::{Job, Ports, Side, Site, play, run_bare};
use crate::turns::{Order, take_turns_or_enough};

pub use contender::Contender;
pub use results::{Results, SizeResults};

/// The program that measures System V shared memory.
pub const SYSV_KERNEL: &str = "pingpong_sysv";
/// The program that measures the network.
pub const NET_KERNEL: &str = "pingpong_net";

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Payloads, in bytes.
    pub sizes: Vec<u64>,
    /// Pairs per size.
    pub pairs: usize,
    /// Rounds that count of each run; as many as fill the batches if none.
    pub rounds: Option<u64>,
    /// Batches of a run; its figure is their median.
    pub batches: u64,
    /// How long a batch should last, in nanoseconds. Long beside a reading of the clock (40 us in
    /// a guest, once a batch); short beside a time slice, so that what else runs on the
    /// machine spoils some batches and not the median.
    pub batch_ns: f64,
}

/// Seconds after which a program gives up.
const TIMEOUT: u32 = 60;
/// Pairs that are enough to report, should a later one fail.
const ENOUGH_PAIRS: usize = 3;

/// Measures.
///
/// # Errors
/// The first run that fails ends it; so does [`Watch::stopped`].
pub fn measure(
    site: &dyn Site,
    kernels: &Kernels,
    plan: &Plan,
    watch: &dyn Watch,
) -> Result<Results> {
    let meeting_place =
        tempfile::NamedTempFile::new().map_err(Error::io("make a file for ftok"))?;
    let bench = Bench {
        site,
        sysv: kernels.find(SYSV_KERNEL)?,
        net: kernels.find(NET_KERNEL)?,
        meeting_place: meeting_place.path().display().to_string(),
        timeout: TIMEOUT.to_string(),
        ports: Ports::default(),
    };
    let machine = Machine::here();
    let mut sizes = Vec::new();
    for &size in &plan.sizes {
        let contenders: Vec<Contender> =
            Contender::ALL.into_iter().filter(|contender| contender.carries(size)).collect();
        let mut paced = bench.pace_all(&contenders, size, plan)?;
        let numbered: Vec<(usize, Contender)> = contenders.iter().copied().enumerate().collect();
        let turns = (plan.pairs, ENOUGH_PAIRS);
        let (readings, ended) =
            take_turns_or_enough(&numbered, turns, Order::Rotating, |pair, &(nth, contender)| {
                if watch.stopped() {
                    return Err(Error::Stopped);
                }
                if nth == 0 {
                    watch.tell(&format!(
                        "{}: pair {} of {}",
                        crate::report::bytes(size),
                        pair + 1,
                        plan.pairs
                    ));
                }
                match bench.run(contender, size, paced[nth], plan.batches) {
                    // The machine may have become busy since: again, with fewer rounds.
                    Err(Error::Program { .. }) if paced[nth] > plan.batches && !watch.stopped() => {
                        paced[nth] = (paced[nth] / 10).max(plan.batches);
                        bench.run(contender, size, paced[nth], plan.batches)
                    }
                    other => other,
                }
            })?;
        match ended {
            None => {}
            Some(Error::Stopped) => return Err(Error::Stopped),
            Some(error) => watch.tell(&format!(
                "{}: ended after {} of {} pairs: {error}\n",
                crate::report::bytes(size),
                readings[0].len(),
                plan.pairs
            )),
        }
        sizes.push(SizeResults { size, readings: contenders.into_iter().zip(readings).collect() });
    }
    Ok(Results { machine, noun: site.noun(), site: site.describe(), cpus: site.cpus(), sizes })
}

struct Bench<'a> {
    site: &'a dyn Site,
    sysv: std::path::PathBuf,
    net: std::path::PathBuf,
    /// The file from which the rival's key is made: no other program on this kernel has it.
    meeting_place: String,
    timeout: String,
    ports: Ports,
}

impl Bench<'_> {
    /// Rounds of each contender. Those of shared memory, in one kernel and across domains, have the
    /// same work: theirs is the ratio that matters most. The slower one sets it.
    fn pace_all(&self, contenders: &[Contender], size: u64, plan: &Plan) -> Result<Vec<u64>> {
        let mut paced = Vec::new();
        for &contender in contenders {
            paced.push(match plan.rounds {
                Some(rounds) => rounds,
                None => self.pace(contender, size, plan)?,
            });
        }
        let of_memory = |nth: &usize| !contenders[*nth].is_net();
        let least = (0..paced.len()).filter(of_memory).map(|nth| paced[nth]).min();
        for nth in (0..paced.len()).filter(of_memory) {
            paced[nth] = least.unwrap_or(paced[nth]);
        }
        Ok(paced)
    }

    /// How many rounds fill the batches, by short runs.
    fn pace(&self, contender: Contender, size: u64, plan: &Plan) -> Result<u64> {
        const BATCHES: u64 = 20;
        pace(plan.batches, plan.batch_ns, |rounds| {
            Ok(self.run(contender, size, rounds, BATCHES)?.trial())
        })
    }

    fn run(&self, contender: Contender, size: u64, rounds: u64, batches: u64) -> Result<Reading> {
        let warmup = warmup(rounds);
        let mut common = vec!["--transport".to_owned(), contender.transport().to_owned()];
        for (option, value) in
            [("size", size), ("rounds", rounds), ("batches", batches), ("warmup", warmup)]
        {
            common.extend([format!("--{option}"), value.to_string()]);
        }
        common.extend(["--timeout".into(), self.timeout.clone()]);
        let program = if contender.is_net() { &self.net } else { &self.sysv };
        let [first_role, second_role] =
            if contender.is_net() { ["client", "server"] } else { ["ping", "pong"] };
        if contender == Contender::Sysv {
            common.extend(["--path".into(), self.meeting_place.clone()]);
        }
        if contender.is_net() {
            common.extend(["--host".into(), self.site.address().to_string()]);
            common.extend(["--port".into(), self.ports.next(self.site)?.to_string()]);
        }
        let job = |side: Side, role: &str| {
            let cpu = match contender {
                Contender::Sysv => Some(self.site.cpus()[side as usize]),
                _ => self.site.pin(side),
            };
            let mut arguments = common.clone();
            arguments.extend(cpu.into_iter().flat_map(|cpu| ["--cpu".into(), cpu.to_string()]));
            arguments.push(role.to_owned());
            Job {
                program: program.clone(),
                arguments,
                environment: Vec::new(),
                on_pool: contender == Contender::Vshmem,
            }
        };
        let (first, second) = (job(Side::First, first_role), job(Side::Second, second_role));
        let output = match contender {
            Contender::Sysv => play(&|_, job| run_bare(job), &first, &second),
            _ => play(&|side, job| self.site.run(side, job), &first, &second),
        }?;
        Reading::of(&first.arguments.join(" "), &output)
    }
}
