//! The orders of the tables.

use clap::ValueEnum;

/// What comes first in each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Operations, messages and attaches per second; of clients and domains, waits per second.
    Rate,
    /// Bytes of messages per second.
    Bytes,
    /// Threads that wait.
    Waiting,
    /// Id, name.
    Id,
}

impl Sort {
    /// The one that comes after it.
    pub fn next(self) -> Self {
        match self {
            Self::Rate => Self::Bytes,
            Self::Bytes => Self::Waiting,
            Self::Waiting => Self::Id,
            Self::Id => Self::Rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_round() {
        let mut sort = Sort::Rate;
        for _ in 0..4 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::Rate);
    }
}
