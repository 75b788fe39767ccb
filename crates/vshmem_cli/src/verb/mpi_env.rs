//! `vshmem mpi-env`: the environment that stock Open MPI needs to go through a pool.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::choice::{self, Choice};
use crate::failure::{Failure, Outcome, failed};
use crate::show;

/// What is looked for beside this command and where an installation leaves it.
const COMPONENT: &str = "mca_btl_vshmem.so";
/// How `mpirun` reaches the other guests of a lab, from inside one.
const LAB_AGENT: &str = "vshmem lab exec --shell";

/// Print the environment in which Open MPI's mpirun goes through a pool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MpiEnv {
    /// The pool. Without: VSHMEM_POOL, then the pool that this guest was given.
    #[arg(long)]
    pool: Option<String>,
    /// Where the components are [default: beside this command, or where they are installed].
    #[arg(long, value_name = "DIR")]
    components: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  eval \"$(vshmem mpi-env --pool job7)\"
  mpirun -H guest1,guest2 ./program

Programs are not changed. Within a kernel messages go through Open MPI's own shared memory, between
guests of the pool through the pool, and to all others over the network.";

/// Where the components are: in `directory`, or where a build or an installation leaves them.
pub fn components(directory: Option<&Path>) -> Result<PathBuf, Failure> {
    let mut places: Vec<PathBuf> = Vec::new();
    match directory {
        Some(directory) => places.push(directory.to_owned()),
        None => {
            let command = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
            if let Some(beside) = command.as_deref().and_then(Path::parent) {
                places.extend(
                    [".", "../../build/openmpi", "../lib/vshmem/openmpi"].map(|at| beside.join(at)),
                );
            }
        }
    }
    let found = places.iter().find(|place| place.join(COMPONENT).is_file());
    match found.and_then(|place| place.canonicalize().ok()) {
        Some(place) => Ok(place),
        None => {
            let shown: Vec<String> = places.iter().map(|at| at.display().to_string()).collect();
            failed(format!(
                "{COMPONENT} is at none of {}. `apt-get install vshmem-openmpi` installs it; in the source tree `make build` builds it where Open MPI's development files are (libopenmpi-dev). --components names another place",
                shown.join(", ")
            ))
        }
    }
}

/// The words, as name and value. `link` is the kind of the pool's link.
pub fn words(pool: &str, components: &Path, link: &str) -> Vec<(&'static str, String)> {
    let mut words = vec![
        ("OMPI_MCA_mca_component_path", format!("{}:SYS_DEFAULT", components.display())),
        ("OMPI_MCA_btl_vshmem_pool", pool.to_owned()),
        // The one that uses BTLs; others would take the network for themselves.
        ("OMPI_MCA_pml", "ob1".to_owned()),
    ];
    if link != "local" {
        // The memory of a device is none that a kernel copies from for another process (EFAULT),
        // and MPI_Alloc_mem may be that: within a guest Open MPI's own shared memory copies twice.
        words.push(("OMPI_MCA_btl_vader_single_copy_mechanism", "none".to_owned()));
    }
    if vshmem_lab::in_guest() {
        words.push(("OMPI_MCA_plm_rsh_agent", LAB_AGENT.to_owned()));
        if rustix::process::geteuid().is_root() {
            words.push(("OMPI_ALLOW_RUN_AS_ROOT", "1".to_owned()));
            words.push(("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".to_owned()));
        }
    }
    words
}

impl MpiEnv {
    /// Prints it.
    pub fn carry_out(self) -> Outcome {
        let pool = match choice::choose(self.pool.as_deref())? {
            Choice::Named(name) => name,
            // Other guests have it under the same name, at places of their own.
            Choice::Given { name, .. } => name,
            Choice::Private => {
                return failed(
                    "no pool is named, and this machine was not given one. Name one, as in `vshmem mpi-env --pool job7` (`vshmem pool ls` shows them), or set VSHMEM_POOL",
                );
            }
        };
        // Better said now than by every process of the job.
        let link = vshmem_session::find(&pool)?;
        for (name, value) in words(&pool, &components(self.components.as_deref())?, link.kind()) {
            show::line(format!("export {name}='{}'", value.replace('\'', "'\\''")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
