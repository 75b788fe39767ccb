//! UUIDs, which identify pools, and the domains that a plan made.

use std::fs;

use crate::failure::{Failure, failed};

const RANDOM: &str = "/proc/sys/kernel/random/uuid";

/// A new one.
pub fn random() -> Result<[u8; 16], Failure> {
    let text = fs::read_to_string(RANDOM)
        .or_else(|error| failed(format!("{RANDOM}: cannot read it: {error}")))?;
    match parse(text.trim()) {
        Some(uuid) => Ok(uuid),
        None => failed(format!("{RANDOM}: {text:?} is no UUID")),
    }
}

/// Reads one: 32 hexadecimal digits, with hyphens anywhere, as libvirt takes them.
pub fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let is_plain = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(&digits, 16).ok()?;
    is_plain.then(|| number.to_be_bytes())
}

/// As libvirt writes it.
pub fn shown(uuid: &[u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(*uuid));
    let ends = [8, 12, 16, 20, 32];
    let parts =
        ends.iter().scan(0, |start, end| Some(&digits[std::mem::replace(start, *end)..*end]));
    parts.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_write_one_is_shown_as_libvirt_shows_it() {
        let usual = "6695eb01-f6a4-8304-79aa-97f2502e193f";
        let uuid = parse(&usual.to_uppercase().replace('-', "")).unwrap();
        assert_eq!(shown(&uuid), usual);
        assert_eq!(parse(usual), Some(uuid));
        assert_eq!(parse("6695eb01"), None);
        assert_eq!(parse(&format!("+{}", &"0".repeat(31))), None);
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
