//! One thing that is measured: a program, its size, how its parts talk, and where they run.

use serde::{Deserialize, Serialize};

use super::environment::Environment;
pub use super::figure::{Better, Figure};

/// What a benchmark belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Round trips.
    Micro,
    /// Small scientific kernels, in three models.
    Dwarfs,
    /// Matrix products under virtualisation.
    Algebra,
    /// What systems do to programs: page faults, noise, writes; other people's programs.
    System,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Micro, Self::Dwarfs, Self::Algebra, Self::System];

    /// Its name, for `--only`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Micro => "micro",
            Self::Dwarfs => "dwarfs",
            Self::Algebra => "algebra",
            Self::System => "system",
        }
    }

    /// Its heading.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Micro => "Round trips",
            Self::Dwarfs => "Scientific dwarfs",
            Self::Algebra => "Linear algebra",
            Self::System => "System studies",
        }
    }
}

/// How the parts of a program talk to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// System V IPC of one kernel.
    Sysv,
    /// System V IPC of a pool.
    Vshmem,
    /// Open MPI: its own shared memory in one kernel, the pool between guests.
    Mpi,
    /// Threads.
    Openmp,
    /// A stream over the network.
    Tcp,
    /// Datagrams over the network.
    Udp,
    /// They don't.
    None,
}

impl Model {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sysv => "sysv",
            Self::Vshmem => "vshmem",
            Self::Mpi => "mpi",
            Self::Openmp => "openmp",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::None => "none",
        }
    }

    /// Its name in a sentence or a legend.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Sysv => "System V",
            Self::Vshmem => "vshmem",
            Self::Mpi => "MPI",
            Self::Openmp => "OpenMP",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::None => "one program",
        }
    }
}

/// How a program is started. All programs print one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum Recipe {
    /// Two processes with a role each.
    Roles {
        /// The program, `pingpong_sysv` or `pingpong_net`.
        program: String,
        /// Its arguments but for role, CPU, meeting place, host and port.
        arguments: Vec<String>,
    },
    /// A process for each rank, which meet by a path.
    Team {
        /// The program.
        program: String,
        /// Its arguments but for rank and path.
        arguments: Vec<String>,
    },
    /// Under `mpirun`.
    Mpirun {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// One process.
    Alone {
        /// The program.
        program: String,
        /// Its arguments. `{scratch}` becomes a file that may be written.
        arguments: Vec<String>,
        /// Variables of its environment.
        variables: Vec<(String, String)>,
    },
    /// The same program twice at once; its figures are added up.
    Twice {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// One process with little memory: in a control group of the host, or in a guest with so much
    /// and a disk to swap to.
    Confined {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Memory of its control group or of its guest, in MiB.
        mebibytes: u64,
    },
    /// The same program again and again in a guest that is booted for it; the figures are those of
    /// one of its runs.
    Fresh {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Which of its runs, from 1: the last.
        run: u32,
    },
    /// A program that has to be there already.
    Known {
        /// Which.
        study: super::known::Known,
        /// Guests that take part.
        guests: u32,
    },
}

/// One thing that is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// `BENCH-N.ENVIRONMENT.MODEL`, and what else tells it from its neighbours.
    pub name: String,
    /// What it belongs to.
    pub group: Group,
    /// The benchmark: `sync`, `laplace`, `dgemm`.
    pub bench: String,
    /// How its parts talk.
    pub model: Model,
    /// Where it runs.
    pub environment: Environment,
    /// Bytes, elements, order, particles: what the benchmark calls its size.
    pub n: u64,
    /// Processes or threads.
    pub ranks: u32,
    /// What is read from the program's line; the first is what is compared.
    pub figures: Vec<Figure>,
    /// How it is started.
    pub recipe: Recipe,
}

impl Case {
    /// Whether `--only` means it: by name, benchmark, or group.
    #[must_use]
    pub fn is_called(&self, word: &str) -> bool {
        [self.name.as_str(), self.bench.as_str(), self.group.name()].contains(&word)
    }
}

#[cfg(test)]
impl Case {
    /// One of the system's, on this kernel, of which only the name matters.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            group: Group::System,
            bench: name.into(),
            model: Model::None,
            environment: Environment::Native,
            n: 1,
            ranks: 1,
            figures: vec![Figure::cost("seconds", "s")],
            recipe: Recipe::Twice { program: "x".into(), arguments: Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::figure::Per;

    #[test]
    fn figures_are_found_by_member() {
        let line = serde_json::json!({"seconds": 0.5, "tlb": {"data": 7}, "swap": null});
        assert_eq!(Figure::cost("seconds", "s").of(&line), Some(0.5));
        assert_eq!(Figure::cost("tlb.data", "").of(&line), Some(7.0));
        assert_eq!(Figure::cost("swap", "").of(&line), None);
        assert_eq!(Figure::cost("none", "").of(&line), None);
    }

    /// Laplace's dwarf ends when it has converged, after fewer rounds than it was asked for.
    #[test]
    fn a_round_is_one_of_those_that_were_done() {
        let figure = Figure::cost("seconds", "s").per("rounds");
        let line = |rounds: u32| serde_json::json!({"seconds": 0.5, "rounds": rounds});
        assert_eq!(figure.of(&line(250)), Some(0.002));
        assert_eq!(figure.of(&line(0)), None);
        assert_eq!(figure.of(&serde_json::json!({"seconds": 0.5})), None);
    }

    /// Journals of studies that were begun before members were named have a number there.
    #[test]
    fn figures_of_older_journals_are_read() {
        let read = |per: &str| {
            let text = format!("{{\"member\":\"s\",\"unit\":\"s\",\"better\":\"less\"{per}}}");
            serde_json::from_str::<Figure>(&text).unwrap().per
        };
        assert_eq!(read(",\"per\":1962.0"), Per::Fixed(1962.0));
        assert_eq!(read(",\"per\":\"rounds\""), Per::Member("rounds".into()));
        assert_eq!(read(""), Per::Fixed(1.0));
    }
}
