//! What a sleep costs here: the measure for how long a waiter looks (`spin.rs`).
//!
//! The cost is CPU time, in ticks of the CPU's counter: what the kernel charges this thread for a
//! sleep, and what the waker spends on waking it. The second is taken to be what this thread spends
//! when it wakes another. Both are moving averages. Where the kernel's account is too coarse (a
//! User Mode Linux guest counts by ticks of 10 ms), the duration of the shortest sleep by the clock
//! is taken instead.

use std::time::Duration;

use vshmem_mem::tuning::INERTIA;
use vshmem_mem::tuning::sleep_cost::{
    FIRST_GUESS, LEAST_COST, LONGEST_TRIAL, MOST_COST, SAMPLED_EVERY, SAMPLED_FIRST,
};
use vshmem_mem::unmodelled::{AtomicBool, AtomicU32, Ordering::Relaxed};
use vshmem_mem::{Instant, is_confined, shortest_sleep, thread_cpu_time, ticks, unless_confined};

/// What sleeps have cost lately: private to a process.
#[derive(Debug)]
pub(super) struct SleepCost {
    /// Nothing is measured where no thread looks.
    is_measured: bool,
    /// CPU time of a sleep, in ticks.
    sleep: AtomicU32,
    /// CPU time of waking another thread.
    wake: AtomicU32,
    /// How long a sleep lasts that is woken at once: the shortest of late.
    span: AtomicU32,
    sleeps: AtomicU32,
    wakes: AtomicU32,
    /// The kernel counts CPU time too coarsely for a single sleep.
    is_coarse: AtomicBool,
}

impl SleepCost {
    /// Nothing is measured yet; with `is_forbidden` nothing ever is.
    pub fn new(is_forbidden: bool) -> Self {
        Self {
            is_measured: !is_forbidden,
            sleep: AtomicU32::new(FIRST_GUESS),
            wake: AtomicU32::new(0),
            span: AtomicU32::new(FIRST_GUESS),
            sleeps: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            is_coarse: AtomicBool::new(false),
        }
    }

    /// What a sleep costs here, in ticks of CPU time.
    pub fn cost(&self) -> u32 {
        let both = self.sleep.load(Relaxed).saturating_add(self.wake.load(Relaxed));
        both.clamp(LEAST_COST, MOST_COST)
    }

    /// How long a sleep lasts that is woken at once, in ticks.
    pub fn span(&self) -> u32 {
        self.span.load(Relaxed)
    }

    /// To be called before a sleep, which its answer measures.
    pub fn measure_sleep(&self) -> SleepMeter<'_> {
        let began = ticks();
        let account = self.is_sampled(&self.sleeps).then(|| self.account()).flatten();
        SleepMeter { cost: self, began, account }
    }

    /// Wakes another thread, and now and then measures it.
    pub fn measure_wake<T>(&self, wake: impl FnOnce() -> T) -> T {
        let account = self.is_sampled(&self.wakes).then(|| self.account()).flatten();
        let woken = wake();
        if let Some(cpu) = account.and_then(Account::spent) {
            average(&self.wake, cpu, self.wakes.load(Relaxed) <= 1);
        }
        woken
    }

    /// Whether the CPU time of the next of those is to be measured.
    fn is_sampled(&self, of: &AtomicU32) -> bool {
        let before = of.load(Relaxed);
        of.store(before.wrapping_add(1), Relaxed);
        self.is_measured
            && !is_confined()
            && !self.is_coarse.load(Relaxed)
            && (before < SAMPLED_FIRST || before.is_multiple_of(SAMPLED_EVERY))
    }

    /// Reads the clocks; `None` if that of CPU time stands still meanwhile, so that one sleep
    /// cannot be measured by it.
    fn account(&self) -> Option<Account> {
        unless_confined(|| self.account_by(thread_cpu_time)).flatten()
    }

    fn account_by(&self, cpu_time: impl Fn() -> Duration) -> Option<Account> {
        let before = cpu_time();
        let (cpu, now) = (cpu_time(), ticks());
        if cpu != before {
            return Some(Account { ticks: now, clock: Instant::now(), cpu });
        }
        self.is_coarse.store(true, Relaxed);
        self.note_sleep(shortest_sleep());
        None
    }

    /// Takes note of a wait that another thread has ended, of so many ticks from the beginning of
    /// its first sleep to the end.
    pub fn note_span(&self, span: u64) {
        let span = u32::try_from(span).unwrap_or(u32::MAX).max(1);
        let known = self.span.load(Relaxed);
        // The shortest counts, and is forgotten slowly.
        self.span.store(span.min(known.saturating_add(known / 16)).min(LONGEST_TRIAL), Relaxed);
    }

    /// Takes note of the CPU time of a sleep.
    pub fn note_sleep(&self, cpu: u64) {
        average(&self.sleep, cpu, self.sleeps.load(Relaxed) <= 1);
    }
}

