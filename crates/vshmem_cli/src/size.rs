//! Sizes as people write them: `64M`, `1G`, `1073741824`.

/// Reads a size. `K`, `KiB` and their kin count by 1024, `KB` and its kin by 1000.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = |why: &str| Err(format!("{text:?} is not a size: {why}"));
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return wrong("it is negative");
    }
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let Some(factor) = factor(unit.trim_start()) else {
        return wrong(
            "write a number with K, M, G or T behind it (of 1024 each, KB, MB, GB and TB of 1000), as in 64M or 1.5G",
        );
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return wrong("it has to begin with a number, as in 64M or 1.5G");
    }
    match bytes(whole, part, factor) {
        None => wrong("it is more than there can be"),
        Some(0) => wrong("it is less than one byte"),
        Some(bytes) => Ok(bytes),
    }
}

/// What a unit stands for, in any case of its letters; bytes without one.
fn factor(unit: &str) -> Option<u128> {
    let unit = unit.to_ascii_uppercase();
    let (prefix, base) = match unit.strip_suffix("IB") {
        Some("") => return None,
        Some(prefix) => (prefix, 1024),
        None => match unit.strip_suffix('B') {
            Some(prefix) => (prefix, 1000),
            None => (unit.as_str(), 1024),
        },
    };
    let power = ["", "K", "M", "G", "T"].iter().position(|known| *known == prefix)?;
    Some(u128::pow(base, power as u32))
}

fn bytes(whole: &str, part: &str, factor: u128) -> Option<u64> {
    let whole = whole.parse::<u128>().ok()?.checked_mul(factor)?;
    let part_of = 10u128.checked_pow(part.len() as u32)?;
    let part = part.parse::<u128>().ok()?.checked_mul(factor)? / part_of;
    u64::try_from(whole.checked_add(part)?).ok()
}

/// Shows a size in the largest unit that leaves it readable: one of 1000s where it was asked for
/// so, and rounded up to a page since.
pub fn show(bytes: u64) -> String {
    const PAGE: u64 = 4096;
    let tens = [("TB", 12), ("GB", 9), ("MB", 6)].map(|(unit, power)| (unit, 10u64.pow(power)));
    let whole = tens.iter().find(|(_, size)| bytes >= *size && bytes % size < PAGE);
    if let Some((unit, size)) = whole
        && !bytes.is_multiple_of(1 << 20)
    {
        return format!("{}{unit}", bytes / size);
    }
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
        assert_eq!(parse("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse("1.5GB"), Ok(1_500_000_000));
        for wrong in ["", "G", "0", "1X", "-1", "1.", ".5G", "1.2.3G", "1iB", "99999999999T", "0.1"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_says_why() {
        for (text, why) in [
            ("-5", "negative"),
            ("0", "less than one byte"),
            ("99999999999T", "more than there can be"),
            ("1X", "K, M, G or T"),
            ("lots", "K, M, G or T"),
            ("1.", "begin with a number"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why), "{said}");
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
        assert_eq!(show(1_000_000_000), "1GB");
        assert_eq!(show(1_000_001_536), "1GB", "in whole pages");
        assert_eq!(show(250_003_456), "250MB");
        assert_eq!(show(1_000_100_000), "953.8M");
    }
}
