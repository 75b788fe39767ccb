//! How many rounds a run should have.

/// Rounds of the first trial, and of the second, which follows where the first was short.
const TRIALS: [u64; 2] = [100, 2000];
/// A trial that took so long is enough, in nanoseconds.
const LONG_TRIAL_NS: f64 = 1e7;
/// No run should take longer, in nanoseconds: a program gives up after many times that.
const LONGEST_RUN_NS: f64 = 5e9;

/// What a trial found, in nanoseconds a round.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// Median over its batches: what a round takes when nothing disturbs it.
    pub median_ns: f64,
    /// Mean: what it takes on this machine now.
    pub mean_ns: f64,
}

/// Rounds that fill `batches` of `batch_ns` each, found by trials. Of few rounds first: in emulated
/// guests on a busy machine a round may take a thousand times what it takes elsewhere. There fewer
/// rounds have to do.
///
/// # Errors
/// That of a trial.
pub fn pace<E>(
    batches: u64,
    batch_ns: f64,
    mut run: impl FnMut(u64) -> Result<Trial, E>,
) -> Result<u64, E> {
    let mut trial = run(TRIALS[0])?;
    if trial.mean_ns * (TRIALS[0] as f64) < LONG_TRIAL_NS {
        trial = run(TRIALS[1])?;
    }
    let wanted = rounds_to_fill(batches, batch_ns, trial.median_ns);
    let most = (LONGEST_RUN_NS / trial.mean_ns.max(1.0)) as u64;
    Ok(wanted.min(most.max(batches)))
}

/// Rounds that fill `batches` of `batch_ns` each, at `round_ns` a round as a short run has found
/// it.
#[must_use]
pub fn rounds_to_fill(batches: u64, batch_ns: f64, round_ns: f64) -> u64 {
    batches * ((batch_ns / round_ns.max(1.0)) as u64).clamp(10, 1_000_000)
}

/// Rounds before them that do not count.
#[must_use]
pub fn warmup(rounds: u64) -> u64 {
    (rounds / 20).clamp(5, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_bounded_by_time_where_rounds_are_slow() {
        let paced = |median_ns: f64, mean_ns: f64| {
            let mut trials = Vec::new();
            let rounds = pace(50, 2e6, |rounds| {
                trials.push(rounds);
                Ok::<_, ()>(Trial { median_ns, mean_ns })
            });
            (rounds.unwrap(), trials)
        };
        assert_eq!(paced(200.0, 250.0), (500_000, vec![100, 2000]));
        // A time slice a round: the smallest run of all would take 100 s.
        assert_eq!(paced(4e6, 2e8), (50, vec![100]));
        // Quick in itself, and disturbed most of the time.
        assert_eq!(paced(1000.0, 1e6), (5000, vec![100]));
    }

    #[test]
    fn batches_are_filled_within_bounds() {
        assert_eq!(rounds_to_fill(50, 2e6, 100.0), 50 * 20_000);
        assert_eq!(rounds_to_fill(50, 2e6, 1e9), 50 * 10, "never fewer than ten a batch");
        assert_eq!(rounds_to_fill(2, 5e9, 0.0), 2 * 1_000_000, "a clock too coarse to tell");
    }
}
