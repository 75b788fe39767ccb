//! Figures as people read them: three digits and a unit.

use crate::statistics::Spread;

/// A time, given in nanoseconds.
#[must_use]
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// A time given in nanoseconds, in microseconds and without the unit.
#[must_use]
pub fn microseconds(ns: f64) -> String {
    match ns / 1e3 {
        us if us < 10.0 => format!("{us:.3}"),
        us => format!("{us:.0}"),
    }
}

/// A ratio.
#[must_use]
pub fn factor(ratio: f64) -> String {
    // Near 1 the second place after the point is what matters.
    if ratio < 10.0 { format!("{ratio:.2}x") } else { format!("{}x", digits(ratio)) }
}

/// A median with the smallest and the largest behind it: `480 ns (478..530 ns)`.
#[must_use]
pub fn spread(spread: &Spread, show: impl Fn(f64) -> String) -> String {
    format!("{} ({} .. {})", show(spread.median), show(spread.min), show(spread.max))
}

/// A payload: `8 B`, `1 KiB`.
#[must_use]
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut unit = 0;
    while unit + 1 < UNITS.len() && size != 0 && size.is_multiple_of(1 << (10 * (unit + 1))) {
        unit += 1;
    }
    format!("{} {}", size >> (10 * unit), UNITS[unit])
}

fn digits(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown() {
        let shown: Vec<String> = [0.5, 480.4, 1679.7, 132_040.0, 5.2e6, 2e9].map(duration).to_vec();
        assert_eq!(shown, ["0.50 ns", "480 ns", "1.68 us", "132 us", "5.20 ms", "2.00 s"]);
        assert_eq!([0.998, 1.0312, 42.6, 287.4].map(factor), ["1.00x", "1.03x", "42.6x", "287x"]);
        assert_eq!(
            [0, 8, 1024, 1500, 65536, 1 << 20].map(bytes),
            ["0 B", "8 B", "1 KiB", "1500 B", "64 KiB", "1 MiB"]
        );
        let wide = Spread {
            median: 480.0,
            lower_quartile: 400.0,
            upper_quartile: 500.0,
            min: 110.0,
            max: 1500.0,
        };
        assert_eq!(spread(&wide, duration), "480 ns (110 ns .. 1.50 us)");
    }
}
