//! The measurement: contenders take turns, each a run of a program.

use fastrand::Rng;

use super::comparison::{Comparison, Contender, Length, Pins, Place};
use super::plan::{Plan, RunCase, Sample};
use super::preparing::CpuTimes;
use super::results::{Measured, Results};
use crate::Watch;
use crate::error::{Error, Result};
use crate::kernel::{Kernels, line_of};
use crate::machine::Machine;
use crate::pace::{pace, warmup};
use crate::pingpong::SYSV_KERNEL;
use crate::site::{Job, Ports, SHARE, Side, Site, play, run_bare, run_on_pool, two_cpus};
use crate::turns::{Order, take_turns};

/// Seconds after which a program gives up, beyond what it was asked to last.
const TIMEOUT: u64 = 60;

/// Measures. A comparison that fails is reported and left out; the others continue.
///
/// # Errors
/// [`Watch::stopped`] ends it, and so does a missing program.
pub fn measure(
    environments: &RunCase<'_>,
    kernels: &Kernels,
    plan: &Plan,
    watch: &dyn Watch,
) -> Result<Results> {
    let meeting_place =
        tempfile::NamedTempFile::new().map_err(Error::io("make a file for ftok"))?;
    let bench = Bench {
        environments,
        kernels,
        meeting_place: meeting_place.path().display().to_string(),
        cpus: environments.guests.map_or_else(two_cpus, Site::cpus),
        ports: Ports::default(),
        plan,
    };
    let mut machine = Machine::here();
    let emulated = environments.guests.and_then(Site::emulated);
    machine.emulated = machine.emulated.or(emulated.map(|by| format!("its guests: {by}")));
    let mut results = Results {
        machine,
        cpus: bench.cpus,
        seed: plan.seed,
        measured: Vec::new(),
        failed: Vec::new(),
    };
    let mut rng = Rng::with_seed(plan.seed);
    for (nth, comparison) in plan.comparisons.iter().enumerate() {
        let order = Order::Shuffled(rng.fork());
        watch.tell(&format!("{} ({} of {})", comparison.name, nth + 1, plan.comparisons.len()));
        match bench.compare(comparison, order, watch) {
            Ok(samples) => {
                results.measured.push(Measured { comparison: comparison.clone(), samples });
            }
            Err(_) if watch.stopped() => return Err(Error::Stopped),
            Err(error) => results.failed.push((comparison.name.clone(), error)),
        }
    }
    Ok(results)
}

struct Bench<'a> {
    environments: &'a RunCase<'a>,
    kernels: &'a Kernels,
    /// The file from which the round trips' keys are made: no other program on this kernel has it.
    meeting_place: String,
    cpus: [usize; 2],
    ports: Ports,
    plan: &'a Plan,
}

