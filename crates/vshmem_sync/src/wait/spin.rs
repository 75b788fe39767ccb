//! How long a waiter spins before it sleeps: about as long as sleeping would cost.
//!
//! A thread that spins for as long as a sleep costs, and then sleeps, spends at most twice what the
//! better of both would have cost, however long the wait turns out to be: before that time is over
//! spinning is the cheaper one, and after it the sleep is paid on top of as much again. That is as
//! good as can be done without knowing the future, and only a trial (below) spins for longer. What
//! a sleep costs is measured (`sleep_cost.rs`). Some waits spin for a shorter time, to spend less
//! where spinning does not succeed: docs/internals/design.md says what that costs, and whom.
//!
//! # Shorter spins after a failure
//! A thread that has spun without success spins for a quarter of that time in its next wait, and
//! for a sixteenth when trials (below) fail as well, until a poll succeeds. So a thread that is
//! always answered late spends little more than one that sleeps at once.
//!
//! # Trials
//! Two threads that wait for each other and both sleep need a wake-up for each answer. On most
//! machines that takes longer than the CPU time of a sleep, so neither would ever spin long enough
//! to see that the other is quick. So one wait in some is a *trial*: it spins for as long as a
//! sleep lasts that is woken at once. A trial that succeeds is followed by some more, so that
//! trials of both threads meet. Trials are so rare that they cost an eighth of a sleep for each
//! wait.
//!
//! # A crowded CPU
//! A thread that finds a gap between two polls was not running meanwhile: another thread wants this
//! CPU, and may be the one that is waited for. It stops spinning, and the next waits do not spin: a
//! few at first, more each time it happens again.
//!
//! # An answer from this very CPU
//! A wait yields the CPU once instead of spinning (`yielding.rs`) where the thread that is waited
//! for can only run on the waiter's own CPU; at a barrier whose threads need all CPUs there are;
//! and now and then where spinning has failed or the CPU is crowded. A wait spins or yields, never
//! both.

use vshmem_mem::tuning::sleep_cost::LONGEST_TRIAL;
use vshmem_mem::tuning::spin::{
    LONGEST_REST, MOST_PAUSES, POLLS_PER_CLOCK_READ, PROMPT, TRIAL_EVERY, TRIALS_FAIL, TRIALS_PART,
};
use vshmem_mem::tuning::{FIRST_REST, FOURTH, GAP, RUN, SELDOM, SIXTEENTH};
use vshmem_mem::unmodelled::{AtomicU32, Ordering::Relaxed};
use vshmem_mem::{is_confined, spin_hint, ticks};

use super::poll_interval::{PollIntervals, Polled};
use super::sleep_cost::{SleepCost, SleepMeter};
use super::yielding::{Yielding, store_changed, yield_cpu};

/// Where the threads that may wake a waiter can run while it spins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakerCpu {
    /// On another CPU.
    OnAnotherCpu,
    /// On the waiter's own CPU only: not while it spins.
    OnThisCpu,
    /// Several threads have to run, as many as there are CPUs or more.
    OnEveryCpu,
}

/// What a wait does before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Nothing.
    Sleep,
    /// It gives the CPU away, once.
    Yield(Wakers),
    /// It spins, for so many ticks.
    SpinWait { length: u64, is_trial: bool },
}

/// How many threads a waiter that yields waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wakers {
    One,
    Several,
}

/// Whether this thread may spin before it sleeps, and for how long: private to a process.
#[derive(Debug)]
pub struct Spin {
    is_forbidden: bool,
    sleeping: SleepCost,
    /// Whether the last spin was without success.
    in_vain: AtomicU32,
    /// Waits until the next trial.
    left: AtomicU32,
    /// Waits from one trial to the next.
    apart: AtomicU32,
    /// Trials on end that have succeeded.
    streak: AtomicU32,
    /// Waits that sleep at once because the CPU is crowded.
    rest: AtomicU32,
    /// How many there are after the next gap.
    next_rest: AtomicU32,
    yielding: Yielding,
    /// For several wakers: there a yield is without success only if it takes too long. It brings
    /// the others nearer to what is waited for, whether that is there when it returns or not.
    yielding_to_several: Yielding,
    intervals: PollIntervals,
}

