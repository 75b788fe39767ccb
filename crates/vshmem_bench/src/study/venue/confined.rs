//! One process in a control group of this machine, with little memory.

use std::fs;
use std::path::{Path, PathBuf};

use super::Places;
use crate::error::{Error, Result};
use crate::site::{Job, run_bare};

/// Where control groups (version 2) are.
const GROUPS: &str = "/sys/fs/cgroup";

impl Places {
    pub(super) fn confined(
        &mut self,
        program: &str,
        arguments: &[String],
        mebibytes: u64,
    ) -> Result<String> {
        let program = self.means.kernels.find(program)?;
        let group = Confinement::of(mebibytes, self.fresh())?;
        // The shell enters the group and becomes the program: all its memory counts.
        let line = r#"echo $$ >"$0/cgroup.procs" && exec "$@""#;
        let mut words = vec!["-c".to_owned(), line.into(), group.0.display().to_string()];
        words.push(program.display().to_string());
        words.extend(arguments.iter().cloned());
        run_bare(&Job {
            program: "/bin/sh".into(),
            arguments: words,
            environment: Vec::new(),
            on_pool: false,
        })
    }
}

/// A control group that goes with this.
struct Confinement(PathBuf);

impl Confinement {
    fn of(mebibytes: u64, nth: u32) -> Result<Self> {
        let absent = |why: String| Error::Absent {
            what: "a control group with a limit of memory".into(),
            remedy: format!("{why}; run as root where {GROUPS} is of version 2 and lends `memory`"),
        };
        let path = Path::new(GROUPS).join(format!("vshmem-bench-{}-{nth}", std::process::id()));
        let set = |file: &Path, text: &str| {
            fs::write(file, text).map_err(|error| absent(format!("{}: {error}", file.display())))
        };
        // Lent already, mostly; if it cannot be, the next step says so.
        let _ = fs::write(Path::new(GROUPS).join("cgroup.subtree_control"), "+memory");
        fs::create_dir(&path).map_err(|error| absent(format!("{}: {error}", path.display())))?;
        let group = Self(path);
        set(&group.0.join("memory.max"), &(mebibytes << 20).to_string())?;
        Ok(group)
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
