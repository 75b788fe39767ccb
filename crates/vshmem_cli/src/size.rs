//! Sizes as people write them: `64M`, `1G`, `1073741824`.

/// Reads a size.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is not a size: write a number with K, M, G or T behind it, as in 64M");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if bytes == 0 { Err(wrong()) } else { Ok(bytes) }
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
        for wrong in ["", "G", "0", "1X", "-1", "1.5G", "99999999999T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        assert_eq!(show(0), "0B");
        assert_eq!(show(4096), "4K");
        assert_eq!(show(3 << 29), "1.5G");
    }
}