impl Spin {
    /// Nothing is known yet. `is_forbidden`: every waiter sleeps at once.
    #[must_use]
    pub fn new(is_forbidden: bool) -> Self {
        Self {
            is_forbidden,
            sleeping: SleepCost::new(is_forbidden),
            in_vain: AtomicU32::new(0),
            left: AtomicU32::new(TRIAL_EVERY),
            apart: AtomicU32::new(TRIAL_EVERY),
            streak: AtomicU32::new(0),
            rest: AtomicU32::new(0),
            next_rest: AtomicU32::new(FIRST_REST),
            yielding: Yielding::new(),
            yielding_to_several: Yielding::new(),
            intervals: PollIntervals::of_this_processor(),
        }
    }

    /// What a sleep costs here, in ticks of CPU time.
    #[must_use]
    pub fn cost(&self) -> u32 {
        self.sleeping.cost()
    }

    /// To be called before a sleep, which its answer measures.
    pub fn measure_sleep(&self) -> SleepMeter<'_> {
        self.sleeping.measure_sleep()
    }

    /// Wakes another thread, and now and then measures it.
    pub fn wake<T>(&self, wake: impl FnOnce() -> T) -> T {
        self.sleeping.measure_wake(wake)
    }

    /// Spins until `changed` says so of a word (true), or it has spun as long as it may (false).
    pub fn until(&self, waker_cpu: WakerCpu, mut changed: impl FnMut() -> bool) -> bool {
        let mut look = self.begin(waker_cpu, Polled::Word);
        loop {
            if look.pause_or_end() {
                return false;
            }
            if changed() {
                look.succeed();
                return true;
            }
        }
    }

    /// Begins a wait.
    pub fn begin(&self, waker_cpu: WakerCpu, polled: Polled) -> SpinWait<'_, impl Fn() -> u64> {
        self.begin_at(waker_cpu, polled, ticks)
    }

    fn begin_at<T: Fn() -> u64>(
        &self,
        waker_cpu: WakerCpu,
        polled: Polled,
        now: T,
    ) -> SpinWait<'_, T> {
        let began = now();
        let plan = self.plan(waker_cpu);
        let interval = self.intervals.ticks(polled);
        SpinWait { spin: self, interval, began, last: began, plan, turns: 0, now }
    }

    /// What the wait that begins now does before it sleeps.
    fn plan(&self, waker_cpu: WakerCpu) -> Plan {
        if self.is_forbidden {
            return Plan::Sleep;
        }
        // sched_yield(2) may be one of the calls that the program has forbidden itself.
        let may_yield = !is_confined();
        if waker_cpu == WakerCpu::OnEveryCpu {
            let yields = may_yield && self.yielding_to_several.is_due();
            return if yields { Plan::Yield(Wakers::Several) } else { Plan::Sleep };
        }
        if waker_cpu == WakerCpu::OnAnotherCpu {
            if may_yield && self.yielding.is_better() {
                return Plan::Yield(Wakers::One);
            }
            let rest = self.rest.load(Relaxed);
            if rest > 0 {
                self.rest.store(rest - 1, Relaxed);
            } else if self.in_vain.load(Relaxed) == 0 || !may_yield || !self.yielding.is_due() {
                let (length, is_trial) = self.length();
                return Plan::SpinWait { length, is_trial };
            } else {
                return Plan::Yield(Wakers::One);
            }
        }
        if may_yield && self.yielding.is_due() { Plan::Yield(Wakers::One) } else { Plan::Sleep }
    }

    /// How long a wait may spin, and whether it is a trial.
    fn length(&self) -> (u64, bool) {
        let cost = self.cost();
        if self.take_trial(cost) {
            // A little longer, as no two wake-ups last the same.
            let span = self.sleeping.span();
            return ((span + span / 4).clamp(cost, LONGEST_TRIAL).into(), true);
        }
        let length = if self.in_vain.load(Relaxed) == 0 {
            cost
        } else if self.apart.load(Relaxed) < TRIALS_FAIL {
            (cost >> FOURTH).max(PROMPT).min(cost)
        } else {
            cost >> SIXTEENTH
        };
        (length.into(), false)
    }

    /// Counts this wait, and says whether it is a trial. Other threads may count the same wait: it
    /// is only now and then.
    fn take_trial(&self, cost: u32) -> bool {
        let left = self.left.load(Relaxed).saturating_sub(1);
        self.left.store(left, Relaxed);
        if left > 0 {
            return false;
        }
        let apart = self.apart.load(Relaxed);
        // Those that went before this one without a pause count as well.
        let trials = self.streak.load(Relaxed) + 1;
        let affordable = trials * (self.sleeping.span().min(LONGEST_TRIAL) / (cost / TRIALS_PART));
        self.left.store(apart.max(affordable), Relaxed);
        self.apart.store((apart * 2).min(SELDOM), Relaxed);
        true
    }
}

