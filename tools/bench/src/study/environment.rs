//! Where a program runs.

use serde::{Deserialize, Serialize};

/// A kind of place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Environment {
    /// All of it in this kernel.
    Native,
    /// All of it in one guest.
    Guest,
    /// Spread over two guests or more.
    Guests,
    /// One side in a guest, the other on the host.
    GuestHost,
}

impl Environment {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Native, Self::Guest, Self::Guests, Self::GuestHost];

    /// Its name, for command lines and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Guest => "guest",
            Self::Guests => "guests",
            Self::GuestHost => "guest-host",
        }
    }

    /// Its name in a sentence or a legend.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Native => "one OS kernel",
            Self::Guest => "one guest",
            Self::Guests => "guests",
            Self::GuestHost => "guest and host",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}
