use super::*;
use std::cell::Cell;

/// A clock that goes on by `step` at each reading.
fn clock(at: &Cell<u64>, step: u64) -> impl Fn() -> u64 + '_ {
    move || {
        at.set(at.get() + step);
        at.get()
    }
}

/// Waits for an answer after so many ticks. Returns the ticks that were spent spinning, and whether
/// it was seen.
fn wait(spin: &Spin, answer: u64) -> (u64, bool) {
    let at = Cell::new(0);
    let mut look = spin.begin_at(WakerCpu::OnAnotherCpu, Polled::Word, clock(&at, 200));
    let began = at.get();
    loop {
        if look.pause_or_end() {
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
        spin.sleeping.note_sleep(cost);
        spin.sleeping.note_span(span);
    }
    spin
}

#[test]
fn who_may_not_look_does_not() {
    let spin = Spin::new(true);
    let mut looks = 0;
    for _ in 0..10 {
        assert!(!spin.until(WakerCpu::OnAnotherCpu, || {
            looks += 1;
            true
        }));
    }
    assert_eq!(looks, 0);
    assert!(Spin::new(false).until(WakerCpu::OnAnotherCpu, || true));
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

/// The bound: what is spent on many waits, spinning and sleeping, over what the better choice costs
/// each time.
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
    for (cost, span) in [(10_000, 10_000), (10_000, 200_000), (60_000, 80_000), (300_000, 900_000)]
    {
        for part in [10, 50, 90, 110, 150, 200, 400, 1000, 100_000] {
            let ratio = spent_over_best(cost, span, |_| cost * part / 100);
            assert!(ratio <= 2.0, "{cost} {span}, answered after {part} %: {ratio}");
        }
        // The worst that an adversary can do: an answer just after each time that a poll was
        // allowed to take.
        let ratio = spent_over_best(cost, span, |nth| if nth % 2 == 0 { 1000 } else { u64::MAX });
        assert!(ratio <= 2.2, "{cost} {span}, by turns: {ratio}");
    }
}

#[test]
fn hardly_more_than_sleeping_at_once_for_any_answers() {
    for (cost, span, most) in [
        (10_000_u64, 20_000, 2.1),
        (40_000, 40_000, 1.4),
        (60_000, 80_000, 1.4),
        (300_000, 900_000, 1.4),
    ] {
        // What an adversary who knows the rule chooses among: just before and just after each time
        // that a poll may take.
        let answers = [1, 6, 7, 24, 26, 99, 101, 150, 400, 100_000].map(|part| cost * part / 100);
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
    for (cost, wake_up, before) in
        [(60_000, 80_000, 5), (60_000, 80_000, 5000), (10_000, 100_000, 5), (10_000, 100_000, 5000)]
    {
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
fn a_thread_that_is_never_answered_while_it_spins_hardly_spins() {
    let spin = spin_of_cost(10_000, 12_000);
    (0..1000).for_each(|_| _ = wait(&spin, u64::MAX));
    let spent: u64 = (0..10_000).map(|_| wait(&spin, u64::MAX).0).sum();
    assert!(spent / 10_000 <= 10_000 / 8, "{}", spent / 10_000);
}

/// Waits for another thread on the same CPU. Returns the polls, and whether the answer was there.
fn wait_here(spin: &Spin, waker_cpu: WakerCpu, is_answered: bool) -> (u32, bool) {
    wait_by(spin, waker_cpu, is_answered, 200)
}

/// The same, where a yield takes so long.
fn wait_by(spin: &Spin, waker_cpu: WakerCpu, is_answered: bool, takes: u64) -> (u32, bool) {
    let at = Cell::new(0);
    let mut look = spin.begin_at(waker_cpu, Polled::Word, clock(&at, takes));
    let yields = matches!(look.plan, Plan::Yield(_));
    let mut looks = 0;
    while !look.pause_or_end() {
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
    let waits = [(); 100].map(|()| wait_here(&spin, WakerCpu::OnThisCpu, false).0);
    assert!(waits.iter().all(|looks| *looks <= 1));
    let yields = waits.iter().sum::<u32>();
    assert!((1..10).contains(&yields), "{yields} yields without success");
    let spin = spin_of_cost(10_000, 12_000);
    let answered = (0..100).filter(|_| wait_here(&spin, WakerCpu::OnThisCpu, true).1).count();
    assert!(answered > 90, "{answered}");
}

#[test]
fn a_waiter_for_more_threads_than_cpus_yields_until_that_takes_long() {
    let spin = spin_of_cost(10_000, 12_000);
    let yields = |takes| {
        let waits = (0..100).map(|_| wait_by(&spin, WakerCpu::OnEveryCpu, false, takes).0);
        waits.sum::<u32>()
    };
    let at_once = yields(200);
    assert!(at_once > 90, "{at_once} of 100 yields, none of which was answered");
    let late = yields(1 << 20);
    assert!((1..10).contains(&late), "{late} yields behind a program that computes");
}

#[test]
fn a_thread_that_spins_without_success_finds_out_that_yielding_helps() {
    let spin = spin_of_cost(10_000, 12_000);
    let count = || {
        let waits = (0..1000).map(|_| wait_here(&spin, WakerCpu::OnAnotherCpu, true));
        waits.filter(|(_, answered)| *answered).count()
    };
    count();
    let answered = count();
    assert!(answered > 980, "{answered}");
    // And that spinning does, once it does.
    let looked = (0..1100).map(|_| wait(&spin, 500)).skip(1090).all(|(spent, _)| spent >= 500);
    assert!(looked);
    assert!(!spin.yielding.is_better());
}

#[test]
fn a_thread_that_was_not_running_stops_looking_for_some_waits() {
    let spin = spin_of_cost(400_000, 400_000);
    let at = Cell::new(0);
    let gap = |spin: &Spin| {
        let mut look = spin.begin_at(WakerCpu::OnAnotherCpu, Polled::Word, clock(&at, 400_001));
        assert!(look.pause_or_end());
    };
    gap(&spin);
    for _ in 0..FIRST_REST {
        assert_eq!(wait(&spin, 200), (0, false), "it sleeps at once");
    }
    gap(&spin);
    let rests = (0..100).take_while(|_| !wait(&spin, 400).1).count();
    assert_eq!(rests as u32, 2 * FIRST_REST, "longer when it happens again");
}
