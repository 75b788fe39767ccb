//! What the acceptance tests stand on: the release binaries, pools, programs on a pool that make
//! calls on demand, guests.
//!
//! | module | what it holds |
//! |---|---|
//! | `build` | finds or builds what is tested |
//! | `pool` | a pool that goes when its test ends |
//! | `actor` | a program under `vshmem run`, here or in a guest, that makes one System V call per order |
//! | `churn` | objects that workers share while they are killed at random |
//! | `crash` | wakers that die halfway |
//! | `guests` | a lab with a pool |
//! | `isolation` | two pools, and what one may know of the other |
//! | `suite` | running the tests of one binary, and saying figures and skips aloud |
#![forbid(unsafe_code)]

pub mod actor;
pub mod build;
pub mod churn;
pub mod crash;
pub mod guests;
pub mod isolation;
pub mod pool;
pub mod suite;

pub use actor::Actor;
pub use guests::Guests;
pub use pool::Pool;

use std::time::{Duration, Instant};

/// How long anything may take before it counts as hanging: emulated guests on a busy machine are
/// slow.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Waits for a state.
///
/// # Panics
/// When it does not come.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !reached() {
        assert!(
            Instant::now() < end,
            "in {} s it did not come true that {what}",
            TIMEOUT.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a command that was run to its end wrote and how it ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Exit code; 128 + n after signal n.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Insists on exit code 0.
    ///
    /// # Panics
    /// When it is another one.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Insists on a code and on words in standard error.
    ///
    /// # Panics
    /// When they are not there.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
    }
}

impl From<std::process::Output> for Ran {
    fn from(output: std::process::Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let signal = output.status.signal().unwrap_or(0);
        Self {
            code: output.status.code().unwrap_or(128 + signal),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a command on the host to its end.
///
/// # Panics
/// When it cannot be started.
#[track_caller]
pub fn run(command: &mut std::process::Command) -> Ran {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
}
