//! Where pages lie, beside where they are planned to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vshmem_plan::NumberSet;
use vshmem_plan::running::Mapping;

/// Pages of one kind that a run used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// Whose: `own memory`, `shared memory`, `guest1`.
    pub of: String,
    /// The nodes that they are planned to lie on.
    pub planned: NumberSet,
    /// How many bytes lie on which node.
    pub by_node: BTreeMap<u32, u64>,
}

impl Pages {
    /// All of them, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.by_node.values().sum()
    }

    /// The bytes on other nodes than planned: what has leaked.
    #[must_use]
    pub fn leaked(&self) -> u64 {
        let away = self.by_node.iter().filter(|(node, _)| !self.planned.contains(**node));
        away.map(|(_, bytes)| bytes).sum()
    }

    /// Adds others of the same kind.
    pub(crate) fn add(&mut self, by_node: &BTreeMap<u32, u64>) {
        for (node, bytes) in by_node {
            *self.by_node.entry(*node).or_default() += bytes;
        }
    }
}

/// What a process maps, as far as placing it says where the pages lie: pages of programs and
/// libraries are where somebody has read them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    Shared,
}

/// The kind of a mapping; `None`: pages of a file on a disk.
pub(super) fn kind(mapping: &Mapping) -> Option<Kind> {
    const SHARED: [&str; 5] = ["/SYSV", "/dev/shm/", "/dev/zero", "/memfd:", "/dev/hugepages/"];
    match &*mapping.file {
        "" => Some(Kind::Own),
        file if file.starts_with("/anon_hugepage") => Some(Kind::Own),
        file => SHARED.iter().any(|place| file.starts_with(place)).then_some(Kind::Shared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_elsewhere_has_leaked() {
        let planned = NumberSet::from_list("1").unwrap();
        let mut pages = Pages { of: "guest1".into(), planned, by_node: BTreeMap::new() };
        pages.add(&BTreeMap::from([(0, 4096), (1, 8192)]));
        pages.add(&BTreeMap::from([(1, 4096)]));
        assert_eq!((pages.bytes(), pages.leaked()), (16384, 4096));
        let line = serde_json::to_string(&pages).unwrap();
        assert_eq!(line, r#"{"of":"guest1","planned":"1","by_node":{"0":4096,"1":12288}}"#);
        assert_eq!(serde_json::from_str::<Pages>(&line).unwrap(), pages);
    }
}
