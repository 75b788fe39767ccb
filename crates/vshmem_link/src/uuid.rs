//! A pool's UUID as names of files have it.

/// Its 32 hexadecimal digits.
#[must_use]
pub fn uuid_digits(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}
