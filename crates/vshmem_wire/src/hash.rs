//! The hashes of names and addresses that processes of several domains compute each for themselves
//! and must find equal: keys, names of objects, and digests of addresses.

/// FNV-1a, 32 bits.
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

/// FNV-1a, 64 bits.
#[must_use]
pub const fn fnv1a_64(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut nth = 0;
    while nth < bytes.len() {
        hash = (hash ^ bytes[nth] as u64).wrapping_mul(0x0000_0100_0000_01b3);
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
        assert_eq!(fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
