//! Page faults, noise, writes; programs of other people.

use std::path::Path;

use super::super::case::{Case, Figure, Group, Model, Recipe};
use super::super::environment::Environment;
use super::super::known::Known;
use super::draft::{COLD_AND_WARM, Draft, Extent, words};

/// Bytes of each sweep of writes.
const WRITTEN: u64 = 16 << 20;

/// Memory of the guest whose memory is passed, in MiB.
const LITTLE: u64 = 64;

pub(super) fn cases(extent: Extent, nas: Option<&Path>) -> Vec<Case> {
    let both = [Environment::Native, Environment::Guest];
    let mut cases = Vec::new();
    for kind in ["malloc", "shared", "segment"] {
        // Of pages that need no fault the median is nothing.
        let draft = draft(&format!("faults-{kind}"), 4096, Figure::cost("mean_ns", "ns"));
        let recipe = alone("faults", &[("kind", kind.to_owned())]);
        cases.extend(both.map(|place| draft.case(Model::None, place, recipe.clone())));
        if kind == "segment" {
            cases.extend(both.map(|place| draft.case(Model::Vshmem, place, recipe.clone())));
        }
    }
    let quanta: u64 = extent.pick(2_000, 10_000, 100_000);
    let noise = draft("noise", 100_000, Figure::cost("max_ns", "ns"));
    let recipe = alone("noise", &[("quanta", quanta.to_string()), ("work", "100000".to_owned())]);
    cases.extend(both.map(|place| noise.case(Model::None, place, recipe.clone())));
    if extent == Extent::Quick {
        return cases;
    }
    cases.extend(rarer_faults(both));
    cases.extend(streams());
    for (name, run) in COLD_AND_WARM {
        let draft = draft(&format!("faults-{name}"), 4096, Figure::cost("mean_ns", "ns"));
        let (program, arguments) = ("faults".into(), Vec::new());
        let recipe = Recipe::Fresh { program, arguments, run };
        cases.push(draft.case(Model::None, Environment::Guest, recipe));
    }
    for mebibytes in [8, 16, 24, 32, 48, 64] {
        let name = format!("faults-in-{LITTLE}-mib");
        let mut draft = draft(&name, mebibytes << 20, Figure::cost("mean_ns", "ns"));
        draft.figures.push(Figure::cost("seconds", "s"));
        draft.figures.push(Figure::cost("fetched", ""));
        let pages = (mebibytes << 20) / 4096;
        let recipe = Recipe::Confined {
            program: "faults".into(),
            arguments: words(&[("pages", pages.to_string())]),
            mebibytes: LITTLE,
        };
        cases.push(draft.case(Model::None, Environment::Guest, recipe));
    }
    for size in [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        let options = |file: &str, total: u64| {
            let total = total.min(size * 100_000).to_string();
            alone("writes", &[("size", size.to_string()), ("file", file.into()), ("total", total)])
        };
        let memory = draft("writes", size, Figure::rate("bytes_per_second", "B/s"));
        let recipe = options("{tmpfs}", WRITTEN);
        cases.extend(both.map(|place| memory.case(Model::None, place, recipe.clone())));
        let disk = draft("writes-disk", size, Figure::rate("bytes_per_second", "B/s"));
        cases.push(disk.case(Model::None, Environment::Native, options("{disk}", WRITTEN)));
    }
    cases.extend(of_others(nas));
    cases
}

/// Faults of huge pages and of a file.
fn rarer_faults(places: [Environment; 2]) -> Vec<Case> {
    let huge = draft("faults-huge", 4096, Figure::cost("mean_ns", "ns"));
    let recipe = Recipe::Alone {
        program: "faults".into(),
        arguments: ["--kind", "malloc", "--pages", "16384", "--huge"].map(str::to_owned).to_vec(),
        variables: Vec::new(),
    };
    let mut cases = places.map(|at| huge.case(Model::None, at, recipe.clone())).to_vec();
    let file = draft("faults-file", 4096, Figure::cost("mean_ns", "ns"));
    let recipe = alone("faults", &[("kind", "file".to_owned())]);
    cases.extend(places.map(|at| file.case(Model::None, at, recipe.clone())));
    cases
}

/// STREAM: in one place, and in two at once.
fn streams() -> Vec<Case> {
    const NUMBERS: u64 = 4 << 20;
    let of = |bench: &str, ranks| {
        let mut stream = draft(bench, 0, Figure::rate("triad", "B/s"));
        stream.n = NUMBERS;
        stream.ranks = ranks;
        stream.figures.extend(["copy", "scale", "add"].map(|one| Figure::rate(one, "B/s")));
        stream
    };
    let arguments = words(&[("n", NUMBERS.to_string()), ("rounds", "10".into())]);
    let twice = Recipe::Twice { program: "stream".into(), arguments: arguments.clone() };
    let program = "stream".into();
    let once = Recipe::Alone { program, arguments, variables: Vec::new() };
    let single = [Environment::Native, Environment::Guest];
    let double = [Environment::Native, Environment::Guests];
    let mut cases = single.map(|at| of("stream", 1).case(Model::None, at, once.clone())).to_vec();
    cases.extend(double.map(|at| of("stream-twice", 2).case(Model::None, at, twice.clone())));
    cases
}

fn of_others(nas: Option<&Path>) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |bench: &str, n: u64, ranks: u32, study: Known, places: &[(Environment, u32)]| {
        for &(place, guests) in places {
            let mut draft = draft(bench, n, Figure::cost("", ""));
            draft.figures = study.figures();
            draft.ranks = ranks;
            let model =
                if matches!(study, Known::Hpcc | Known::Nas(_)) { Model::Mpi } else { Model::None };
            cases.push(draft.case(model, place, Recipe::Known { study: study.clone(), guests }));
        }
    };
    let apart = [(Environment::Native, 0), (Environment::Guests, 2)];
    add("hpcc", 1000, 2, Known::Hpcc, &apart);
    for name in nas_programs(nas) {
        add(&name.replace('.', "-"), 0, 2, Known::Nas(name.clone()), &apart);
    }
    add("iperf3", 1, 1, Known::Iperf3, &[(Environment::Native, 0)]);
    for guests in [2, 4, 8] {
        add("iperf3", guests, 1, Known::Iperf3, &[(Environment::Guests, guests as u32)]);
    }
    for size in [4 << 10, 64 << 10] {
        add("fio", size, 1, Known::Fio, &[(Environment::Native, 0), (Environment::Guest, 1)]);
    }
    cases
}

/// The files `NAME.CLASS.x` of that directory, or one that stands for those that are not there.
fn nas_programs(nas: Option<&Path>) -> Vec<String> {
    let listed = nas.and_then(|directory| std::fs::read_dir(directory).ok());
    let names = listed.into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".x")).collect();
    names.sort();
    if names.is_empty() { vec!["cg.A.x".into()] } else { names }
}

fn draft(bench: &str, n: u64, figure: Figure) -> Draft {
    Draft { group: Group::System, bench: bench.to_owned(), n, ranks: 1, figures: vec![figure] }
}

fn alone(program: &str, options: &[(&str, String)]) -> Recipe {
    Recipe::Alone { program: program.into(), arguments: words(options), variables: Vec::new() }
}
