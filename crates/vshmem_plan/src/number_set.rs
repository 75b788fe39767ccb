//! Sets of CPUs or nodes, by their numbers in the operating system.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// CPUs or nodes by number. Written as the kernel writes lists: `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberSet(BTreeSet<u32>);

impl NumberSet {
    /// Reads hwloc's form: hexadecimal words of 32 bits, the highest first, `0x000000ff,0x0`.
    /// `None`: something else, or a set without an end (`0xf...f`).
    #[must_use]
    pub fn from_hwloc(text: &str) -> Option<Self> {
        let mut numbers = BTreeSet::new();
        let words: Vec<&str> = text.split(',').collect();
        for (place, word) in words.iter().rev().enumerate() {
            // An empty word is 0: `0xff,,0x1`.
            if word.is_empty() {
                continue;
            }
            let bits = u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
            let first = u32::try_from(place).ok()? * 32;
            numbers.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
        }
        Some(Self(numbers))
    }

    /// Reads the kernel's form, `0-3,8`. `None`: something else.
    #[must_use]
    pub fn from_list(text: &str) -> Option<Self> {
        let mut numbers = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            // A list of this kernel has at most 8,192 CPUs; more is no list.
            if last < first || last > 1 << 16 {
                return None;
            }
            numbers.extend(first..=last);
        }
        Some(Self(numbers))
    }

    /// Whether the number is in it.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    /// Whether it has all of the other's.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        other.0.is_subset(&self.0)
    }

    /// Whether they have a number in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// Puts one in.
    pub fn insert(&mut self, number: u32) {
        self.0.insert(number);
    }

    /// Puts all of the other's in.
    pub fn insert_all(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

impl FromIterator<u32> for NumberSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl fmt::Display for NumberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.peek() == Some(&(last + 1)) {
                last += 1;
                numbers.next();
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for NumberSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NumberSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_list(&text).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is no list of numbers such as 0-3,8"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_the_list_is_written() {
        let set = NumberSet::from_hwloc("0x1,,0x8000000f").unwrap();
        assert_eq!(set.to_string(), "0-3,31,64");
        assert_eq!(NumberSet::from_list("0-3,31,64\n"), Some(set));
        assert_eq!(NumberSet::from_hwloc("0xf...f"), None);
        assert_eq!(NumberSet::from_list("4-2"), None);
        assert_eq!(NumberSet::from_list("0-4000000000"), None);
        assert_eq!(NumberSet::from_list("").unwrap().to_string(), "");
    }
}
