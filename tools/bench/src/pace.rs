//! How many rounds a run should have.

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
    fn batches_are_filled_within_bounds() {
        assert_eq!(rounds_to_fill(50, 2e6, 100.0), 50 * 20_000);
        assert_eq!(rounds_to_fill(50, 2e6, 1e9), 50 * 10, "never fewer than ten a batch");
        assert_eq!(rounds_to_fill(2, 5e9, 0.0), 2 * 1_000_000, "a clock too coarse to tell");
    }
}
