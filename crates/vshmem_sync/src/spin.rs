//! How long a waiter looks before it sleeps: about as long as sleeping would cost.
//!
//! Who looks for as long as a sleep costs, and then sleeps, spends at most twice what the better of both would have cost,
//! however long the wait turns out to be: before that time is over looking is the cheaper one, and after it the sleep is
//! paid on top of as much again. That is as good as can be done without knowing the future, and no wait but a try (below)
//! looks for longer. Waits that look for less do so to spend less on sleeps: docs/internals/design.md says what that costs whom.
//!
//! # The cost of a sleep
//! CPU time, in ticks of the CPU's counter: what the kernel charges this thread for a sleep, and what waking somebody takes,
//! which is what somebody else pays for ours. Both are moving averages of what this process has seen here. Where the
//! kernel's account is too coarse (a User Mode Linux guest counts by ticks of 10 ms) a sleep counts as the time that the shortest
//! one takes by the clock.
//!
//! # Less after it was in vain
//! Who has looked in vain looks for a quarter of that next time, and when tries (below) fail as well for a sixteenth, until a
//! look succeeds. So one that is always answered late spends little more than one that sleeps at once.
//!
//! # Tries
//! Two that wait for each other and both sleep take a wake-up each to answer, which on most machines is longer than its CPU time:
//! looking for that would never show either of them that the other is quick. So one wait in some is a *try* that looks for as
//! long as a sleep lasts that is woken at once. A try that succeeds is followed by some more, so that the try of the one
//! meets that of the other. Tries are so rare that they cost an eighth of a sleep for each wait.
//!
//! # A crowded CPU
//! A thread that finds a gap between two looks was not running meanwhile: somebody else wants this CPU, and may be the one
//! that is waited for. It stops looking, and the next waits do not look: a few at first, more each time it happens again.
//!
//! # An answer from this very CPU
//! Where whoever is waited for can only run on the waiter's own CPU, and now and then where looking was in vain or the CPU is
//! crowded, a wait gives the CPU away once instead of looking (`yielding.rs`). A wait looks or yields, never both.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use vshmem_mem::{Instant, is_confined, shortest_sleep, spin_hint, thread_cpu_time, ticks};

use crate::yielding::{Yielding, store_changed, yield_cpu};

/// What a sleep is taken to cost before any has been measured.
const FIRST_GUESS: u32 = 1 << 16;
/// A sleep never counts as less: the fastest switch from one thread to another takes longer.
const LEAST_COST: u32 = 1 << 11;
/// A sleep never counts as more; on a counter of at least 1 GHz this is half a millisecond.
const MOST_COST: u32 = 1 << 19;
/// The longest try.
const MOST_TRY: u32 = 1 << 20;
/// Who has looked in vain still looks for the time in which a peer answers that is looking itself.
const PROMPT: u32 = 1 << 13;
/// Tries that are so many waits apart have failed some times: there is no such peer.
const TRY_IN_VAIN: u32 = 256;
/// Tries on end, after one that has succeeded.
const STREAK: u32 = 8;
/// One wait in so many is a try, at first and at least.
const TRY_EVERY: u32 = 32;
/// Tries that fail come to be so many waits apart.
const TRY_SELDOM: u32 = 1024;
/// A thread that has not looked for so long, or for as long as a sleep costs, was not running: no look takes a tenth of that.
const GAP: u64 = 1 << 15;
/// Waits without looking after the first gap, and at most.
const REST: u32 = 4;
const LONG_REST: u32 = 64;
/// Sleeps of which the CPU time is measured: the first ones, then one in so many.
const SAMPLED_FIRST: u32 = 4;
const SAMPLED_EVERY: u32 = 64;
/// Ticks between two looks: about as long as a cache line takes to come and go. A look that comes sooner takes the line away from
/// whoever is about to write its answer there.
const PAUSE: u64 = 1 << 7;
/// Parts of a moving average that stay.
const INERTIA: u32 = 8;

/// Where whoever a waiter waits for can run meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answerer {
    /// On another CPU.
    OnAnotherCpu,
    /// On the waiter's own CPU only: not while it looks.
    OnThisCpu,
}

