//! A number in the line that a program prints.

use serde::{Deserialize, Serialize};

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times.
    Less,
    /// Rates.
    More,
}

/// A number in the line that a program prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The member of the line; one of an inner object after a dot.
    pub member: String,
    /// `ns`, `s`, `Mflop/s`, `B/s`, ...
    pub unit: String,
    /// Which way it is good.
    pub better: Better,
    /// What the number is divided by, where the figure is that of one round.
    #[serde(default)]
    pub per: Per,
}

/// How many of them make the number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Per {
    /// So many, whatever the program did.
    Fixed(f64),
    /// As many as that member of the same line says.
    Member(String),
}

impl Default for Per {
    fn default() -> Self {
        Self::Fixed(1.0)
    }
}

impl Figure {
    /// A time or another cost.
    #[must_use]
    pub fn cost(member: &str, unit: &str) -> Self {
        Self { member: member.into(), unit: unit.into(), better: Better::Less, per: Per::default() }
    }

    /// A rate.
    #[must_use]
    pub fn rate(member: &str, unit: &str) -> Self {
        Self { member: member.into(), unit: unit.into(), better: Better::More, per: Per::default() }
    }

    /// Of one of those that this member of the line counts: a program may have ended before it did
    /// all.
    #[must_use]
    pub fn per(self, member: &str) -> Self {
        Self { per: Per::Member(member.into()), ..self }
    }

    /// Its value in a line; none if there is no such number.
    #[must_use]
    pub fn of(&self, line: &serde_json::Value) -> Option<f64> {
        let number = |member: &str| {
            member.split('.').try_fold(line, |value, name| value.get(name))?.as_f64()
        };
        let per = match &self.per {
            Per::Fixed(count) => *count,
            Per::Member(member) => number(member)?,
        };
        number(&self.member).map(|number| number / per).filter(|number| number.is_finite())
    }
}
