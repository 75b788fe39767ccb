//! The hashes of names and addresses that processes of several domains compute each for themselves
//! and must find equal: keys, names of objects, and digests of addresses. And one with a secret
//! key.

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

/// SipHash-2-4 of words, with a key that must not be known to those who are to be kept from making
/// such a hash: 64 bits, as its authors (Aumasson and Bernstein) define it for the words' bytes,
/// least significant first.
#[must_use]
pub const fn siphash_2_4(key: [u64; 2], words: &[u64]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut nth = 0;
    while nth <= words.len() {
        // Behind the last word comes one that has the number of bytes in its highest byte.
        let last = ((words.len() * 8) as u64) << 56;
        let word = if nth < words.len() { words[nth] } else { last };
        state[3] ^= word;
        state = sip_rounds(state, 2);
        state[0] ^= word;
        nth += 1;
    }
    state[2] ^= 0xff;
    state = sip_rounds(state, 4);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

const fn sip_rounds([mut a, mut b, mut c, mut d]: [u64; 4], rounds: u32) -> [u64; 4] {
    let mut done = 0;
    while done < rounds {
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        done += 1;
    }
    [a, b, c, d]
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

    /// Of the test vectors of its reference implementation: the bytes of key and message count up
    /// from 0.
    #[test]
    fn keyed_hashes_are_those_of_siphash_2_4() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash_2_4(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash_2_4(key, &key[..1]), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash_2_4(key, &key), 0x3f2a_cc7f_57c2_9bdb);
    }
}
