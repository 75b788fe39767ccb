//! Where the words of a team lie. All offsets count from its first byte.

/// Members and payload, with the version of this layout: written by the first that joins.
pub(crate) const SHAPE_AT: u64 = 0;
/// Why the team has ended before all had left; 0 while it goes on.
pub(crate) const FAILURE_AT: u64 = 8;
/// Members that have left.
pub(crate) const LEFT_AT: u64 = 16;

const VERSION: u64 = 2;
/// Bytes of the words above.
const HEADER: u64 = 128;
/// Words that different members write are so far apart: CPUs fetch lines in pairs.
const APART: u64 = 128;

/// Of a member's block: whether it is there; one of the constants below.
pub(crate) const STATE: u64 = 0;
/// Which domain it runs in; 0: unknown.
pub(crate) const DOMAIN: u64 = 8;
/// Its process there.
pub(crate) const PID: u64 = 16;
/// When that process began, so that another one of that pid is not taken for it.
pub(crate) const START: u64 = 24;
/// The last step of which it has read everything.
pub(crate) const TAKEN: u64 = APART;
const FLAGS: u64 = 2 * APART;

/// Values of [`STATE`].
pub(crate) const ABSENT: u64 = 0;
pub(crate) const JOINING: u64 = 1;
pub(crate) const JOINED: u64 = 2;
pub(crate) const LEFT: u64 = 3;

/// Of a slot: the step that its text belongs to.
pub(crate) const STEP: u64 = 0;
/// What kind of text it is, and its bytes.
pub(crate) const WHAT: u64 = 8;
/// The text.
pub(crate) const TEXT: u64 = 16;
/// Slots of a member.
pub(crate) const SLOTS: u64 = 4;

/// Most members.
pub const MOST_MEMBERS: u32 = 4096;
/// Most bytes that a member passes on at once.
pub const MOST_PAYLOAD: u32 = 64 << 20;

/// How a team's memory is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    members: u32,
    payload: u32,
}

impl Shape {
    /// A team of `members` members which pass on `payload` bytes at once, rounded up to whole
    /// numbers. `None` when that is out of range: 1 to [`MOST_MEMBERS`] and 1 to
    /// [`MOST_PAYLOAD`].
    #[must_use]
    pub fn new(members: u32, payload: u64) -> Option<Self> {
        let payload =
            u32::try_from(payload).ok().filter(|bytes| (1..=MOST_PAYLOAD).contains(bytes))?;
        (1..=MOST_MEMBERS)
            .contains(&members)
            .then(|| Self { members, payload: payload.next_multiple_of(8) })
    }

    /// Members.
    #[must_use]
    pub fn members(self) -> u32 {
        self.members
    }

    /// Bytes that a member passes on at once: longer texts go in pieces.
    #[must_use]
    pub fn payload(self) -> usize {
        self.payload as usize
    }

    /// Bytes of the whole.
    #[must_use]
    pub fn bytes(self) -> u64 {
        HEADER + u64::from(self.members) * self.block()
    }

    /// Rounds of a barrier.
    pub(crate) fn rounds(self) -> u32 {
        self.members.next_power_of_two().trailing_zeros()
    }

    pub(crate) fn pack(self) -> u64 {
        VERSION << 56 | u64::from(self.members) << 32 | u64::from(self.payload)
    }

    fn block(self) -> u64 {
        FLAGS + u64::from(self.rounds()) * APART + SLOTS * self.slot_bytes()
    }

    fn slot_bytes(self) -> u64 {
        (TEXT + u64::from(self.payload)).next_multiple_of(APART)
    }

    /// A member's block.
    pub(crate) fn member(self, rank: u32) -> u64 {
        HEADER + u64::from(rank) * self.block()
    }

    /// The flag that is raised for a member in a round of a barrier.
    pub(crate) fn flag(self, rank: u32, round: u32) -> u64 {
        self.member(rank) + FLAGS + u64::from(round) * APART
    }

    /// The slot that a member uses for a step.
    pub(crate) fn slot(self, rank: u32, step: u64) -> u64 {
        let slots = self.member(rank) + FLAGS + u64::from(self.rounds()) * APART;
        slots + step % SLOTS * self.slot_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_do_not_overlap_and_words_are_apart() {
        for members in [1, 2, 3, 5, 64, MOST_MEMBERS] {
            for payload in [1, 8, 100, 4096] {
                let shape = Shape::new(members, payload).unwrap();
                assert!(shape.payload() as u64 >= payload);
                for rank in 0..members.min(5) {
                    assert_eq!(shape.slot(rank, 0) % APART, 0);
                    assert!(shape.flag(rank, shape.rounds()) <= shape.slot(rank, 0));
                    assert!(shape.slot(rank, 0) + shape.slot_bytes() <= shape.slot(rank, 1));
                    assert!(shape.slot(rank, 1) + shape.slot_bytes() <= shape.member(rank + 1));
                }
                assert_eq!(shape.member(members), shape.bytes());
            }
        }
        assert_eq!(Shape::new(0, 8), None);
        assert_eq!(Shape::new(MOST_MEMBERS + 1, 8), None);
        assert_eq!(Shape::new(2, 0), None);
        assert_eq!(Shape::new(2, u64::MAX), None);
    }
}
