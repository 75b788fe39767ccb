//! Round trips: one flag, P and V in shared memory, semop, messages, TCP, UDP.

use super::super::case::{Case, Figure, Group, Model, Recipe};
use super::super::environment::Environment;
use super::draft::{Draft, Extent, words};

/// A transport, with the rounds that take some tenths of a second.
struct Transport {
    name: &'static str,
    sizes: Vec<u64>,
    rounds: u64,
}

pub(super) fn cases(extent: Extent) -> Vec<Case> {
    let sizes = |quick: &[u64], default: &[u64]| -> Vec<u64> {
        if extent == Extent::Quick { quick.to_vec() } else { default.to_vec() }
    };
    // The papers have 100,000 rounds of everything.
    let rounds = |quick: u64, default: u64| extent.pick(quick, default, 100_000);
    const SWEEP: [u64; 6] = [8, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
    let transports = [
        Transport { name: "raw", sizes: sizes(&[8], &[8]), rounds: rounds(50_000, 100_000) },
        Transport {
            name: "sync",
            sizes: sizes(&[8, 1 << 10, 64 << 10], &SWEEP),
            rounds: rounds(20_000, 100_000),
        },
        Transport { name: "sem", sizes: sizes(&[8], &[8]), rounds: rounds(2_000, 20_000) },
        // A message of the kernel's has at most 8 KiB.
        Transport { name: "msg", sizes: sizes(&[8], &SWEEP[..4]), rounds: rounds(2_000, 20_000) },
        Transport {
            name: "tcp",
            sizes: sizes(&[8, 1 << 10, 64 << 10], &SWEEP),
            rounds: rounds(400, 2_000),
        },
        Transport { name: "udp", sizes: sizes(&[8], &SWEEP[..5]), rounds: rounds(400, 2_000) },
    ];
    transports
        .iter()
        .flat_map(|transport| {
            transport.sizes.iter().flat_map(|&size| in_all_places(transport, size, extent))
        })
        .collect()
}

fn in_all_places(transport: &Transport, size: u64, extent: Extent) -> Vec<Case> {
    let model = match transport.name {
        "tcp" => Some(Model::Tcp),
        "udp" => Some(Model::Udp),
        _ => None,
    };
    let draft = Draft {
        group: Group::Micro,
        bench: transport.name.to_owned(),
        n: size,
        ranks: 2,
        figures: vec![Figure::cost("median_ns", "ns")],
    };
    // Copying takes its time, too.
    let rounds = match extent {
        Extent::Paper => transport.rounds,
        _ => (transport.rounds / (1 + size / 8192)).max(400),
    };
    let batches = (rounds / 20).clamp(10, 100);
    let arguments = words(&[
        ("transport", transport.name.to_owned()),
        ("size", size.to_string()),
        ("rounds", rounds.to_string()),
        ("batches", batches.to_string()),
        ("warmup", (rounds / 20).clamp(5, 1000).to_string()),
        // Timed one by one, for the distribution.
        ("each", extent.pick(rounds / 10, rounds / 2, rounds).max(200).to_string()),
    ]);
    let program = if model.is_some() { "pingpong_net" } else { "pingpong_sysv" }.to_owned();
    let recipe = Recipe::Roles { program, arguments };
    let case = |model, environment| draft.case(model, environment, recipe.clone());
    match model {
        Some(model) => vec![case(model, Environment::Native), case(model, Environment::Guests)],
        None => vec![
            case(Model::Sysv, Environment::Native),
            case(Model::Vshmem, Environment::Native),
            case(Model::Vshmem, Environment::Guests),
            case(Model::Vshmem, Environment::GuestHost),
        ],
    }
}
