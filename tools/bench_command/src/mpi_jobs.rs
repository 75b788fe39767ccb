//! Jobs of stock Open MPI on this host and between two guests of a lab, for `vshmem bench mpi`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vshmem_bench::Spread;

use crate::failure::{Failure, failed};

/// Where guests are given programs.
const DELIVERED: &str = "/tmp/vshmem-bench-mpi";

/// A lab that is taken down at the end if it was booted for this.
pub(crate) struct Guests {
    command: PathBuf,
    name: String,
    own: bool,
}

impl Guests {
    pub(crate) fn of(command: &Path, lab: Option<&str>) -> Result<Self, Failure> {
        let command = command.to_owned();
        if let Some(name) = lab {
            return Ok(Self { command, name: name.to_owned(), own: false });
        }
        let name = format!("bench-mpi-{}", std::process::id());
        let guests = Self { command, name, own: true };
        guests.run(&["up", "--guest", "uml", "-n", "2"], Stdio::null())?;
        Ok(guests)
    }

    /// Copies the program into both guests: they may not see the tree that it is in, or not where
    /// it is (a guest has a /tmp of its own).
    pub(crate) fn deliver(&self, program: &Path, name: &str) -> Result<(), Failure> {
        let path = format!("{DELIVERED}/{name}");
        let line = format!("mkdir -p {DELIVERED} && cat >{path} && chmod 755 {path}");
        for guest in ["1", "2"] {
            let file = std::fs::File::open(program).map_err(|error| {
                Failure::failed(format!("{}: cannot read it: {error}", program.display()))
            })?;
            let mut command = Command::new(&self.command);
            command.args(["lab", "--name", &self.name, "exec", guest, "--", "sh", "-c", &line]);
            output_of(command.stdin(file).stderr(Stdio::inherit()))?;
        }
        Ok(())
    }

    /// Runs a program that was delivered, half of its processes in each guest.
    pub(crate) fn job(&self, processes: u32, only: &str, words: &str) -> Result<String, Failure> {
        let half = processes / 2;
        let line = format!(
            "eval \"$(vshmem mpi-env)\"; exec mpirun --map-by ppr:{half}:node:OVERSUBSCRIBE {only} -H guest1:{half},guest2:{half} -np {processes} {DELIVERED}/{words}"
        );
        self.run(&["exec", "1", "--", "sh", "-c", &line], Stdio::inherit())
    }

    /// Runs a verb of `vshmem lab` and returns what it prints.
    fn run(&self, words: &[&str], error: Stdio) -> Result<String, Failure> {
        let mut command = Command::new(&self.command);
        command.args(["lab", "--name", &self.name]).args(words);
        output(&mut command, error)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        if self.own {
            let _ = self.run(&["down"], Stdio::null());
        }
    }
}

/// Runs a program in Open MPI's own shared memory on this host.
pub(crate) fn in_one_kernel(
    processes: u32,
    options: &[&str],
    words: &[&OsStr],
) -> Result<String, Failure> {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "vader,self"]);
    command.args(options).args(["-np", &processes.to_string()]).args(words);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    output(&mut command, Stdio::inherit())
}

fn output(command: &mut Command, error: Stdio) -> Result<String, Failure> {
    output_of(command.stdin(Stdio::null()).stderr(error))
}

fn output_of(command: &mut Command) -> Result<String, Failure> {
    let shown = format!("{command:?}");
    let done = command
        .output()
        .map_err(|error| Failure::failed(format!("cannot run {shown}: {error}")))?;
    if !done.status.success() {
        return failed(format!("{shown}: {}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Median, smallest and largest.
pub(crate) fn spread(figures: &[f64], shown: &dyn Fn(f64) -> String) -> String {
    Spread::of(figures).map_or_else(String::new, |spread| {
        format!("{} ({} .. {})", shown(spread.median), shown(spread.min), shown(spread.max))
    })
}
