//! What a pool can be called.

/// Whether a pool can have that name.
pub fn valid_name(name: &str) -> bool {
    (1..=48).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
}
