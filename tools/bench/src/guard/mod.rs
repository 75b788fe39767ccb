//! The regression guard: two builds of vshmem take turns at a few calls and round trips, and what
//! one of them does slower is named.
//!
//! Each pair has pools of its own: a pool keeps its pages, caches are indexed by the addresses of
//! pages, and so one pool can be faster than another in all runs alike. Cases of many processes
//! have turns of their own, after the others: the ends of 64 processes disturb what is measured
//! next.

mod base;
mod case;

use std::path::Path;
use std::process::{Command, Stdio};

use fastrand::Rng;
use serde::Serialize;

use crate::Watch;
use crate::bootstrap::{self, Interval};
use crate::error::{Error, Result};
use crate::kernel::{Kernels, Reading, line_of};
use crate::site::{run_on_pool, two_cpus};
use crate::statistics::signed_rank_p;
use crate::study::holm;
use crate::turns::{Order, take_turns};

pub use base::{Build, build_of};
pub use case::{CASES, Case};

/// Of errors over all cases of a run.
const LEVEL: f64 = 0.05;
/// Bytes of a pool.
const POOL_SIZE: &str = "32M";

/// What is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The cases.
    pub cases: Vec<Case>,
    /// Runs of each case by each build.
    pub pairs: usize,
    /// A difference that is none, of the base: 0.03.
    pub tolerance: f64,
    /// Of the order of turns, and of the intervals.
    pub seed: u64,
}

/// What came out of a case.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Its name.
    pub case: &'static str,
    /// Median of the base, in nanoseconds a round.
    pub base_ns: f64,
    /// Median of this build.
    pub own_ns: f64,
    /// How many times as fast this build is as the base.
    pub speed: f64,
    /// That holds the speed in 95 of 100 measurements.
    pub interval: Option<Interval>,
    /// How likely that is if nothing differs: Wilcoxon's signed-rank test, adjusted by Holm's rule.
    pub adjusted_p: f64,
    /// Whether this build is slower, beyond its interval, the tolerance and the correction.
    pub is_slower: bool,
    /// Whether it is faster in the same way.
    pub is_faster: bool,
}

/// Lets both builds take turns.
///
/// # Errors
/// When a program fails, or the user stops it.
pub fn guard(
    own: &Build,
    base: &Build,
    kernels: &Kernels,
    plan: &Plan,
    watch: &dyn Watch,
) -> Result<Vec<Finding>> {
    let meeting_place =
        tempfile::NamedTempFile::new().map_err(Error::io("make a file for ftok"))?;
    let bench = Bench { kernels, meeting_place: meeting_place.path(), cpus: two_cpus() };
    let mut rng = Rng::with_seed(plan.seed);
    let (crowded, quiet): (Vec<Case>, Vec<Case>) =
        plan.cases.iter().copied().partition(|case| case.is_crowded());
    let (mut cases, mut times) = (Vec::new(), Vec::new());
    for group in [quiet, crowded] {
        let order = Order::Shuffled(rng.fork());
        times.extend(bench.take_turns([own, base], &group, plan.pairs, order, watch)?);
        cases.extend(group);
    }
    Ok(findings(&cases, &times, plan))
}

/// Of this build and of the base, by pair index.
type Times = (Vec<f64>, Vec<f64>);

/// What follows from the times, case by case.
fn findings(cases: &[Case], times: &[Times], plan: &Plan) -> Vec<Finding> {
    let p: Vec<f64> =
        times.iter().map(|(own, base)| signed_rank_p(base, own).unwrap_or(1.0)).collect();
    let adjusted = holm(&p);
    let finding = |((case, (own, base)), adjusted_p): ((&Case, &Times), f64)| {
        let speed = bootstrap::quotient(&[base], &[own])?;
        let interval = bootstrap::interval(&[base], &[own], plan.seed);
        let is_sure = adjusted_p < LEVEL;
        let (low, high) = interval.map_or((0.0, f64::MAX), |one| (one.low, one.high));
        Some(Finding {
            case: case.name,
            base_ns: bootstrap::quotient(&[base], &[&[1.0]])?,
            own_ns: bootstrap::quotient(&[own], &[&[1.0]])?,
            speed,
            interval,
            adjusted_p,
            is_slower: is_sure && high < 1.0 && speed * (1.0 + plan.tolerance) < 1.0,
            is_faster: is_sure && low > 1.0 && speed > 1.0 + plan.tolerance,
        })
    };
    cases.iter().zip(times).zip(adjusted).filter_map(finding).collect()
}

