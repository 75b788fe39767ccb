//! Processes of this kernel.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use super::place::Job;
use crate::error::{Error, Result};

/// What a job's environment names what it shares with the pool by, as `vshmem run` does to the
/// program.
pub(crate) const SHARE: &str = "VSHMEM_SHARE";

/// The words of a job: under `vshmem run` on that pool, or as it is.
pub(super) fn words(job: &Job, command: &OsStr, pool: Option<&str>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if !job.environment.is_empty() {
        // As words, because they have to reach guests too.
        words.push("env".into());
        words.extend(job.environment.iter().map(|(name, value)| format!("{name}={value}").into()));
    }
    if job.on_pool {
        words.extend([command, OsStr::new("run")].map(OsStr::to_owned));
        if let Some(pool) = pool {
            words.extend(["--pool", pool].map(OsString::from));
        }
        if let Some((_, share)) = job.environment.iter().find(|(name, _)| name == SHARE) {
            words.extend(["--share", share].map(OsString::from));
        }
        words.push("--".into());
    }
    words.push(job.program.clone().into());
    words.extend(job.arguments.iter().map(OsString::from));
    words
}

/// A command line, for an error.
pub(super) fn line(job: &Job) -> String {
    let name = job.program.file_name().unwrap_or_default().to_string_lossy();
    let run = if job.on_pool { "vshmem run -- " } else { "" };
    format!("{run}{name} {}", job.arguments.join(" "))
}

/// Runs a job on the kernel's own IPC, here.
pub(crate) fn run_bare(job: &Job) -> Result<String> {
    execute(words(job, OsStr::new("vshmem"), None), job, "on this machine")
}

/// Runs a job on a pool behind a prefix of words.
pub(crate) fn run(
    prefix: &[OsString],
    job: &Job,
    command: &Path,
    pool: &str,
    place: &str,
) -> Result<String> {
    let words = words(job, command.as_os_str(), Some(pool));
    execute([prefix, &words].concat(), job, place)
}

/// Runs words to their end, and collects what they print.
fn execute(words: Vec<OsString>, job: &Job, place: &str) -> Result<String> {
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io(format!("run {}", words[0].display())))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Program {
        command: line(job),
        place: place.to_owned(),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Two CPUs that this process may use; the same one twice where there is only one.
pub(crate) fn two_cpus() -> [usize; 2] {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    let first = cpus.next().unwrap_or(0);
    [first, cpus.next().unwrap_or(first)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_on_its_pool_or_bare() {
        let mut job = Job {
            program: "/x/prog".into(),
            arguments: vec!["--size".into(), "8".into()],
            environment: Vec::new(),
            on_pool: true,
        };
        let words_of = |job: &Job| words(job, OsStr::new("vshmem"), Some("p"));
        assert_eq!(
            words_of(&job),
            ["vshmem", "run", "--pool", "p", "--", "/x/prog", "--size", "8"]
        );
        assert_eq!(line(&job), "vshmem run -- prog --size 8");
        job.on_pool = false;
        assert_eq!(words_of(&job), ["/x/prog", "--size", "8"]);
        job.environment.push(("VSHMEM_SPIN".into(), "0".into()));
        assert_eq!(words_of(&job)[..3], ["env", "VSHMEM_SPIN=0", "/x/prog"]);
        job.environment = vec![(SHARE.into(), "all,posix".into())];
        job.on_pool = true;
        assert_eq!(words_of(&job)[2..8], ["vshmem", "run", "--pool", "p", "--share", "all,posix"]);
    }
}