impl Bench<'_> {
    fn compare(
        &self,
        comparison: &Comparison,
        order: Order,
        watch: &dyn Watch,
    ) -> Result<Vec<Vec<Sample>>> {
        let sustained = |one: &Contender| one.case.length == Length::Sustained;
        let pairs = if comparison.contenders.iter().any(sustained) {
            self.plan.sustained_pairs
        } else {
            self.plan.pairs
        };
        let mut paced = Vec::new();
        for contender in &comparison.contenders {
            paced.push((contender, self.rounds(contender)?));
        }
        take_turns(&paced, pairs, order, |pair, &(contender, rounds)| {
            if watch.stopped() {
                return Err(Error::Stopped);
            }
            watch.tell(&format!(
                "{}: {} ({} of {pairs})",
                comparison.name,
                contender.label,
                pair + 1
            ));
            self.run(contender, rounds, self.plan.batches)
        })
    }

    /// How many rounds fill the batches of a contender, by a short run.
    fn rounds(&self, contender: &Contender) -> Result<u64> {
        const BATCHES: u64 = 20;
        match (self.plan.rounds, contender.case.length) {
            (Some(rounds), _) => Ok(rounds),
            (None, Length::Rounds) => pace(self.plan.batches, self.plan.batch_ns, |rounds| {
                Ok(self.run(contender, rounds, BATCHES)?.reading.trial())
            }),
            (None, Length::Fixed { rounds }) => Ok(rounds),
            (None, _) => Ok(1),
        }
    }

    fn job(&self, contender: &Contender, rounds: u64, batches: u64) -> Result<Job> {
        let case = &contender.case;
        let mut options = Vec::new();
        let mut option = |name: &str, value: String| options.extend([format!("--{name}"), value]);
        let milliseconds = match case.length {
            Length::Rounds | Length::Fixed { .. } => None,
            Length::Time { spans } => Some(spans * self.plan.milliseconds),
            Length::Sustained => Some(self.plan.sustained_milliseconds),
        };
        match milliseconds {
            Some(length) => option("milliseconds", length.to_string()),
            None => {
                option("rounds", rounds.to_string());
                option("batches", batches.to_string());
                option("warmup", warmup(rounds).to_string());
            }
        }
        option("timeout", (TIMEOUT + milliseconds.unwrap_or(0) / 1000).to_string());
        let [first, second] = self.cpus;
        let pins = match case.pins {
            // A guest has one CPU.
            _ if contender.place.is_in_guests() => [None, None],
            Pins::Free => [None, None],
            Pins::First => [Some(first), None],
            Pins::Apart => [Some(first), Some(second)],
            Pins::Together => [Some(first), Some(first)],
        };
        for (name, cpu) in ["cpu", "peer-cpu"].into_iter().zip(pins) {
            if let Some(cpu) = cpu {
                option(name, cpu.to_string());
            }
        }
        if case.program == SYSV_KERNEL && !contender.place.is_in_guests() {
            option("path", self.meeting_place.clone());
            options.push("--both".into());
        }
        options.extend(case.words.iter().cloned());
        let mut environment = Vec::new();
        let mut set = |name: &str, value: &str| environment.push((name.into(), value.into()));
        if case.no_spin {
            set("VSHMEM_SPIN", "0");
        }
        if case.posix && contender.place.is_on_pool() {
            set(SHARE, "all,posix");
        }
        Ok(Job {
            program: self.kernels.find(case.program)?,
            arguments: options,
            environment,
            on_pool: contender.place.is_on_pool(),
        })
    }

    /// Plays the two roles of a program in two guests.
    fn run_in_guests(&self, contender: &Contender, job: &Job) -> Result<String> {
        let guests = self.environments.guests.ok_or_else(|| not_made("guests"))?;
        let mut common = job.arguments.clone();
        let roles = if contender.place == Place::Network {
            common.extend(["--host".into(), guests.address().to_string()]);
            common.extend(["--port".into(), self.ports.next(guests)?.to_string()]);
            ["client", "server"]
        } else {
            ["ping", "pong"]
        };
        let [first, second] = roles.map(|role| Job {
            arguments: [&common[..], &[role.to_owned()]].concat(),
            ..job.clone()
        });
        play(&|side: Side, job| guests.run(side, job), &first, &second)
    }

    fn run(&self, contender: &Contender, rounds: u64, batches: u64) -> Result<Sample> {
        let job = self.job(contender, rounds, batches)?;
        let command = job.arguments.join(" ");
        let pool = match contender.place {
            Place::Kernel => return line_of(&command, &run_bare(&job)?),
            Place::Pool => self.environments.pool,
            Place::PreparedPool => {
                self.environments.prepared.ok_or_else(|| not_made("prepared pool"))?
            }
            Place::Guests | Place::Network => {
                return line_of(&command, &self.run_in_guests(contender, &job)?);
            }
        };
        let others = || {
            (contender.case.length == Length::Sustained).then(|| CpuTimes::of_users_of(pool.file))
        };
        let before = others();
        let output =
            run_on_pool(&[], &job, self.environments.command, pool.name, "on this machine")?;
        let mut sample: Sample = line_of(&command, &output)?;
        if let (Some(before), Some(after)) = (before, others()) {
            let rounds = sample.reading.rounds.max(1) as f64;
            sample.others_cpu_ns = Some(after.since(&before) as f64 / rounds);
        }
        Ok(sample)
    }
}

fn not_made(place: &'static str) -> Error {
    Error::NoSite { place, why: "none was made".into() }
}