/// What a wait does before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Nothing.
    Sleep,
    /// It gives the CPU away, once.
    Yield,
    /// It looks, for so many ticks.
    Look { length: u64, is_try: bool },
}

/// Whether this thread may look before it sleeps, and for how long: private to a process.
#[derive(Debug)]
pub struct Spin {
    is_forbidden: bool,
    /// CPU time of a sleep, in ticks.
    sleep: AtomicU32,
    /// CPU time of waking somebody.
    wake: AtomicU32,
    /// How long a sleep lasts that is woken at once: the shortest of late.
    span: AtomicU32,
    /// Whether the last look was in vain.
    in_vain: AtomicU32,
    /// Waits until the next try.
    left: AtomicU32,
    /// Waits from one try to the next.
    apart: AtomicU32,
    /// Tries on end that have succeeded.
    streak: AtomicU32,
    /// Waits that sleep at once because the CPU is crowded.
    rest: AtomicU32,
    /// How many there are after the next gap.
    next_rest: AtomicU32,
    sleeps: AtomicU32,
    wakes: AtomicU32,
    /// The kernel counts CPU time too coarsely for a single sleep.
    is_coarse: AtomicBool,
    yielding: Yielding,
}

impl Spin {
    /// Nothing is known yet. `is_forbidden`: every waiter sleeps at once.
    #[must_use]
    pub fn new(is_forbidden: bool) -> Self {
        Self {
            is_forbidden,
            sleep: AtomicU32::new(FIRST_GUESS),
            wake: AtomicU32::new(0),
            span: AtomicU32::new(FIRST_GUESS),
            in_vain: AtomicU32::new(0),
            left: AtomicU32::new(TRY_EVERY),
            apart: AtomicU32::new(TRY_EVERY),
            streak: AtomicU32::new(0),
            rest: AtomicU32::new(0),
            next_rest: AtomicU32::new(REST),
            sleeps: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            is_coarse: AtomicBool::new(false),
            yielding: Yielding::new(),
        }
    }

    /// What a sleep costs here, in ticks of CPU time.
    #[must_use]
    pub fn cost(&self) -> u32 {
        let both = self.sleep.load(Relaxed).saturating_add(self.wake.load(Relaxed));
        both.clamp(LEAST_COST, MOST_COST)
    }

    /// Looks until `changed` says so or patience is over; says which it was.
    pub fn until(&self, answerer: Answerer, mut changed: impl FnMut() -> bool) -> bool {
        let mut look = self.begin(answerer);
        loop {
            if look.is_over() {
                return false;
            }
            if changed() {
                look.succeed();
                return true;
            }
        }
    }