/// One wait that spins.
#[derive(Debug)]
pub struct SpinWait<'a, T> {
    spin: &'a Spin,
    /// Ticks between two polls.
    interval: u64,
    began: u64,
    last: u64,
    plan: Plan,
    turns: u32,
    now: T,
}

impl<T: Fn() -> u64> SpinWait<'_, T> {
    /// To be called before each poll. Pauses for as long as polls are apart, or yields the CPU
    /// once; true: another poll is not worth it.
    #[inline]
    pub fn pause_or_end(&mut self) -> bool {
        let Plan::SpinWait { length, .. } = self.plan else { return !self.yield_once() };
        if self.turns.is_multiple_of(POLLS_PER_CLOCK_READ) && self.check_clock(length) {
            return true;
        }
        // None in tests, whose clock is made up.
        if cfg!(not(test)) {
            pause(self.interval);
        }
        self.turns += 1;
        false
    }

    /// Yields the CPU the first time, if that is the plan; says whether it did.
    #[cold]
    fn yield_once(&mut self) -> bool {
        let Plan::Yield(wakers) = self.plan else { return false };
        if self.turns > 0 {
            if wakers == Wakers::One {
                self.spin.yielding.fail();
            }
            return false;
        }
        yield_cpu();
        self.last = (self.now)();
        self.turns = 1;
        if wakers == Wakers::Several {
            self.spin.yielding_to_several.succeed(self.last.wrapping_sub(self.began));
        }
        true
    }

    /// Whether the spin has lasted as long as it may, or this thread did not run for a while; both
    /// are remembered for the next waits.
    fn check_clock(&mut self, length: u64) -> bool {
        let now = (self.now)();
        let gap = now.wrapping_sub(self.last);
        self.last = now;
        let spin = self.spin;
        if gap > GAP.max(spin.cost().into()) {
            let rest = spin.next_rest.load(Relaxed);
            spin.rest.store(rest, Relaxed);
            spin.next_rest.store((rest * 2).min(LONGEST_REST), Relaxed);
            return true;
        }
        if now.wrapping_sub(self.began) < length {
            return false;
        }
        spin.in_vain.store(1, Relaxed);
        true
    }

    /// To be called when a poll has found what was waited for.
    #[inline]
    pub fn succeed(self) {
        let spin = self.spin;
        let took = self.last.wrapping_sub(self.began);
        let is_trial = match self.plan {
            Plan::SpinWait { is_trial, .. } => is_trial,
            Plan::Yield(Wakers::Several) => return,
            Plan::Yield(Wakers::One) | Plan::Sleep => return spin.yielding.succeed(took),
        };
        spin.yielding.look_has_succeeded();
        store_changed(&spin.next_rest, FIRST_REST);
        // What takes longer than a sleep costs is found by trials alone.
        if !is_trial || took < spin.cost().into() {
            store_changed(&spin.in_vain, 0);
            store_changed(&spin.streak, 0);
            store_changed(&spin.apart, TRIAL_EVERY);
            return;
        }
        spin.apart.store(TRIAL_EVERY, Relaxed);
        let streak = spin.streak.load(Relaxed) + 1;
        spin.streak.store(streak % RUN, Relaxed);
        if streak < RUN {
            spin.left.store(1, Relaxed);
        }
    }
}

/// Lets so many ticks go by. A processor's own pause takes between 1 and 140 of them, so they are
/// counted.
#[inline]
fn pause(interval: u64) {
    let began = ticks();
    for _ in 0..MOST_PAUSES {
        spin_hint();
        if ticks().wrapping_sub(began) >= interval {
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
