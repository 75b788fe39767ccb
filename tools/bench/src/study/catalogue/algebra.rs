//! Matrix products under virtualisation.

use super::super::case::{Case, Figure, Group, Model, Recipe};
use super::super::environment::Environment;
use super::draft::{COLD_AND_WARM, Draft, Extent, words};

/// Order of the matrices of pairs of products.
const PAIRED: u64 = 512;
/// Memory of a small guest, in MiB. The kernel and the programs of a guest take more than a
/// third of it.
const LITTLE: u64 = 64;
/// Orders up to and beyond it: three matrices of order 1024 have 24 MiB, of order 1792 they have
/// 73.
const GROWING: [(Environment, [u64; 6]); 2] = [
    (Environment::Native, [512, 1024, 1280, 1536, 1664, 1792]),
    (Environment::Guest, [512, 768, 896, 1024, 1152, 1280]),
];

pub(super) fn cases(extent: Extent) -> Vec<Case> {
    let sizes: &[u64] = match extent {
        Extent::Quick => &[64, 256, 512],
        Extent::Default => &[32, 64, 128, 256, 512, 768, 1024],
        Extent::Paper => &[32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048],
    };
    let both = [Environment::Native, Environment::Guest];
    let libraries: &[&str] = if extent == Extent::Quick { &["none"] } else { &["none", "auto"] };
    let mut cases = Vec::new();
    for &n in sizes {
        for library in libraries {
            let bench = if *library == "none" { "dgemm" } else { "dgemm-blas" };
            let draft = product(bench, n);
            cases.extend(both.map(|place| draft.case(Model::None, place, alone(n, library))));
        }
    }
    if extent == Extent::Quick {
        return cases;
    }
    let tune = Draft { figures: vec![Figure::rate("mflops", "Mflop/s")], ..product("tune", 0) };
    let recipe =
        Recipe::Alone { program: "tune".into(), arguments: Vec::new(), variables: Vec::new() };
    cases.extend(both.map(|place| tune.case(Model::None, place, recipe.clone())));
    let pair = Draft { ranks: 2, ..product("dgemm-twice", PAIRED) };
    let arguments = warm_dgemm(PAIRED, "none");
    for place in [Environment::Native, Environment::Guest, Environment::Guests] {
        let recipe = Recipe::Twice { program: "dgemm".into(), arguments: arguments.clone() };
        cases.push(pair.case(Model::None, place, recipe));
    }
    for (name, run) in COLD_AND_WARM {
        let draft = product(&format!("dgemm-{name}"), PAIRED);
        let (program, arguments) = ("dgemm".into(), dgemm(PAIRED, "none"));
        let recipe = Recipe::Fresh { program, arguments, run };
        cases.push(draft.case(Model::None, Environment::Guest, recipe));
    }
    for (place, sizes) in GROWING {
        for n in sizes {
            let mut draft = product(&format!("dgemm-in-{LITTLE}-mib"), n);
            draft.figures.push(Figure::cost("seconds", "s"));
            draft.figures.push(Figure::cost("major_faults", ""));
            let (program, arguments) = ("dgemm".into(), dgemm(n, "none"));
            let recipe = Recipe::Confined { program, arguments, mebibytes: LITTLE };
            cases.push(draft.case(Model::None, place, recipe));
        }
    }
    cases
}

fn product(bench: &str, n: u64) -> Draft {
    let figures = vec![Figure::rate("mflops", "Mflop/s")];
    Draft { group: Group::Algebra, bench: bench.to_owned(), n, ranks: 1, figures }
}

/// One product, pages that are touched for the first time and all.
fn dgemm(n: u64, library: &str) -> Vec<String> {
    words(&[("n", n.to_string()), ("blas", library.to_owned())])
}

/// Operations of a run of products, so that a small one takes long enough to be timed.
const WORK: u64 = 100_000_000;

/// Products after one that does not count: what it touches first is another question (`faults-*`).
fn warm_dgemm(n: u64, library: &str) -> Vec<String> {
    let rounds = (WORK / (2 * n * n * n)).clamp(1, 1000);
    let more = words(&[("rounds", rounds.to_string()), ("warmup", "1".to_owned())]);
    [dgemm(n, library), more].concat()
}

fn alone(n: u64, library: &str) -> Recipe {
    Recipe::Alone {
        program: "dgemm".into(),
        arguments: warm_dgemm(n, library),
        // One guest has one CPU.
        variables: ["OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS"]
            .map(|name| (name.to_owned(), "1".to_owned()))
            .to_vec(),
    }
}