struct Bench<'a> {
    kernels: &'a Kernels,
    /// The file from which the round trips' keys are made.
    meeting_place: &'a Path,
    cpus: [usize; 2],
}

impl Bench<'_> {
    /// Runs cases by this build and the base in turns, each turn in a pool of its own.
    fn take_turns(
        &self,
        builds: [&Build; 2],
        cases: &[Case],
        pairs: usize,
        order: Order,
        watch: &dyn Watch,
    ) -> Result<Vec<Times>> {
        if cases.is_empty() {
            return Ok(Vec::new());
        }
        let mut made = 0;
        let samples = take_turns(&builds, pairs, order, |pair, build| -> Result<Vec<f64>> {
            watch.advance(pair, pairs, None, "two builds");
            made += 1;
            let pool = Pool::make(build, made)?;
            let timed = |case: &Case| match watch.stopped() {
                true => Err(Error::Stopped),
                false => self.run(case, &pool),
            };
            cases.iter().map(timed).collect()
        })?;
        let of = |build: usize, nth: usize| -> Vec<f64> {
            samples[build].iter().map(|times| times[nth]).collect()
        };
        Ok((0..cases.len()).map(|nth| (of(0, nth), of(1, nth))).collect())
    }

    /// Nanoseconds a round.
    fn run(&self, case: &Case, pool: &Pool<'_>) -> Result<f64> {
        let job = case.job(self.kernels, self.meeting_place, self.cpus)?;
        let text = run_on_pool(&[], &job, &pool.build.command, &pool.name, "on this machine")?;
        let reading: Reading = line_of(case.name, &text)?;
        Ok(reading.median_ns)
    }
}

/// A pool that a build has made, for one pair.
struct Pool<'a> {
    build: &'a Build,
    name: String,
}

impl<'a> Pool<'a> {
    fn make(build: &'a Build, nth: u32) -> Result<Self> {
        let pool = Self { build, name: format!("guard-{}-{nth}", std::process::id()) };
        pool.ask(&["create", &pool.name, "--size", POOL_SIZE])?;
        Ok(pool)
    }

    fn ask(&self, words: &[&str]) -> Result<()> {
        let said = Command::new(&self.build.command)
            .arg("pool")
            .args(words)
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io(format!("run {}", self.build.command.display())))?;
        if said.status.success() {
            return Ok(());
        }
        Err(Error::Program {
            command: format!("{} pool {}", self.build.command.display(), words.join(" ")),
            place: format!("of {}", self.build.name),
            status: said.status.to_string(),
            output: String::from_utf8_lossy(&said.stderr).trim().to_owned(),
        })
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        // Nothing is measured any more.
        let _ = self.ask(&["rm", &self.name]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Box and Muller.
    fn normal(rng: &mut Rng) -> f64 {
        (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
    }

    fn found(slower_by: f64, seed: u64) -> Vec<Finding> {
        let mut rng = Rng::with_seed(seed);
        // Some runs are disturbed.
        let mut list = |middle: f64| -> Vec<f64> {
            let mut one = || {
                let disturbed = if rng.u8(..) < 6 { 2.0 } else { 1.0 };
                middle * disturbed * (1.0 + 0.03 * normal(&mut rng))
            };
            (0..20).map(|_| one()).collect()
        };
        let mut times: Vec<_> = CASES.iter().map(|_| (list(100.0), list(100.0))).collect();
        times[0].0.iter_mut().for_each(|time| *time *= 1.0 + slower_by);
        let plan = Plan { cases: CASES.to_vec(), pairs: 20, tolerance: 0.03, seed };
        findings(&CASES, &times, &plan)
    }

    #[test]
    fn a_tenth_is_found_and_nothing_where_nothing_differs() {
        let slower = |slower_by: f64| {
            (0..12).filter(|seed| found(slower_by, *seed).iter().any(|one| one.is_slower)).count()
        };
        assert!(slower(0.10) >= 11, "{}", slower(0.10));
        assert!(slower(0.0) <= 1, "{}", slower(0.0));
        let named = found(0.10, 3);
        assert!(named[0].is_slower && named[0].speed < 0.95, "{named:?}");
    }
}
