//! Sizes as people write them: `64M`, `1G`, `1073741824`.

/// Reads a size. `K`, `KiB` and their kin count by 1024, `KB` and its kin by 1000.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not a size: write a number with K, M, G or T behind it, as in 64M or 1.5G"
        )
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.to_ascii_uppercase();
    let (prefix, base) = match unit.strip_suffix("IB") {
        Some(prefix) if !prefix.is_empty() => (prefix, 1024),
        Some(_) => return Err(wrong()),
        None => match unit.strip_suffix('B') {
            Some(prefix) => (prefix, 1000),
            None => (unit.as_str(), 1024),
        },
    };
    let power = match prefix {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return Err(wrong()),
    };
    let factor = u128::pow(base, power);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.parse::<u128>().map_err(|_| wrong());
    let mut bytes = digits(whole)?.checked_mul(factor).ok_or_else(wrong)?;
    if number.contains('.') {
        let parts = 10u128.checked_pow(part.len() as u32).ok_or_else(wrong)?;
        bytes += digits(part)?.checked_mul(factor).ok_or_else(wrong)? / parts;
    }
    match u64::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(wrong()),
    }
}

/// Shows a size in the largest unit that leaves it readable.
pub fn show(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let mut unit = 0;
    while unit + 1 < UNITS.len() && bytes >> (10 * (unit + 1)) > 0 {
        unit += 1;
    }
    let divisor = 1u64 << (10 * unit);
    if bytes.is_multiple_of(divisor) {
        format!("{}{}", bytes / divisor, UNITS[unit])
    } else {
        format!("{:.1}{}", bytes as f64 / divisor as f64, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse("1G"), Ok(1 << 30));
        assert_eq!(parse("64m"), Ok(64 << 20));
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("2MiB"), Ok(2 << 20));
        assert_eq!(parse("1GB"), Ok(1_000_000_000));
        assert_eq!(parse("100B"), Ok(100));
        assert_eq!(parse("1.5G"), Ok(3 << 29));
        assert_eq!(parse("0.25k"), Ok(256));
        for wrong in ["", "G", "0", "1X", "-1", "1.", ".5G", "1.2.3G", "1iB", "99999999999T", "0.1"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for bytes in [4096, 3 << 29, 1 << 30, 5 << 40, 777] {
            assert_eq!(parse(&show(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn sizes_are_shown() {
        assert_eq!(show(0), "0B");
        assert_eq!(show(4096), "4K");
        assert_eq!(show(3 << 29), "1.5G");
    }
}
