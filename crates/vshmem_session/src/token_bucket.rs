//! Rate limits, for datagrams and for connections.

use std::time::{Duration, Instant};

/// A bucket of tokens that fills at a steady rate. Each datagram takes one.
#[derive(Debug)]
pub struct TokenBucket {
    per_token: Duration,
    most: u32,
    tokens: u32,
    /// Up to when tokens have been put in.
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket: `burst` tokens at once, `rate` a second in the long run.
    #[must_use]
    pub fn new(rate: u32, burst: u32, now: Instant) -> Self {
        Self {
            per_token: Duration::from_secs(1) / rate.max(1),
            most: burst,
            tokens: burst,
            filled: now,
        }
    }

    /// Takes a token. Asks the clock only when fewer than half are left as of the last time: in
    /// some guests that is a system call.
    ///
    /// # Errors
    /// How long until there is one.
    pub fn take_by(&mut self, clock: impl FnOnce() -> Instant) -> Result<(), Duration> {
        if self.tokens > self.most / 2 {
            self.tokens -= 1;
            return Ok(());
        }
        self.take(clock())
    }

    /// Takes a token.
    ///
    /// # Errors
    /// How long until there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.fill(now);
        if self.tokens == 0 {
            return Err((self.filled + self.per_token).saturating_duration_since(now));
        }
        self.tokens -= 1;
        Ok(())
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_nanos();
        let more = passed / self.per_token.as_nanos().max(1);
        let room = self.most - self.tokens;
        if more >= u128::from(room) {
            // What does not fit is lost.
            self.tokens = self.most;
            self.filled = self.filled.max(now);
        } else {
            self.tokens += more as u32;
            self.filled += self.per_token * more as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &mut TokenBucket, now: Instant) -> u32 {
        (0..).take_while(|_| bucket.take(now).is_ok()).count() as u32
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1000, 50, start);
        assert_eq!(taken(&mut bucket, start), 50);
        for tenth in 1..=20 {
            let now = start + Duration::from_millis(10) * tenth;
            assert_eq!(taken(&mut bucket, now), 10, "at {tenth}");
        }
        let later = start + Duration::from_secs(3600);
        assert_eq!(taken(&mut bucket, later), 50, "an hour does not add up");
    }

    #[test]
    fn without_asking_the_clock_each_time_the_limit_is_the_same() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1000, 50, start);
        let mut asked = 0;
        let mut taken = |now: Instant| {
            let clock = || {
                asked += 1;
                now
            };
            bucket.take_by(clock).is_ok()
        };
        assert_eq!((0..100).filter(|_| taken(start)).count(), 50);
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| taken(later)).count(), 50);
        assert_eq!(asked, 75 + 76);
    }

    #[test]
    fn an_empty_bucket_says_when_to_come_again() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1000, 1, start);
        assert_eq!(bucket.take(start), Ok(()));
        let half = start + Duration::from_micros(500);
        assert_eq!(bucket.take(half), Err(Duration::from_micros(500)));
        assert_eq!(bucket.take(start + Duration::from_millis(1)), Ok(()));
    }

    #[test]
    fn parts_of_a_token_are_not_lost() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1000, 10, start);
        taken(&mut bucket, start);
        // 0.7 tokens each time.
        let count: u32 = (1..=10)
            .map(|step| taken(&mut bucket, start + Duration::from_micros(700) * step))
            .sum();
        assert_eq!(count, 7);
    }

    #[test]
    fn a_clock_that_stops_or_goes_back_gives_nothing() {
        let start = Instant::now() + Duration::from_secs(10);
        let mut bucket = TokenBucket::new(1000, 5, start);
        assert_eq!(taken(&mut bucket, start), 5);
        assert_eq!(taken(&mut bucket, start - Duration::from_secs(5)), 0);
        assert_eq!(taken(&mut bucket, start), 0);
    }
}
