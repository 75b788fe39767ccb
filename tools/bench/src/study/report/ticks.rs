//! Round numbers for axes: 1, 2 and 5 times a power of ten, powers of two for sizes in bytes.

/// Between both ends, at most `most` of them.
pub fn logarithmic(low: f64, high: f64, most: usize) -> Vec<f64> {
    // More of them only where there would be one or none.
    for steps in [&[1.0, 2.0, 5.0][..], &[1.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]] {
        let found = of_steps(low, high, steps);
        if found.len() <= most && found.len() >= 2 {
            return found;
        }
    }
    thinned(of_steps(low, high, &[1.0]), most, low, high)
}

/// Powers of two between both ends, at most `most` of them: each, each second, fourth ...
pub fn by_twos(low: f64, high: f64, most: usize) -> Vec<f64> {
    let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
    let all = (last - first + 1).max(0) as usize;
    let apart = [1, 2, 3, 4, 5, 10].into_iter().find(|apart| all.div_ceil(*apart) <= most);
    let apart = apart.unwrap_or(20);
    (first..=last).step_by(apart).map(exp2).collect()
}

/// From zero, at most `most` of them.
pub fn linear(high: f64, most: usize) -> Vec<f64> {
    let rough = high / most.max(1) as f64;
    let power = 10.0_f64.powi(rough.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter();
    let step = step.clone().find(|step| high / step <= most as f64).unwrap_or(10.0 * power);
    (0..).map(|nth| f64::from(nth) * step).take_while(|tick| *tick <= high * 1.0001).collect()
}

fn exp2(power: i32) -> f64 {
    f64::from(power).exp2()
}

fn of_steps(low: f64, high: f64, steps: &[f64]) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = decades.flat_map(|decade| steps.iter().map(move |step| decimal(*step, decade)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

/// As it is written: 3e-7, and not what a product of two numbers comes to.
fn decimal(step: f64, decade: i32) -> f64 {
    format!("{step}e{decade}").parse().unwrap_or(step)
}

/// Where there are too many decades each second, third ... is left; where none is in, both ends.
fn thinned(decades: Vec<f64>, most: usize, low: f64, high: f64) -> Vec<f64> {
    if decades.is_empty() {
        return vec![low, high];
    }
    let apart = decades.len().div_ceil(most.max(1));
    decades.into_iter().step_by(apart.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(logarithmic(0.8, 60.0, 8), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(logarithmic(90.0, 2e6, 8), [100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(logarithmic(0.55, 1.9, 8), [0.7, 1.0, 1.5]);
        assert_eq!(logarithmic(1.0, 1e12, 5).len(), 5);
        assert_eq!(logarithmic(3.1, 3.2, 5), [3.1, 3.2], "nothing round between them");
        assert_eq!(linear(9300.0, 6), [0.0, 2000.0, 4000.0, 6000.0, 8000.0]);
        assert_eq!(linear(4.0, 5), [0.0, 1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(by_twos(6.0, 100_000.0, 9), [8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0, 32768.0]);
        assert_eq!(by_twos(7.0, 70.0, 9), [8.0, 16.0, 32.0, 64.0]);
    }
}
