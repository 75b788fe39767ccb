//! Pools for tests.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::{Ran, build, run};

/// A pool that goes when it is dropped.
#[derive(Debug)]
pub struct Pool {
    name: String,
}

impl Pool {
    /// Makes one of that size; more options of `vshmem pool create` may follow.
    pub fn new(size: &str, options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("acceptance{}-{number}", std::process::id());
        run(Command::new(build::vshmem())
            .args(["pool", "create", &name, "--size", size])
            .args(options))
        .ok();
        Self { name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
    pub fn path(&self) -> std::path::PathBuf {
        format!("/dev/shm/vshmem.{}", self.name).into()
    }

    /// `vshmem run` on it: words of a program follow.
    pub fn run(&self) -> Command {
        self.run_with(build::binaries())
    }

    /// The same with binaries from somewhere else.
    pub fn run_with(&self, binaries: &std::path::Path) -> Command {
        let mut command = Command::new(binaries.join("vshmem"));
        command.args(["run", "--pool", &self.name, "--"]);
        command
    }

    /// What `vshmem ls --json` says.
    pub fn ls(&self) -> Value {
        let out =
            run(Command::new(build::vshmem())
                .args(["ls", "--json", "--locks", "--pool", &self.name]))
            .ok();
        serde_json::from_str(&out).expect("JSON")
    }

    /// What `vshmem pool show --json` says.
    pub fn show(&self) -> Value {
        let out =
            run(Command::new(build::vshmem()).args(["pool", "show", "--json", &self.name])).ok();
        serde_json::from_str(&out).expect("JSON")
    }

    /// The rows of one of its tables.
    pub fn rows(&self, table: &str) -> Vec<Value> {
        self.ls()[table].as_array().cloned().unwrap_or_default()
    }

    /// The domain of that name that is of interest: the last one that joined under it.
    pub fn domain(&self, name: &str) -> Option<Value> {
        self.rows("domains")
            .into_iter()
            .filter(|row| row["name"] == name)
            .max_by_key(|row| (row["state"] == "alive", row["epoch"].as_u64()))
    }

    /// The pid of this machine's own agent.
    pub fn agent(&self) -> Option<i32> {
        let here = self.rows("domains").into_iter().find(|row| row["here"] == true)?;
        here["agent"].as_i64().map(|pid| pid as i32)
    }

    /// How many sleep at the object with that id.
    pub fn waiters(&self, id: i64) -> usize {
        let ls = self.ls();
        let tables = ["queues", "semaphores"];
        let rows = tables.iter().filter_map(|table| ls[*table].as_array()).flatten();
        rows.filter(|row| row["id"] == id)
            .filter_map(|row| row["waiters"].as_array())
            .map(Vec::len)
            .sum()
    }

    /// What `vshmem pool check` finds.
    pub fn check(&self) -> Ran {
        run(Command::new(build::vshmem()).args(["pool", "check", &self.name]))
    }

    /// Waits until `vshmem pool check` finds nothing.
    ///
    /// # Panics
    /// When it goes on finding something.
    #[track_caller]
    pub fn assert_clean(&self) {
        let end = std::time::Instant::now() + crate::TIMEOUT;
        loop {
            let ran = self.check();
            if ran.code == 0 {
                return;
            }
            assert!(std::time::Instant::now() < end, "pool {}: {}{}", self.name, ran.out, ran.err);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// Another verb of `vshmem`, with this pool named.
    pub fn verb<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Ran {
        run(Command::new(build::vshmem()).args(words).args(["--pool", &self.name]))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = run(Command::new(build::vshmem()).args(["pool", "rm", "--force", &self.name]));
    }
}
