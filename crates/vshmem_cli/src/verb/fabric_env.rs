//! `vshmem fabric-env`: the environment in which programs over libfabric go through a pool.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::failure::{Failure, Outcome};
use crate::heap::{self, HeapOption};
use crate::launch::{self, Component, LAB_SHELL, Word};

/// The file of the provider.
pub const PROVIDER: &str = "libvshmem-fi.so";

const COMPONENT: Component = Component {
    file: PROVIDER,
    folder: "libfabric",
    remedy: "`apt-get install vshmem-libfabric` installs it; in the source tree `make build` builds it where libfabric's development files are (libfabric-dev)",
};

/// Print the environment in which MPI and PGAS libraries over libfabric go through a pool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FabricEnv {
    /// The pool. Without: VSHMEM_POOL, then the pool that this guest was given.
    #[arg(long)]
    pool: Option<String>,
    /// The library whose variables are printed besides libfabric's own.
    #[arg(long = "for", value_name = "LIBRARY")]
    library: Option<Library>,
    /// Where the provider is [default: beside this command, or where it is installed].
    #[arg(long, value_name = "DIR")]
    components: Option<PathBuf>,
    #[command(flatten)]
    heap: HeapOption,
}

/// A library that uses libfabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Library {
    /// Open MPI, all of its messages (mtl/ofi)
    Openmpi,
    /// MPICH, built with ch4:ofi
    Mpich,
    /// Intel MPI
    Intel,
    /// GASNet-EX's ofi-conduit: UPC, UPC++, Chapel
    Gasnet,
    /// Sandia OpenSHMEM
    Shmem,
}

const EXAMPLES: &str = "\
Examples:
  eval \"$(vshmem fabric-env --pool job7)\"; fi_info -p vshmem
  eval \"$(vshmem fabric-env --pool job7 --for mpich)\"; mpiexec -hosts guest1,guest2 -n 2 ./program
  eval \"$(vshmem fabric-env --pool job7 --for intel)\"; mpirun -hosts guest1,guest2 -ppn 1 -n 2 ./program

Programs are not changed. All processes of a job must have the pool. For Open MPI `vshmem mpi-env`
is the better choice: it also serves jobs that are partly beyond the pool.";

/// Where the provider is: in `directory`, or where a build or an installation leaves it.
pub fn provider(directory: Option<&Path>) -> Result<PathBuf, Failure> {
    COMPONENT.find(directory)
}

/// libfabric's own words: where the provider is, that no other is wanted, and the pool.
fn core(pool: &str, provider: &Path) -> Vec<Word> {
    vec![
        ("FI_PROVIDER_PATH", provider.display().to_string()),
        ("FI_PROVIDER", "vshmem".to_owned()),
        ("FI_VSHMEM_POOL", pool.to_owned()),
    ]
}

impl Library {
    /// The words of this library, beside libfabric's.
    fn words(self, core: &[Word]) -> Vec<Word> {
        // mpirun passes on what begins with OMPI_MCA_, and what stands in such a list.
        let names: Vec<&str> = core.iter().map(|(name, _)| *name).collect();
        let passed_on = names.join(";");
        let words: &[(&'static str, &str)] = match self {
            Self::Openmpi => &[
                ("OMPI_MCA_pml", "cm"),
                ("OMPI_MCA_mtl", "ofi"),
                ("OMPI_MCA_mtl_ofi_provider_include", "vshmem"),
                // Its own choice finds none without a BTL.
                ("OMPI_MCA_osc", "pt2pt"),
                ("OMPI_MCA_mca_base_env_list", &passed_on),
            ],
            Self::Mpich => &[("MPIR_CVAR_CH4_NETMOD", "ofi")],
            // Its own shared memory delivers wrong bytes where processes wait for a CPU.
            Self::Intel => &[("I_MPI_FABRICS", "ofi"), ("I_MPI_OFI_PROVIDER", "vshmem")],
            Self::Gasnet => &[],
            Self::Shmem => &[("SHMEM_OFI_PROVIDER", "vshmem")],
        };
        words.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    /// How its launcher reaches the other guests of a lab, from inside one.
    fn words_in_lab(self) -> Vec<Word> {
        let [kind, command, words] = match self {
            Self::Openmpi => return launch::mpirun_in_lab(),
            Self::Mpich | Self::Shmem => {
                ["HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC", "HYDRA_LAUNCHER_EXTRA_ARGS"]
            }
            Self::Intel => [
                "I_MPI_HYDRA_BOOTSTRAP",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
            ],
            Self::Gasnet => ["GASNET_OFI_SPAWNER", "GASNET_SSH_CMD", "GASNET_SSH_OPTIONS"],
        };
        // Called rsh, hydra adds no words of its own.
        let value = if self == Self::Gasnet { "ssh" } else { "rsh" };
        vec![
            (kind, value.to_owned()),
            (command, LAB_SHELL.0.to_owned()),
            (words, LAB_SHELL.1.to_owned()),
        ]
    }
}

impl FabricEnv {
    /// Prints it.
    pub fn carry_out(self) -> Outcome {
        let (pool, link) = launch::pool(self.pool.as_deref(), "fabric-env")?;
        let mut words = core(&pool, &provider(self.components.as_deref())?);
        if let Some(library) = self.library {
            words.extend(library.words(&words));
            if launch::in_lab_guest() {
                words.extend(library.words_in_lab());
            }
        }
        let heap = self.heap.words(&pool, link.as_ref())?;
        match self.library {
            Some(Library::Openmpi) => words.extend(heap::for_mpirun(&heap, false)),
            // Their launchers pass all of the environment on.
            _ => words.extend(heap),
        }
        launch::print(&words)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[Word]) -> Vec<String> {
        words.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn libfabric_is_told_the_provider_and_the_pool() {
        let words = core("job7", Path::new("/usr/lib/vshmem/libfabric"));
        assert_eq!(
            shown(&words),
            [
                "FI_PROVIDER_PATH=/usr/lib/vshmem/libfabric",
                "FI_PROVIDER=vshmem",
                "FI_VSHMEM_POOL=job7"
            ]
        );
    }

    #[test]
    fn open_mpi_passes_on_all_that_libfabric_is_told() {
        let core = core("job7", Path::new("/lib"));
        let words = Library::Openmpi.words(&core);
        assert!(
            shown(&words).contains(
                &"OMPI_MCA_mca_base_env_list=FI_PROVIDER_PATH;FI_PROVIDER;FI_VSHMEM_POOL"
                    .to_owned()
            ),
            "{words:?}"
        );
    }

    #[test]
    fn every_launcher_reaches_the_guests_of_a_lab() {
        for library in [Library::Mpich, Library::Intel, Library::Gasnet, Library::Shmem] {
            let words = shown(&library.words_in_lab()).join(" ");
            assert!(words.contains("=vshmem ") && words.ends_with("=lab exec --shell"), "{words}");
        }
    }
}
