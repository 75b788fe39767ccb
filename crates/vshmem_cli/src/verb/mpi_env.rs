//! `vshmem mpi-env`: the environment that stock Open MPI needs to go through a pool.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::heap::{self, HeapOption};
use crate::launch::{self, Component, Word};

const COMPONENT: Component = Component {
    file: "mca_btl_vshmem.so",
    folder: "openmpi",
    remedy: "`apt-get install vshmem-openmpi` installs it; in the source tree `make build` builds it where Open MPI's development files are (libopenmpi-dev)",
};

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
    #[command(flatten)]
    heap: HeapOption,
}

const EXAMPLES: &str = "\
Examples:
  eval \"$(vshmem mpi-env --pool job7)\"
  mpirun -H guest1,guest2 ./program
  eval \"$(vshmem mpi-env --pool mine --heap)\"     large messages are copied once

Programs are not changed. Within a kernel messages go through Open MPI's own shared memory, between
guests of the pool through the pool, and to all others over the network.";

/// Where the components are: in `directory`, or where a build or an installation leaves them.
pub fn components(directory: Option<&Path>) -> Result<PathBuf, Failure> {
    COMPONENT.find(directory)
}

/// Whether components are those for Open MPI 5.0: its mpirun has one of its own.
fn are_of_5(components: &Path) -> bool {
    components.join("prte_mca_rtc_vshmem.so").is_file()
}

/// The words, as name and value. `link` is the kind of the pool's link.
pub fn words(pool: &str, components: &Path, link: &str) -> Vec<Word> {
    let place = components.display();
    let mpirun_of_5 = are_of_5(components);
    let mut words = vec![
        ("OMPI_MCA_mca_base_component_path", format!("{place}:SYS_DEFAULT")),
        ("OMPI_MCA_btl_vshmem_pool", pool.to_owned()),
        // The one that uses BTLs; others would take the network for themselves.
        ("OMPI_MCA_pml", "ob1".to_owned()),
    ];
    if mpirun_of_5 {
        // It makes communicators inside of collective calls on several hosts, and MPI_Comm_idup
        // then hangs or crashes, over any network (5.0.7). Within a kernel it is not used.
        words.push(("OMPI_MCA_coll_han_priority", "-1".to_owned()));
        // Its mpirun is PRRTE, whose components PMIx looks for: behind its own, as those of a
        // project that has this name. It would complain of every other file there.
        words.push(("PMIX_MCA_mca_base_component_path", format!(";prte@{place}")));
        words.push(("PMIX_MCA_mca_base_component_show_load_errors", "rtc/vshmem".to_owned()));
    }
    if link != "local" {
        // The memory of a device is none that a kernel copies from for another process (EFAULT),
        // and MPI_Alloc_mem may be that: within a guest Open MPI's own shared memory copies twice.
        words.push(if mpirun_of_5 {
            ("OMPI_MCA_smsc", "^cma,knem,xpmem".to_owned())
        } else {
            ("OMPI_MCA_btl_vader_single_copy_mechanism", "none".to_owned())
        });
    }
    words.extend(launch::mpirun_in_lab());
    words
}

impl MpiEnv {
    /// Prints it.
    pub fn carry_out(self) -> Outcome {
        let (pool, link) = launch::pool(self.pool.as_deref(), "mpi-env")?;
        let components = components(self.components.as_deref())?;
        let mut words = words(&pool, &components, link.kind());
        let heap = self.heap.words(&pool, link.as_ref())?;
        words.extend(heap::for_mpirun(&heap, are_of_5(&components)));
        launch::print(&words)?;
        Ok(ExitCode::SUCCESS)
    }
}
