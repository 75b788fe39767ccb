//! The command that tells others of a guest's death.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Doing, Error, Result};

/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the command that tells others of a death.
pub(crate) fn run_death_command(words: &[String]) -> Result<()> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(());
    };
    let failed = |status: String| Error::Tool {
        command: words.join(" "),
        status,
        output: "see the keeper's log".into(),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .spawn()
        .doing(|| format!("run `{}`", words.join(" ")))?;
    let end = Instant::now() + TIMEOUT;
    loop {
        match child.try_wait().doing(|| format!("wait for `{}`", words.join(" ")))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(failed(status.to_string())),
            None if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("killed after {} s", TIMEOUT.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}
