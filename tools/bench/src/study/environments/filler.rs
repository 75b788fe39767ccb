//! A segment that is in the way, so that what a run allocates lies elsewhere in its pool than in
//! the run before.
//!
//! The pages of a pool stay where they are in the machine's memory; a segment of the kernel's has
//! others each time. What a run takes depends on them: caches are indexed by the addresses of
//! pages. Without this all runs on a pool would have the same luck, and an interval over them would
//! not know of it.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::site::{Job, run_on_pool};

/// Its size is shuffled, up to this: several times what most programs allocate.
const MOST_PAGES: u64 = 8192;
const PAGE: u64 = 4096;

/// Goes with this.
pub(super) struct Filler {
    command: PathBuf,
    pool: String,
    id: String,
}

impl Filler {
    /// Puts one in that pool.
    pub(super) fn put(command: &Path, pool: &str) -> Result<Self> {
        let bytes = fastrand::u64(1..=MOST_PAGES) * PAGE;
        let said = ipc(command, pool, "ipcmk", &["-M", &bytes.to_string()])?;
        Ok(Self { command: command.to_owned(), pool: pool.to_owned(), id: identifier(&said) })
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // Of a pool that is gone meanwhile there is nothing to remove.
        let _ = ipc(&self.command, &self.pool, "ipcrm", &["-m", &self.id]);
    }
}

fn ipc(command: &Path, pool: &str, program: &str, arguments: &[&str]) -> Result<String> {
    let job = Job {
        program: program.into(),
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        environment: Vec::new(),
        on_pool: true,
    };
    run_on_pool(&[], &job, command, pool, "on this machine")
}

/// `Shared memory id: 12345`, in whatever language.
fn identifier(said: &str) -> String {
    said.split_whitespace().last().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_the_last_word() {
        assert_eq!(identifier("Shared memory id: 536887296\n"), "536887296");
        assert_eq!(identifier(""), "");
    }
}