    /// Begins a wait.
    pub fn begin(&self, answerer: Answerer) -> Look<'_, impl Fn() -> u64> {
        self.begin_at(answerer, ticks)
    }

    fn begin_at<T: Fn() -> u64>(&self, answerer: Answerer, now: T) -> Look<'_, T> {
        let began = now();
        Look { spin: self, began, last: began, plan: self.plan(answerer), turns: 0, now }
    }

    /// What the wait that begins now does before it sleeps.
    fn plan(&self, answerer: Answerer) -> Plan {
        if self.is_forbidden {
            return Plan::Sleep;
        }
        // sched_yield(2) may be one of the calls that the program has forbidden itself.
        let may_yield = !is_confined();
        if answerer == Answerer::OnAnotherCpu {
            if may_yield && self.yielding.is_better() {
                return Plan::Yield;
            }
            let rest = self.rest.load(Relaxed);
            if rest > 0 {
                self.rest.store(rest - 1, Relaxed);
            } else if self.in_vain.load(Relaxed) == 0 || !may_yield || !self.yielding.is_due() {
                let (length, is_try) = self.length();
                return Plan::Look { length, is_try };
            } else {
                return Plan::Yield;
            }
        }
        if may_yield && self.yielding.is_due() { Plan::Yield } else { Plan::Sleep }
    }

    /// How long a wait may look, and whether it is a try.
    fn length(&self) -> (u64, bool) {
        let cost = self.cost();
        if self.is_try(cost) {
            // A little longer, as no two wake-ups last the same.
            let span = self.span.load(Relaxed);
            return ((span + span / 4).clamp(cost, MOST_TRY).into(), true);
        }
        let length = if self.in_vain.load(Relaxed) == 0 {
            cost
        } else if self.apart.load(Relaxed) < TRY_IN_VAIN {
            (cost / 4).max(PROMPT).min(cost)
        } else {
            cost / 16
        };
        (length.into(), false)
    }

    /// Whether this wait is a try. Other threads may count the same wait: it is only now and then.
    fn is_try(&self, cost: u32) -> bool {
        let left = self.left.load(Relaxed).saturating_sub(1);
        self.left.store(left, Relaxed);
        if left > 0 {
            return false;
        }
        let apart = self.apart.load(Relaxed);
        // Those that went before this one without a pause count as well.
        let tries = self.streak.load(Relaxed) + 1;
        let affordable = tries * (self.span.load(Relaxed).min(MOST_TRY) / (cost / 8));
        self.left.store(apart.max(affordable), Relaxed);
        self.apart.store((apart * 2).min(TRY_SELDOM), Relaxed);
        true
    }

    /// To be called before a sleep, which its answer measures.
    pub fn measure_sleep(&self) -> SleepMeter<'_> {
        let began = ticks();
        let account = self.is_sampled(&self.sleeps).then(|| self.account()).flatten();
        SleepMeter { spin: self, began, account }
    }

    /// Wakes somebody, and now and then measures it.
    pub fn wake<T>(&self, wake: impl FnOnce() -> T) -> T {
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
        !self.is_forbidden
            && !is_confined()
            && !self.is_coarse.load(Relaxed)
            && (before < SAMPLED_FIRST || before.is_multiple_of(SAMPLED_EVERY))
    }

    /// Reads the clocks; `None` if that of CPU time stands still meanwhile, so that one sleep cannot be measured by it.
    fn account(&self) -> Option<Account> {
        self.account_by(thread_cpu_time)
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

    /// Takes note of a wait that somebody has ended, of so many ticks from the beginning of its first sleep to the end.
    fn note_span(&self, span: u64) {
        let span = u32::try_from(span).unwrap_or(u32::MAX).max(1);
        let known = self.span.load(Relaxed);
        // The shortest counts, and is forgotten slowly.
        self.span.store(span.min(known.saturating_add(known / 16)).min(MOST_TRY), Relaxed);
    }

    /// Takes note of the CPU time of a sleep.
    fn note_sleep(&self, cpu: u64) {
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
        let (cpu, clock, now) = (thread_cpu_time(), Instant::now(), ticks());
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
    spin: &'a Spin,
    began: u64,
    account: Option<Account>,
}

impl SleepMeter<'_> {
    /// To be called after the first sleep, however it has ended.
    pub fn slept_once(&mut self) {
        if let Some(cpu) = self.account.take().and_then(Account::spent) {
            self.spin.note_sleep(cpu);
        }
    }

    /// To be called when somebody has ended the wait.
    pub fn woken(self) {
        let span = ticks().wrapping_sub(self.began);
        // Shorter: it was not asleep yet.
        if span > LEAST_COST.into() {
            self.spin.note_span(span);
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

/// One wait that looks.
#[derive(Debug)]
pub struct Look<'a, T> {
    spin: &'a Spin,
    began: u64,
    last: u64,
    plan: Plan,
    turns: u32,
    now: T,
}

impl<T: Fn() -> u64> Look<'_, T> {
    /// To be called before each look: whether it is not worth another one.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        /// Looks from one reading of the counter to the next.
        const TURNS: u32 = 4;
        let Plan::Look { length, .. } = self.plan else { return !self.has_yielded() };
        if self.turns.is_multiple_of(TURNS) && self.is_late(length) {
            return true;
        }
        // None in tests, whose clock is made up.
        if cfg!(not(test)) {
            pause();
        }
        self.turns += 1;
        false
    }

    /// Gives the CPU away, the first time, if that is the plan.
    #[cold]
    fn has_yielded(&mut self) -> bool {
        if self.plan != Plan::Yield {
            return false;
        }
        if self.turns > 0 {
            self.spin.yielding.fail();
            return false;
        }
        yield_cpu();
        self.last = (self.now)();
        self.turns = 1;
        true
    }

    fn is_late(&mut self, length: u64) -> bool {
        let now = (self.now)();
        let gap = now.wrapping_sub(self.last);
        self.last = now;
        let spin = self.spin;
        if gap > GAP.max(spin.cost().into()) {
            let rest = spin.next_rest.load(Relaxed);
            spin.rest.store(rest, Relaxed);
            spin.next_rest.store((rest * 2).min(LONG_REST), Relaxed);
            return true;
        }
        if now.wrapping_sub(self.began) < length {
            return false;
        }
        spin.in_vain.store(1, Relaxed);
        true
    }

    /// To be called when a look has found what was waited for.
    #[inline]
    pub fn succeed(self) {
        let spin = self.spin;
        let took = self.last.wrapping_sub(self.began);
        let Plan::Look { is_try, .. } = self.plan else { return spin.yielding.succeed(took) };
        spin.yielding.look_has_succeeded();
        store_changed(&spin.next_rest, REST);
        // What takes longer than a sleep costs is found by tries alone.
        if !is_try || took < spin.cost().into() {
            store_changed(&spin.in_vain, 0);
            store_changed(&spin.streak, 0);
            store_changed(&spin.apart, TRY_EVERY);
            return;
        }
        spin.apart.store(TRY_EVERY, Relaxed);
        let streak = spin.streak.load(Relaxed) + 1;
        spin.streak.store(streak % STREAK, Relaxed);
        if streak < STREAK {
            spin.left.store(1, Relaxed);
        }
    }
}

