//! How a team fails.

/// Why a call did not do what it was asked. The team has ended then: all members get the same
/// answer, and every later call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    /// A member did not come in time.
    #[error("member {0} did not come in time")]
    Missing(u32),
    /// A member's process has ended without leaving.
    #[error("the process of member {0} has ended")]
    Dead(u32),
    /// A member has left the team, and was still needed.
    #[error("member {0} has left the team")]
    Left(u32),
    /// A member makes another call, or the same with other sizes.
    #[error("member {0} makes another call, or the same one with another size, kind or operation")]
    Mismatch(u32),
    /// What a member has written is invalid.
    #[error("what member {0} has written is invalid")]
    Corrupt(u32),
}

impl TeamError {
    /// The member that it is about.
    #[must_use]
    pub fn rank(self) -> u32 {
        match self {
            Self::Missing(rank) | Self::Dead(rank) | Self::Left(rank) => rank,
            Self::Mismatch(rank) | Self::Corrupt(rank) => rank,
        }
    }

    pub(crate) fn pack(self) -> u64 {
        let kind: u64 = match self {
            Self::Missing(_) => 1,
            Self::Dead(_) => 2,
            Self::Left(_) => 3,
            Self::Mismatch(_) => 4,
            Self::Corrupt(_) => 5,
        };
        kind << 32 | u64::from(self.rank())
    }

    /// `None` for 0: all is well. A word that was never packed is nonsense of a member.
    pub(crate) fn unpack(word: u64, members: u32) -> Option<Self> {
        let rank = (word as u32).min(members.saturating_sub(1));
        match word >> 32 {
            0 if word == 0 => None,
            1 => Some(Self::Missing(rank)),
            2 => Some(Self::Dead(rank)),
            3 => Some(Self::Left(rank)),
            4 => Some(Self::Mismatch(rank)),
            _ => Some(Self::Corrupt(rank)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_and_nonsense_names_a_member() {
        for error in [
            TeamError::Missing(3),
            TeamError::Dead(0),
            TeamError::Left(2),
            TeamError::Mismatch(1),
            TeamError::Corrupt(3),
        ] {
            assert_eq!(TeamError::unpack(error.pack(), 4), Some(error));
        }
        assert_eq!(TeamError::unpack(0, 4), None);
        assert_eq!(TeamError::unpack(u64::MAX, 4), Some(TeamError::Corrupt(3)));
        assert_eq!(TeamError::unpack(7, 4), Some(TeamError::Corrupt(3)));
    }
}
