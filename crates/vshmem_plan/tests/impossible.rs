//! Requests that a machine cannot meet: each is refused by a sentence, and what that sentence names
//! as the nearest can be done.

use std::path::Path;

use vshmem_plan::machine::{Machine, Source};
use vshmem_plan::{Cut, HugePage, PoolPlacement, PoolRequest, Request, plan};

fn machine(name: &str) -> Machine {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    Source::Xml(directory.join(format!("{name}.xml"))).read().unwrap()
}

fn size(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.len() - 1);
    let shift = ["K", "M", "G"].iter().position(|one| *one == unit).unwrap() * 10 + 10;
    number.parse::<u64>().unwrap() << shift
}

/// The request with one option changed, as the sentence names it.
fn with(request: Request, option: &str, value: &str) -> Request {
    let placement = request.pool.map_or(PoolPlacement::ByRule, |pool| pool.placement);
    match option {
        "--guests" => Request { cut: Cut::Count(value.parse().unwrap()), ..request },
        "--host-cpus" => Request { host_cpus: Some(value.parse().unwrap()), ..request },
        "--host-memory" => Request { host_memory: Some(size(value)), ..request },
        "--hugepages" => Request { huge_pages: Some(HugePage::Mega2), ..request },
        "--pool" => {
            Request { pool: Some(PoolRequest { bytes: size(value), placement }), ..request }
        }
        "--pool-numa" => {
            let placement = value.parse().map_or(PoolPlacement::Interleave, PoolPlacement::Node);
            Request { pool: request.pool.map(|pool| PoolRequest { placement, ..pool }), ..request }
        }
        _ => panic!("{option} {value}"),
    }
}

/// The options that a sentence names, with their values.
fn named(sentence: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let options = words.windows(2).filter(|pair| pair[0].starts_with("--"));
    options.map(|pair| (pair[0].into(), pair[1].trim_end_matches([',', '.']).into())).collect()
}

fn pool(bytes: u64, placement: PoolPlacement) -> Request {
    Request { pool: Some(PoolRequest { bytes, placement }), ..Request::default() }
}

/// What is asked of which machine, the words that name it, and the nearest request that can be met.
type Row = (&'static str, Request, &'static str, &'static str);

fn rows() -> Vec<Row> {
    let default = Request::default();
    let count = |count| Request { cut: Cut::Count(count), ..default };
    let giga = Request { huge_pages: Some(HugePage::Giga1), ..default };
    let rule = PoolPlacement::ByRule;
    vec![
        ("two-sockets-smt", count(7), "--guests 7", "--guests 6 or --guests 8"),
        ("two-sockets-smt", count(0), "--guests 0", "--guests 1"),
        ("two-sockets-smt", count(31), "--guests 31", "--guests 30"),
        ("two-cpus", count(5), "--guests 5", "--guests 1"),
        ("unlike-sockets", count(7), "--guests 7", "--guests 6"),
        (
            "two-sockets-smt",
            Request { host_cpus: Some(64), ..default },
            "--host-cpus 64",
            "At most --host-cpus 62",
        ),
        (
            "two-sockets-smt",
            Request { host_memory: Some(1 << 40), ..default },
            "--host-memory 1024G",
            "--host-memory 64G",
        ),
        (
            "two-sockets-smt",
            Request { host_memory: Some(2 << 40), ..default },
            "--host-memory 2048G",
            "--host-memory 64G",
        ),
        (
            "two-cpus",
            Request { host_memory: Some((16 << 30) - (1 << 20)), ..default },
            "memory for every guest",
            "--host-memory 8191M",
        ),
        ("two-sockets-smt", pool(3 << 30, rule), "--pool 3G", "--pool 4G"),
        ("two-sockets-smt", pool(1000, rule), "--pool 1000", "--pool 1M"),
        ("two-sockets-smt", pool(128 << 30, rule), "--pool 128G", "--pool 64G"),
        ("two-sockets-smt", pool(1 << 40, rule), "--pool 1024G", "--pool 64G"),
        ("two-sockets-four-dies", giga, "memory for every guest", "--hugepages 2M"),
        (
            "two-sockets-smt",
            pool(1 << 30, PoolPlacement::Node(5)),
            "--pool-numa 5",
            "--pool-numa 1",
        ),
        (
            "node-without-memory",
            pool(1 << 30, PoolPlacement::Node(1)),
            "--pool-numa 1",
            "--pool-numa 0",
        ),
        (
            "two-sockets-smt",
            Request { cut: Cut::Count(1), ..pool(1 << 30, PoolPlacement::PerPair) },
            "odd number of guests, 1",
            "--pool-numa interleave",
        ),
    ]
}

#[test]
fn what_cannot_be_done_names_the_nearest_that_can() {
    for (name, request, wanted, nearest) in rows() {
        let machine = machine(name);
        let said = plan(&machine, &request).unwrap_err();
        let sentence = said.to_string();
        for part in [wanted, nearest] {
            assert!(sentence.contains(part), "{name}: no {part:?} in {sentence:?}");
        }
        let options = named(&said.nearest);
        assert!(!options.is_empty(), "{sentence}");
        for (option, value) in options {
            let again = plan(&machine, &with(request, &option, &value));
            assert!(again.is_ok(), "{sentence}: {option} {value}: {}", again.unwrap_err());
        }
    }
}

/// Less of one alone does not help where two things are too much.
#[test]
fn what_asks_for_too_much_twice_is_told_what_to_leave_out() {
    let machine = machine("two-sockets-smt");
    let host_memory = Some(2 << 40);
    let huge_pool = Request { host_memory, ..pool(1 << 40, PoolPlacement::ByRule) };
    let no_node = Request { host_memory, ..pool(1 << 30, PoolPlacement::Node(5)) };
    let no_node_huge = pool(1 << 40, PoolPlacement::Node(5));
    for (request, nearest) in [
        (huge_pool, "leave out --host-memory and --pool"),
        (no_node, "leave out --host-memory and --pool"),
        (no_node_huge, "leave out --pool"),
    ] {
        let said = plan(&machine, &request).unwrap_err();
        assert!(said.nearest.ends_with(nearest), "{said}");
    }
}
