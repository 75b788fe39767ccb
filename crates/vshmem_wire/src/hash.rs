//! The 32-bit hash of names and addresses that processes of several domains compute each for
//! themselves and must find equal: keys, and digests of addresses.

/// FNV-1a.
#[must_use]
pub const fn fnv1a_32(bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let mut nth = 0;
    while nth < bytes.len() {
        hash = (hash ^ bytes[nth] as u32).wrapping_mul(0x0100_0193);
        nth += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the list of test vectors that its authors published.
    #[test]
    fn hashes_are_those_of_fnv_1a() {
        assert_eq!(fnv1a_32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
    }
}
