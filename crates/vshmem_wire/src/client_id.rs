//! Ids of clients: what owns something in a pool carries one.

/// The id of one client. No other client has it, before or after.
///
/// A client slot counts how often it has been taken; slot and count are the id. 43 bits of count
/// do not come back: at a thousand processes a second in one slot they last for 278 years. So
/// any thread may release what still carries the id of a client that has ended, however late, and
/// never releases what belongs to a later client.
///
/// A process that is only just joining has no slot yet. Its id holds 41 bits of a digest of its
/// domain's identity, and its pid there. If it dies now, its domain's agent finds by this what it
/// held, and releases it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(u64);

impl ClientId {
    /// Bits that tell the slot.
    const SLOT_BITS: u32 = 20;
    /// Bits that tell how often it has been taken.
    const COUNT_BITS: u32 = 43;
    /// Set in the id of a process that is only just joining.
    const JOINING: u64 = 1 << 63;
    /// Bits of a pid (PID_MAX_LIMIT is 2^22).
    const PID_BITS: u32 = 22;
    /// Bits of the digest of a domain.
    const DIGEST_BITS: u32 = 41;

    /// The `count`th client in a slot; the first is 1.
    #[inline]
    #[must_use]
    pub const fn new(slot: u32, count: u64) -> Self {
        let count = count & ((1 << Self::COUNT_BITS) - 1);
        Self((slot as u64 & ((1 << Self::SLOT_BITS) - 1)) | count << Self::SLOT_BITS)
    }

    /// A process of a domain that is only just joining.
    #[inline]
    #[must_use]
    pub const fn joining(digest: u64, pid: u32) -> Self {
        let digest = digest & ((1 << Self::DIGEST_BITS) - 1);
        Self(Self::JOINING | digest << Self::PID_BITS | (pid as u64 & ((1 << Self::PID_BITS) - 1)))
    }

    /// Takes the word of an owner cell apart; `None` when it is not the id of a client.
    #[inline]
    #[must_use]
    pub const fn of(word: u64) -> Option<Self> {
        if word >> Self::SLOT_BITS == 0 { None } else { Some(Self(word)) }
    }

    /// The word that owner cells carry: never below 2^20.
    #[inline]
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Its slot; `None` while it is only just joining.
    #[inline]
    #[must_use]
    pub const fn slot(self) -> Option<u32> {
        if self.is_joining() { None } else { Some((self.0 & ((1 << Self::SLOT_BITS) - 1)) as u32) }
    }

    /// How often its slot had been taken when it took it.
    #[inline]
    #[must_use]
    pub const fn count(self) -> u64 {
        (self.0 & !Self::JOINING) >> Self::SLOT_BITS
    }

    /// 32 bits of it: the slot, and the low bits of how often it had been taken. To be shown; it
    /// comes back after 4,096 clients of one slot, so nothing is decided by it.
    #[inline]
    #[must_use]
    pub const fn short(self) -> u32 {
        self.0 as u32
    }

    /// Whether it is that of a process that is only just joining.
    #[inline]
    #[must_use]
    pub const fn is_joining(self) -> bool {
        self.0 & Self::JOINING != 0
    }

    /// Digest of the domain and pid of a process that is only just joining.
    #[inline]
    #[must_use]
    pub const fn joiner(self) -> Option<(u64, u32)> {
        if !self.is_joining() {
            return None;
        }
        let digest = (self.0 & !Self::JOINING) >> Self::PID_BITS;
        Some((digest, (self.0 & ((1 << Self::PID_BITS) - 1)) as u32))
    }
}

/// Digest of the identity of a domain, of as many bits as the names of joining processes have room
/// for.
#[must_use]
pub const fn domain_digest(boot_id: [u32; 4], pid_namespace: u32) -> u64 {
    // SplitMix64's mixing, word by word: each step is a permutation, so no word is lost before the
    // end.
    const fn mix(mut x: u64) -> u64 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    let mut all = mix(pid_namespace as u64 ^ 0x9e37_79b9_7f4a_7c15);
    all = mix(all ^ (boot_id[0] as u64 | (boot_id[1] as u64) << 32));
    all = mix(all ^ (boot_id[2] as u64 | (boot_id[3] as u64) << 32));
    all >> (64 - ClientId::DIGEST_BITS)
}

/// Head of a list of what a client holds: the record that it claimed last, plus one, and how often
/// the client's slot has been taken, so that a client whose slot has changed hands adds nothing to
/// its successor's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientListHead {
    /// The record, plus one; 0: none.
    pub first: u32,
    /// The low bits of [`ClientId::count`].
    pub count: u64,
}

impl ClientListHead {
    const RECORD_BITS: u32 = 25;

    /// An empty list of a client.
    #[inline]
    #[must_use]
    pub const fn empty(client: ClientId) -> Self {
        Self { first: 0, count: client.count() & (u64::MAX >> Self::RECORD_BITS) }
    }

    /// Takes a word apart.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            first: (word & ((1 << Self::RECORD_BITS) - 1)) as u32,
            count: word >> Self::RECORD_BITS,
        }
    }

    /// Puts the word together.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.first as u64 & ((1 << Self::RECORD_BITS) - 1) | self.count << Self::RECORD_BITS
    }

    /// Whether it is the head of a list of `client`.
    #[inline]
    #[must_use]
    pub const fn is_of(self, client: ClientId) -> bool {
        self.count == Self::empty(client).count
    }

    /// What `client` has claimed last; `None` when it holds nothing, or the list is another's.
    #[inline]
    #[must_use]
    pub const fn last_of(self, client: ClientId) -> Option<u32> {
        if self.is_of(client) { self.first.checked_sub(1) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_went_in() {
        for (slot, count) in [(0, 1), ((1 << 20) - 1, (1 << 43) - 1), (7, 1 << 40)] {
            let name = ClientId::new(slot, count);
            assert_eq!(ClientId::of(name.word()), Some(name));
            assert_eq!((name.slot(), name.count(), name.joiner()), (Some(slot), count, None));
            let list = ClientListHead { first: 1 << 24, ..ClientListHead::empty(name) };
            assert_eq!(ClientListHead::unpack(list.pack()), list);
            assert!(list.is_of(name) && !list.is_of(ClientId::new(slot, count + 1)));
        }
        let name = ClientId::joining(u64::MAX, u32::MAX);
        assert_eq!(ClientId::of(name.word()), Some(name));
        assert_eq!((name.slot(), name.joiner()), (None, Some(((1 << 41) - 1, (1 << 22) - 1))));
        assert_eq!((ClientId::of(0), ClientId::of(1)), (None, None));
    }

    #[test]
    fn the_digests_of_domains_differ() {
        let boot = [1, 2, 3, 4];
        let digests = [
            domain_digest(boot, 5),
            domain_digest(boot, 6),
            domain_digest([1, 2, 3, 5], 5),
            domain_digest([2, 1, 3, 4], 5),
            domain_digest([1, 2, 4, 3], 5),
        ];
        for (nth, digest) in digests.iter().enumerate() {
            assert!(!digests[..nth].contains(digest) && digest >> 41 == 0);
        }
    }
}
