//! One process with little memory: in a control group of this machine, or in a small guest with a
//! disk to swap to.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::cell::Cell;
use super::places::{Places, patient};
use crate::error::{Error, Result};
use crate::site::{Guests, Job, Memory, run_bare};
use crate::study::case::Case;
use crate::study::environment::Environment;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// What a small guest may swap, in MiB: room for everything that is run in it.
const SWAP_MIB: u32 = 512;

impl Places {
    pub(super) fn confined(
        &mut self,
        case: &Case,
        program: &str,
        arguments: &[String],
        mebibytes: u64,
    ) -> Result<String> {
        let program = self.setup.kernels.find(program)?;
        let job = patient(case, program, arguments.to_vec());
        match case.environment {
            Environment::Native => in_group(&job, mebibytes, self.fresh()),
            _ => self.cell(mebibytes, &job.program)?.run_in(1, &job),
        }
    }

    /// A guest with that much memory, booted when it is first asked for.
    fn cell(&mut self, mebibytes: u64, program: &Path) -> Result<&Guests> {
        if self.cell.as_ref().is_none_or(|cell| cell.mebibytes != mebibytes) {
            // The one that there was goes first.
            self.cell = None;
            let memory = Memory {
                mebibytes: u32::try_from(mebibytes).unwrap_or(u32::MAX),
                swap_mebibytes: SWAP_MIB,
            };
            let guests = self.boot(1, memory)?;
            self.cell = Some(Cell { guests, mebibytes, delivered: Vec::new() });
        }
        let cell = self.cell.as_mut().ok_or(Error::Stopped)?;
        if !cell.delivered.iter().any(|known| known == program) {
            cell.guests.deliver(1, program)?;
            cell.delivered.push(program.to_owned());
        }
        Ok(&cell.guests)
    }
}

fn in_group(job: &Job, mebibytes: u64, nth: u32) -> Result<String> {
    let group = Confinement::of(mebibytes, nth)?;
    // The shell enters the group and becomes the program: all its memory counts.
    let line = r#"echo $$ >"$0/cgroup.procs" && exec "$@""#;
    let mut words = vec!["-c".to_owned(), line.into(), group.0.display().to_string()];
    words.push(job.program.display().to_string());
    words.extend(job.arguments.iter().cloned());
    let said = run_bare(&Job {
        program: "/bin/sh".into(),
        arguments: words,
        environment: Vec::new(),
        on_pool: false,
    });
    said.map_err(|error| match error {
        Error::Program { command, place, status, .. } if status.starts_with("signal: 9") => {
            let output = format!(
                "killed by the kernel: {mebibytes} MiB are too little, and what this machine can swap is used up"
            );
            Error::Program { command, place, status, output }
        }
        other => other,
    })
}

/// A control group that goes with this.
struct Confinement(PathBuf);

impl Confinement {
    fn of(mebibytes: u64, nth: u32) -> Result<Self> {
        let absent = |why: String| Error::Absent {
            what: "a control group with a limit of memory".into(),
            remedy: format!("{why}; run as root where {GROUPS} lends `memory`"),
        };
        let (parent, limit) = hierarchy(Path::new(GROUPS))
            .ok_or_else(|| absent("no hierarchy there has `memory`".to_owned()))?;
        let set = |file: &Path, text: &str| {
            // Never made: a file that is not the kernel's limits nothing.
            let opened = OpenOptions::new().write(true).open(file);
            opened
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|error| absent(format!("{}: {error}", file.display())))
        };
        // Lent already, mostly; if it cannot be, the limit below is not there.
        let _ = set(&parent.join("cgroup.subtree_control"), "+memory");
        let path = parent.join(format!("vshmem-bench-{}-{nth}", std::process::id()));
        fs::create_dir(&path).map_err(|error| absent(format!("{}: {error}", path.display())))?;
        let group = Self(path);
        set(&group.0.join(limit), &(mebibytes << 20).to_string())?;
        Ok(group)
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Where groups with a limit of memory can be made, and the file that it is written to: of version
/// 2, alone or beside version 1, or of version 1.
fn hierarchy(groups: &Path) -> Option<(PathBuf, &'static str)> {
    let lends = |place: &Path| {
        let controllers = fs::read_to_string(place.join("cgroup.controllers"));
        controllers.is_ok_and(|text| text.split_whitespace().any(|one| one == "memory"))
    };
    let second = [groups.to_owned(), groups.join("unified")].into_iter().find(|place| lends(place));
    let first = groups.join("memory");
    match second {
        Some(place) => Some((place, "memory.max")),
        None if first.join("memory.limit_in_bytes").is_file() => {
            Some((first, "memory.limit_in_bytes"))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_that_lends_memory_is_found() {
        let place = tempfile::tempdir().unwrap();
        let groups = place.path();
        // A plain directory, as where version 1 is mounted below it, is none.
        assert_eq!(hierarchy(groups), None);
        for directory in ["memory", "unified"] {
            fs::create_dir(groups.join(directory)).unwrap();
        }
        fs::write(groups.join("memory/memory.limit_in_bytes"), "").unwrap();
        fs::write(groups.join("unified/cgroup.controllers"), "\n").unwrap();
        let first = (groups.join("memory"), "memory.limit_in_bytes");
        assert_eq!(hierarchy(groups), Some(first));
        fs::write(groups.join("unified/cgroup.controllers"), "cpu memory\n").unwrap();
        assert_eq!(hierarchy(groups), Some((groups.join("unified"), "memory.max")));
        fs::write(groups.join("cgroup.controllers"), "memory\n").unwrap();
        assert_eq!(hierarchy(groups), Some((groups.to_owned(), "memory.max")));
    }
}