/// Lets some time go by, about as much as a cache line takes: a look that comes sooner takes the line away from whoever is
/// about to write its answer there. A processor's own pause takes between 1 and 140 ticks, so they are counted.
#[inline]
fn pause() {
    /// For a counter that stands still.
    const MOST: u32 = 32;
    let began = ticks();
    for _ in 0..MOST {
        spin_hint();
        if ticks().wrapping_sub(began) >= PAUSE {
            return;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A clock that goes on by `step` at each reading.
    fn clock(at: &Cell<u64>, step: u64) -> impl Fn() -> u64 + '_ {
        move || {
            at.set(at.get() + step);
            at.get()
        }
    }

    /// Waits for an answer after so many ticks. Returns the ticks that were spent looking, and whether it was seen.
    fn wait(spin: &Spin, answer: u64) -> (u64, bool) {
        let at = Cell::new(0);
        let mut look = spin.begin_at(Answerer::OnAnotherCpu, clock(&at, 200));
        let began = at.get();
        loop {
            if look.is_over() {
                return (at.get() - began, false);
            }
            if at.get() - began >= answer {
                look.succeed();
                return (at.get() - began, true);
            }
        }
    }

    fn spin_of_cost(cost: u64, span: u64) -> Spin {
        let spin = Spin::new(false);
        for _ in 0..100 {
            spin.note_sleep(cost);
            spin.note_span(span);
        }
        spin
    }

    #[test]
    fn who_may_not_look_does_not() {
        let spin = Spin::new(true);
        let mut looks = 0;
        for _ in 0..10 {
            assert!(!spin.until(Answerer::OnAnotherCpu, || {
                looks += 1;
                true
            }));
        }
        assert_eq!(looks, 0);
        assert!(Spin::new(false).until(Answerer::OnAnotherCpu, || true));
    }

    #[test]
    fn looks_as_long_as_a_sleep_costs_and_less_after_it_was_in_vain() {
        let spin = spin_of_cost(40_000, 40_000);
        let (first, seen) = wait(&spin, u64::MAX);
        assert!(!seen && (39_000..41_000).contains(&first), "{first}");
        let (second, _) = wait(&spin, u64::MAX);
        assert!((9000..11_000).contains(&second), "{second}");
        assert!(wait(&spin, 5000).1);
        let (third, _) = wait(&spin, u64::MAX);
        assert!((39_000..41_000).contains(&third), "a success gives the whole time back: {third}");
    }

    /// The bound: what is spent on many waits, looking and sleeping, over what the better choice costs each time.
    fn spent_over_best(cost: u64, span: u64, answers: impl Fn(u64) -> u64) -> f64 {
        let spin = spin_of_cost(cost, span);
        let (mut spent, mut best) = (0, 0);
        for nth in 0..2500 {
            let answer = answers(nth);
            let (looked, seen) = wait(&spin, answer);
            spent += looked + if seen { 0 } else { cost };
            best += answer.min(cost);
        }
        spent as f64 / best as f64
    }

    #[test]
    fn at_most_twice_the_better_choice() {
        for (cost, span) in
            [(10_000, 10_000), (10_000, 200_000), (60_000, 80_000), (300_000, 900_000)]
        {
            for part in [10, 50, 90, 110, 150, 200, 400, 1000, 100_000] {
                let ratio = spent_over_best(cost, span, |_| cost * part / 100);
                assert!(ratio <= 2.0, "{cost} {span}, answered after {part} %: {ratio}");
            }
            // The worst that an adversary can do: an answer just after each time that a look was allowed to take.
            let ratio =
                spent_over_best(cost, span, |nth| if nth % 2 == 0 { 1000 } else { u64::MAX });
            assert!(ratio <= 2.2, "{cost} {span}, by turns: {ratio}");
        }
    }

    #[test]
    fn hardly_more_than_sleeping_at_once_whoever_answers_when() {
        for (cost, span, most) in [
            (10_000_u64, 20_000, 2.1),
            (40_000, 40_000, 1.4),
            (60_000, 80_000, 1.4),
            (300_000, 900_000, 1.4),
        ] {
            // What an adversary who knows the rule chooses among: just before and just after each time that a look may take.
            let answers =
                [1, 6, 7, 24, 26, 99, 101, 150, 400, 100_000].map(|part| cost * part / 100);
            let mut draw = 1_u64;
            for kinds in [2, 3, 5, 10] {
                let spin = spin_of_cost(cost, span);
                let waits = 5000;
                let mut spent = 0;
                for _ in 0..waits {
                    draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let nth = (draw >> 33) as usize;
                    let answer = answers[(nth % kinds * 7 + kinds) % answers.len()];
                    let (looked, seen) = wait(&spin, answer);
                    spent += looked + if seen { 0 } else { cost };
                }
                let ratio = spent as f64 / (waits * cost) as f64;
                assert!(ratio <= most, "{cost} {span}, {kinds} kinds of answers: {ratio}");
            }
        }
    }

    #[test]
    fn two_that_sleep_find_each_other_again() {
        const PROMPTLY: u64 = 3000;
        for (cost, wake_up, before) in [
            (60_000, 80_000, 5),
            (60_000, 80_000, 5000),
            (10_000, 100_000, 5),
            (10_000, 100_000, 5000),
        ] {
            let both = [(); 2].map(|()| spin_of_cost(cost, wake_up + PROMPTLY));
            for _ in 0..before {
                both.iter().for_each(|spin| _ = wait(spin, u64::MAX));
            }
            // They take turns; who is asleep takes a wake-up to answer.
            let (mut asleep, mut prompt) = (true, 0);
            let waits = (0..1_000_000).take_while(|turn| {
                let answer = PROMPTLY + if asleep { wake_up } else { 0 };
                asleep = !wait(&both[turn % 2], answer).1;
                prompt = if asleep { 0 } else { prompt + 1 };
                prompt < 50
            });
            let waits = waits.count();
            assert!(waits < 20_000, "{cost} {wake_up} {before}: {waits} waits");
        }
    }

    #[test]
    fn who_is_never_answered_while_it_looks_hardly_looks() {
        let spin = spin_of_cost(10_000, 12_000);
        (0..1000).for_each(|_| _ = wait(&spin, u64::MAX));
        let spent: u64 = (0..10_000).map(|_| wait(&spin, u64::MAX).0).sum();
        assert!(spent / 10_000 <= 10_000 / 8, "{}", spent / 10_000);
    }

    /// Waits for somebody on the same CPU. Returns the looks, and whether the answer was there.
    fn wait_here(spin: &Spin, answerer: Answerer, is_answered: bool) -> (u32, bool) {
        let at = Cell::new(0);
        let mut look = spin.begin_at(answerer, clock(&at, 200));
        let yields = look.plan == Plan::Yield;
        let mut looks = 0;
        while !look.is_over() {
            looks += 1;
            if yields && is_answered {
                look.succeed();
                return (looks, true);
            }
        }
        (looks, false)
    }

    #[test]
    fn a_waiter_alone_on_its_cpu_yields_once_and_never_looks() {
        let spin = spin_of_cost(10_000, 12_000);
        let waits = [(); 100].map(|()| wait_here(&spin, Answerer::OnThisCpu, false).0);
        assert!(waits.iter().all(|looks| *looks <= 1));
        let yields = waits.iter().sum::<u32>();
        assert!((1..10).contains(&yields), "{yields} yields in vain");
        let spin = spin_of_cost(10_000, 12_000);
        let answered = (0..100).filter(|_| wait_here(&spin, Answerer::OnThisCpu, true).1).count();
        assert!(answered > 90, "{answered}");
    }

    #[test]
    fn who_looks_in_vain_finds_out_that_yielding_helps() {
        let spin = spin_of_cost(10_000, 12_000);
        let count = || {
            let waits = (0..1000).map(|_| wait_here(&spin, Answerer::OnAnotherCpu, true));
            waits.filter(|(_, answered)| *answered).count()
        };
        count();
        let answered = count();
        assert!(answered > 980, "{answered}");
        // And that looking does, once it does.
        let looked = (0..1100).map(|_| wait(&spin, 500)).skip(1090).all(|(spent, _)| spent >= 500);
        assert!(looked);
        assert!(!spin.yielding.is_better());
    }

    #[test]
    fn a_thread_that_was_not_running_stops_looking_for_some_waits() {
        let spin = spin_of_cost(400_000, 400_000);
        let at = Cell::new(0);
        let gap = |spin: &Spin| {
            let mut look = spin.begin_at(Answerer::OnAnotherCpu, clock(&at, 400_001));
            assert!(look.is_over());
        };
        gap(&spin);
        for _ in 0..REST {
            assert_eq!(wait(&spin, 200), (0, false), "it sleeps at once");
        }
        gap(&spin);
        let rests = (0..100).take_while(|_| !wait(&spin, 400).1).count();
        assert_eq!(rests as u32, 2 * REST, "longer when it happens again");
    }

    #[test]
    fn where_cpu_time_is_counted_too_coarsely_a_sleep_counts_as_what_one_takes() {
        let spin = Spin::new(false);
        assert!(spin.account_by(|| Duration::from_millis(10)).is_none());
        assert!(spin.cost() > LEAST_COST, "{}", spin.cost());
        assert!(!spin.is_sampled(&spin.sleeps), "it is not measured again");
    }

    #[test]
    fn costs_are_learned_and_bounded() {
        let spin = Spin::new(false);
        assert_eq!(spin.cost(), FIRST_GUESS);
        assert!(spin.is_sampled(&spin.sleeps));
        spin.note_sleep(5000);
        assert_eq!(spin.cost(), 5000, "the first measurement replaces the guess");
        average(&spin.wake, 20_000, true);
        assert_eq!(spin.cost(), 25_000, "waking counts as well");
        for _ in 0..100 {
            spin.note_sleep(u64::MAX);
        }
        assert_eq!(spin.cost(), MOST_COST);
        for _ in 0..1000 {
            spin.note_sleep(1);
            average(&spin.wake, 1, false);
        }
        assert_eq!(spin.cost(), LEAST_COST);
    }
}
