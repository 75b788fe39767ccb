//! Jobs of stock Open MPI on this host and between two guests of a lab, for `vshmem bench mpi`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vshmem_bench::Spread;

use crate::failure::{Failure, failed};

/// Where guests are given programs.
const DELIVERED: &str = "/tmp/vshmem-bench-mpi";

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Vader,
    Pool,
    Tcp,
    Heap,
}

/// What each of them runs.
pub(crate) struct Job<'a> {
    pub processes: u32,
    /// It was delivered to the guests by its own name.
    pub program: &'a Path,
    pub words: &'a [&'a str],
    /// What mpirun is told besides where there is one kernel.
    pub in_one_kernel: &'a [&'a str],
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vader => "vader, 1 kernel",
            Self::Pool => "vshmem, 2 guests",
            Self::Tcp => "tcp, 2 guests",
            Self::Heap => "--heap, 2 guests",
        }
    }

    /// What the program prints.
    pub(crate) fn run(self, job: &Job<'_>, guests: &Guests) -> Result<String, Failure> {
        let only = if self == Self::Tcp { "--mca btl tcp,self" } else { "" };
        match self {
            Self::Vader => in_one_kernel(job),
            Self::Pool | Self::Tcp | Self::Heap => guests.job(job, self == Self::Heap, only),
        }
    }
}

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
        // Only root has the pool in them: a heap wants that.
        guests.run(&["up", "--guest", "uml", "-n", "2", "--device-mode", "0600"], Stdio::null())?;
        Ok(guests)
    }

    /// Copies the program into both guests: they may not see the tree that it is in, or not where
    /// it is (a guest has a /tmp of its own).
    pub(crate) fn deliver(&self, program: &Path) -> Result<(), Failure> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
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

    /// Half of its processes in each guest.
    fn job(&self, job: &Job<'_>, heap: bool, only: &str) -> Result<String, Failure> {
        let (processes, half) = (job.processes, job.processes / 2);
        let heap = if heap { " --heap" } else { "" };
        let name = job.program.file_name().unwrap_or_default().to_string_lossy();
        let words = job.words.join(" ");
        let line = format!(
            "eval \"$(vshmem mpi-env{heap})\"; exec mpirun --map-by ppr:{half}:node:OVERSUBSCRIBE {only} -H guest1:{half},guest2:{half} -np {processes} {DELIVERED}/{name} {words}"
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

/// In Open MPI's own shared memory on this host.
fn in_one_kernel(job: &Job<'_>) -> Result<String, Failure> {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "vader,self"]);
    command.args(job.in_one_kernel).args(["-np", &job.processes.to_string()]);
    command.arg(job.program).args(job.words);
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