/// The clocks at a moment.
#[derive(Debug, Clone, Copy)]
struct Account {
    ticks: u64,
    clock: Instant,
    cpu: Duration,
}

impl Account {
    /// CPU time of this thread since then, in ticks.
    fn spent(self) -> Option<u64> {
        let cpu = unless_confined(thread_cpu_time)?;
        let (clock, now) = (Instant::now(), ticks());
        let elapsed = clock.remaining(self.clock).as_nanos();
        let spent = cpu.saturating_sub(self.cpu).as_nanos();
        let ticked = u128::from(now.wrapping_sub(self.ticks));
        let ticks = (spent * ticked).checked_div(elapsed)?;
        Some(u64::try_from(ticks).unwrap_or(u64::MAX))
    }
}

/// Measures a wait that sleeps.
#[derive(Debug)]
pub struct SleepMeter<'a> {
    cost: &'a SleepCost,
    began: u64,
    account: Option<Account>,
}

impl SleepMeter<'_> {
    /// To be called after the first sleep, however it has ended.
    pub fn slept_once(&mut self) {
        if let Some(cpu) = self.account.take().and_then(Account::spent) {
            self.cost.note_sleep(cpu);
        }
    }

    /// To be called when another thread has ended the wait.
    pub fn woken(self) {
        let span = ticks().wrapping_sub(self.began);
        // Shorter: it was not asleep yet.
        if span > LEAST_COST.into() {
            self.cost.note_span(span);
        }
    }
}

/// Moves an average; the first value replaces a guess.
fn average(of: &AtomicU32, value: u64, is_first: bool) {
    let value = u32::try_from(value).unwrap_or(u32::MAX).min(MOST_COST);
    let known = of.load(Relaxed);
    let next = if is_first { value } else { known - known / INERTIA + value / INERTIA };
    of.store(next, Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn where_cpu_time_is_counted_too_coarsely_a_sleep_counts_as_what_one_takes() {
        let cost = SleepCost::new(false);
        assert!(cost.account_by(|| Duration::from_millis(10)).is_none());
        assert!(cost.cost() > LEAST_COST, "{}", cost.cost());
        assert!(!cost.is_sampled(&cost.sleeps), "it is not measured again");
    }

    #[test]
    fn costs_are_learned_and_bounded() {
        let cost = SleepCost::new(false);
        assert_eq!(cost.cost(), FIRST_GUESS);
        assert!(cost.is_sampled(&cost.sleeps));
        cost.note_sleep(5000);
        assert_eq!(cost.cost(), 5000, "the first measurement replaces the guess");
        average(&cost.wake, 20_000, true);
        assert_eq!(cost.cost(), 25_000, "waking counts as well");
        for _ in 0..100 {
            cost.note_sleep(u64::MAX);
        }
        assert_eq!(cost.cost(), MOST_COST);
        for _ in 0..1000 {
            cost.note_sleep(1);
            average(&cost.wake, 1, false);
        }
        assert_eq!(cost.cost(), LEAST_COST);
    }
}
