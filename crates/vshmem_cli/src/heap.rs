//! `--heap`: programs whose large allocations lie in the pool, by a library that is preloaded.

use std::path::{Path, PathBuf};

use clap::Args;
use vshmem_link::Link;

use crate::failure::{Failure, failed};
use crate::launch::{self, Word};
use crate::size;

/// The library, beside `vshmem` or where an installation leaves it.
const LIBRARY: &str = "libvshmem_heap.so";
/// Allocations below a page are never worth one.
const LEAST: u64 = 4096;

/// What `--heap` says.
#[derive(Debug, Clone, Args)]
pub struct HeapOption {
    /// Allocations of so many bytes and more (default: 64K) lie in the pool, as long as it has
    /// room: large messages are then copied once. All members of the pool can read and change this
    /// memory, pointers to functions in it too, so the pool has to be one that only you may open
    /// (--mode 0600).
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true,
          default_missing_value = "64K", value_parser = parse)]
    heap: Option<u64>,
}

fn parse(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes < LEAST => Err(format!("{text:?} is less than a page, 4K")),
        bytes => Ok(bytes),
    }
}

impl HeapOption {
    /// The words for a program's environment, first what is preloaded: the library, in front of
    /// others; none where no heap was asked for. `pool` is what the program finds the pool by.
    pub fn words(&self, pool: &str, link: &dyn Link) -> Result<Vec<Word>, Failure> {
        let Some(bytes) = self.heap else { return Ok(Vec::new()) };
        if !link.is_only_of(rustix::process::geteuid().as_raw()) {
            return failed(format!(
                "--heap: others than you may open {}, and could change what programs keep in memory. A pool for it is made with `vshmem pool create NAME --size 1G --mode 0600`; in a guest its device must be yours, with that mode",
                link.path().display()
            ));
        }
        Ok(vec![
            ("LD_PRELOAD", preload(&library()?, &std::env::var("LD_PRELOAD").unwrap_or_default())),
            ("VSHMEM_HEAP", bytes.to_string()),
            ("VSHMEM_HEAP_POOL", pool.to_owned()),
        ])
    }
}

fn library() -> Result<PathBuf, Failure> {
    let places = [LIBRARY, "../lib/vshmem/libvshmem_heap.so"];
    match launch::beside(&places) {
        Some(found) if !found.display().to_string().contains([':', ' ', '\'']) => Ok(found),
        Some(found) => failed(format!(
            "{}: the dynamic linker cannot preload from a path with a space or colon in it. Install vshmem somewhere else",
            found.display()
        )),
        None => failed(format!(
            "{LIBRARY} is neither beside `vshmem` nor in ../lib/vshmem. `apt-get install --reinstall vshmem` installs it again; in the source tree `make build` builds it"
        )),
    }
}

/// The library in front of what is preloaded already.
fn preload(library: &Path, before: &str) -> String {
    let others = before.split([':', ' ']).filter(|one| !one.is_empty() && !one.ends_with(LIBRARY));
    let library = library.display().to_string();
    std::iter::once(library.as_str()).chain(others).collect::<Vec<_>>().join(":")
}

/// How Open MPI's mpirun passes them on: to the processes of a job alone, beside what `-x` names.
/// That of release 4.1 refuses the list of 5.0 beside `-x`, and that of 5.0 has no fork agent.
pub fn for_mpirun(words: &[Word], mpirun_of_5: bool) -> Option<Word> {
    let set: Vec<String> = words.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!set.is_empty()).then(|| match mpirun_of_5 {
        true => ("OMPI_MCA_mca_base_env_list", set.join(";")),
        false => ("OMPI_MCA_orte_fork_agent", format!("/usr/bin/env {}", set.join(" "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpirun_is_told_nothing_without_a_heap() {
        assert_eq!(for_mpirun(&[], false), None);
        let words = [("LD_PRELOAD", "/x/heap.so".to_owned()), ("VSHMEM_HEAP", "65536".to_owned())];
        let (_, value) = for_mpirun(&words, false).unwrap();
        assert_eq!(value, "/usr/bin/env LD_PRELOAD=/x/heap.so VSHMEM_HEAP=65536");
        let (_, value) = for_mpirun(&words, true).unwrap();
        assert_eq!(value, "LD_PRELOAD=/x/heap.so;VSHMEM_HEAP=65536");
    }

    #[test]
    fn what_is_preloaded_already_stays() {
        let library = Path::new("/x/libvshmem_heap.so");
        assert_eq!(preload(library, ""), "/x/libvshmem_heap.so");
        let before = "/a.so /old/libvshmem_heap.so:/b.so";
        assert_eq!(preload(library, before), "/x/libvshmem_heap.so:/a.so:/b.so");
    }

    #[test]
    fn less_than_a_page_is_refused() {
        assert_eq!(parse("64K"), Ok(65536));
        assert!(parse("1").is_err());
    }
}
