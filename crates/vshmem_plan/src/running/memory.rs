//! The memory of a process: what is mapped, in what pages, on which nodes (proc(5), numa_maps).

use std::collections::BTreeMap;
use std::path::Path;

use crate::number_set::NumberSet;
use crate::settings::read;

/// A mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The file, as the kernel writes it (` ` is `\040`); empty: none.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Whether there is code in it.
    pub executable: bool,
    /// The size of its pages.
    pub page_bytes: u64,
    /// Where its pages are to lie: `default`, `bind:0`, `interleave:0-1` and so on.
    pub policy: String,
    /// How many bytes lie on which node.
    pub bytes_by_node: BTreeMap<u32, u64>,
}

impl Mapping {
    /// The nodes that its policy names.
    #[must_use]
    pub fn policy_nodes(&self) -> NumberSet {
        let list = self.policy.rsplit_once(':').map(|(_, list)| list);
        list.and_then(NumberSet::from_list).unwrap_or_default()
    }
}

/// All mappings of a process.
///
/// # Errors
/// A sentence: they are closed to this user, or this kernel has no such file.
pub(super) fn of(root: &Path, process: &Path) -> Result<Vec<Mapping>, String> {
    let file = process.join("numa_maps");
    let text = read(root, &file)?
        .ok_or(format!("{}: there is no such file: this kernel has no NUMA", file.display()))?;
    let areas = read(root, &process.join("maps"))?.unwrap_or_default();
    let areas: BTreeMap<u64, (u64, bool)> = areas.lines().filter_map(area).collect();
    Ok(text.lines().filter_map(|line| mapping(line, &areas)).collect())
}

/// `start-end permissions ...` as (start, (bytes, executable)).
fn area(line: &str) -> Option<(u64, (u64, bool))> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    Some((start, (end.checked_sub(start)?, words.next()?.contains('x'))))
}

/// `start policy key=value...`; a policy of two words has no colon in the first.
fn mapping(line: &str, areas: &BTreeMap<u64, (u64, bool)>) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let policy = words.next()?.to_owned();
    let (bytes, executable) = areas.get(&start).copied().unwrap_or_default();
    let mut page_bytes = 4096;
    let (mut file, mut pages) = (String::new(), Vec::new());
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        match key {
            "file" => file = value.to_owned(),
            "kernelpagesize_kB" => page_bytes = value.parse::<u64>().ok()? << 10,
            _ => {
                let node = key.strip_prefix('N').and_then(|node| node.parse::<u32>().ok());
                pages.extend(node.zip(value.parse::<u64>().ok()));
            }
        }
    }
    let bytes_by_node = pages.into_iter().map(|(node, count)| (node, count * page_bytes)).collect();
    Some(Mapping { file, bytes, executable, page_bytes, policy, bytes_by_node })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_numa_maps_is_read() {
        let areas = "7f0000000000-7f0040000000 rw-s 00000000 00:01 5 /memfd:m0 (deleted)";
        let areas = areas.lines().filter_map(area).collect();
        let line = "7f0000000000 bind:1 file=/memfd:m0\\040(deleted) huge dirty=3 N0=1 N1=2 kernelpagesize_kB=2048";
        let found = mapping(line, &areas).unwrap();
        assert_eq!((found.bytes, found.page_bytes), (1 << 30, 2 << 20));
        assert_eq!(found.policy_nodes().to_string(), "1");
        let expected = BTreeMap::from([(0, 2 << 20), (1, 4 << 20)]);
        assert_eq!(found.bytes_by_node, expected);
    }

    #[test]
    fn a_line_of_another_form_is_no_mapping() {
        assert_eq!(mapping("", &BTreeMap::new()), None);
        assert_eq!(mapping("xyz default", &BTreeMap::new()), None);
    }
}
