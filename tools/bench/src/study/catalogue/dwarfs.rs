//! Small scientific kernels, each over System V or a pool, MPI and OpenMP, from one source.

use super::super::case::{Case, Figure, Group, Model, Recipe};
use super::super::environment::Environment;
use super::draft::{Draft, Extent, words};

/// Two: what the paper's dual-core machine had, and guests of one CPU each make.
const RANKS: u32 = 2;

/// A dwarf: its sizes, and what one round of size n comes to, in operations.
struct Dwarf {
    name: &'static str,
    sizes: [u64; 3],
    operations: fn(u64) -> u64,
    /// Part of a first look.
    quick: bool,
}

const DWARFS: [Dwarf; 10] = [
    Dwarf {
        name: "blas1-s",
        sizes: [1_000, 30_000, 1_000_000],
        operations: |n| 4 * n,
        quick: false,
    },
    Dwarf {
        name: "blas1-d",
        sizes: [1_000, 30_000, 1_000_000],
        operations: |n| 4 * n,
        quick: false,
    },
    Dwarf { name: "blas2-s", sizes: [64, 256, 1024], operations: |n| 2 * n * n, quick: false },
    Dwarf { name: "blas2-d", sizes: [64, 256, 1024], operations: |n| 2 * n * n, quick: false },
    Dwarf { name: "blas3-s", sizes: [32, 128, 512], operations: |n| 2 * n * n * n, quick: false },
    Dwarf { name: "blas3-d", sizes: [32, 128, 512], operations: |n| 2 * n * n * n, quick: true },
    Dwarf { name: "laplace", sizes: [32, 128, 512], operations: |n| 8 * n * n, quick: true },
    Dwarf { name: "pi", sizes: [1_000, 100_000, 10_000_000], operations: |n| 8 * n, quick: true },
    Dwarf { name: "md2", sizes: [64, 256, 1024], operations: |n| 20 * n * n, quick: false },
    Dwarf { name: "md3", sizes: [64, 256, 1024], operations: |n| 30 * n * n, quick: false },
];

/// What ranks say to each other in a round, in operations that would take as long.
const TALK: u64 = 2_000;

pub(super) fn cases(extent: Extent) -> Vec<Case> {
    let chosen = DWARFS.iter().filter(|dwarf| dwarf.quick || extent != Extent::Quick);
    chosen
        .flat_map(|dwarf| {
            let sizes = if extent == Extent::Quick { &dwarf.sizes[..2] } else { &dwarf.sizes };
            sizes.iter().flat_map(|&n| in_all_models(dwarf, n, extent))
        })
        .collect()
}

fn in_all_models(dwarf: &Dwarf, n: u64, extent: Extent) -> Vec<Case> {
    let whole: u64 = extent.pick(20_000_000, 200_000_000, 1_000_000_000);
    let rounds = (whole / ((dwarf.operations)(n) + TALK)).clamp(2, 20_000);
    let arguments = |ranks: u32| {
        words(&[
            ("dwarf", dwarf.name.to_owned()),
            ("n", n.to_string()),
            ("rounds", rounds.to_string()),
            ("ranks", ranks.to_string()),
        ])
    };
    let draft = |bench: String, ranks| Draft {
        group: Group::Dwarfs,
        bench,
        n,
        ranks,
        figures: vec![Figure::cost("seconds", "s").per("rounds")],
    };
    let team = Recipe::Team { program: "dwarf_sysv".into(), arguments: arguments(RANKS) };
    let mpi = Recipe::Mpirun { program: "dwarf_mpi".into(), arguments: arguments(RANKS) };
    let threads = |ranks| Recipe::Alone {
        program: "dwarf_openmp".into(),
        arguments: arguments(ranks),
        variables: vec![("OMP_PROC_BIND".into(), "true".into())],
    };
    let shared = draft(dwarf.name.to_owned(), RANKS);
    let mut cases = vec![
        shared.case(Model::Sysv, Environment::Native, team.clone()),
        shared.case(Model::Vshmem, Environment::Native, team.clone()),
        shared.case(Model::Mpi, Environment::Native, mpi.clone()),
        shared.case(Model::Openmp, Environment::Native, threads(RANKS)),
        shared.case(Model::Vshmem, Environment::Guests, team.clone()),
    ];
    // Its start alone takes seconds in a guest whose system calls are dear.
    if extent != Extent::Quick || n == dwarf.sizes[0] {
        cases.push(shared.case(Model::Mpi, Environment::Guests, mpi));
    }
    if extent != Extent::Quick {
        cases.push(shared.case(Model::Vshmem, Environment::GuestHost, team.clone()));
        // One guest of as many CPUs as there are ranks, beside as many guests of one rank each.
        cases.push(shared.case(Model::Vshmem, Environment::Guest, team));
        // A guest has one CPU: its overhead is that of one thread over one thread.
        let single = draft(format!("{}-single", dwarf.name), 1);
        cases.push(single.case(Model::Openmp, Environment::Native, threads(1)));
        cases.push(single.case(Model::Openmp, Environment::Guest, threads(1)));
    }
    cases
}
