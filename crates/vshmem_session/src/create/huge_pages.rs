//! Huge pages that the kernel has in reserve.

use std::path::{Path, PathBuf};

/// Reserved huge pages of one size, of the machine or of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HugePages {
    folder: PathBuf,
    /// All of them.
    pub total: u64,
    /// Pages that neither belong to a file nor are promised to one.
    pub free: u64,
}

impl HugePages {
    /// What the kernel says of pages of so many bytes.
    pub fn read(page: u64, node: Option<u32>) -> Self {
        let name = format!("hugepages-{}kB", page >> 10);
        let folder = match node {
            Some(node) => PathBuf::from(format!("/sys/devices/system/node/node{node}/hugepages")),
            None => PathBuf::from("/sys/kernel/mm/hugepages"),
        };
        Self::read_in(&folder.join(name))
    }

    fn read_in(folder: &Path) -> Self {
        let number = |file: &str| -> u64 {
            let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        let promised = number("resv_hugepages");
        Self {
            total: number("nr_hugepages"),
            free: number("free_hugepages").saturating_sub(promised),
            folder: folder.to_owned(),
        }
    }

    /// The commands that reserve what is missing to `needed` free pages, and that undo it.
    pub fn commands(&self, needed: u64) -> (String, String) {
        let file = self.folder.join("nr_hugepages");
        let echo = |count: u64| format!("echo {count} > {}", file.display());
        (echo(self.total + needed.saturating_sub(self.free)), echo(self.total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_not_free_and_what_is_there_already_stays() {
        let folder = tempfile::tempdir().unwrap();
        for (file, count) in [("nr_hugepages", 10), ("free_hugepages", 5), ("resv_hugepages", 2)] {
            std::fs::write(folder.path().join(file), format!("{count}\n")).unwrap();
        }
        let pages = HugePages::read_in(folder.path());
        assert_eq!((pages.total, pages.free), (10, 3));
        let (reserve, undo) = pages.commands(8);
        let file = folder.path().join("nr_hugepages");
        assert_eq!(reserve, format!("echo 15 > {}", file.display()));
        assert_eq!(undo, format!("echo 10 > {}", file.display()));
    }
}
