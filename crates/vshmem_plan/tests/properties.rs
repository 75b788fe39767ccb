//! What holds for every plan of every machine.

use std::collections::BTreeSet;

use proptest::prelude::*;
use vshmem_plan::machine::{Core, Machine, Node};
use vshmem_plan::{Cut, HugePage, NumberSet, Plan, PoolPlacement, PoolRequest, Request, Smt, plan};

/// A machine: sockets of nodes of caches of cores of threads, not all alike.
#[derive(Debug, Clone)]
struct Shape {
    /// For each socket and each node of it: its memory in MiB, and the cores of each cache.
    sockets: Vec<Vec<(u64, Vec<usize>)>>,
    threads: usize,
    /// Siblings are numbered side by side, or after all first threads.
    side_by_side: bool,
    /// A node without CPUs: its memory in MiB, and whether that is of the usual kind.
    far: Option<(u64, bool)>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let node = (0..40_000_u64, prop::collection::vec(1..6_usize, 1..4));
    let sockets = prop::collection::vec(prop::collection::vec(node, 1..4), 1..5);
    let far = prop::option::of((64..10_000_u64, any::<bool>()));
    (sockets, 1..4_usize, any::<bool>(), far).prop_map(|(sockets, threads, side_by_side, far)| {
        Shape { sockets, threads, side_by_side, far }
    })
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

fn empty() -> Machine {
    Machine {
        model: String::new(),
        vendor: String::new(),
        architecture: String::new(),
        nodes: Vec::new(),
        cores: Vec::new(),
        kinds: 1,
        distances: Vec::new(),
    }
}

fn machine(shape: &Shape) -> Option<Machine> {
    let caches = shape.sockets.iter().flatten().map(|(_, caches)| caches);
    let all: usize = caches.flatten().sum();
    let mut machine = empty();
    let mut cache = 100;
    for (socket, nodes) in shape.sockets.iter().enumerate() {
        for (megabytes, caches) in nodes {
            let node = number(machine.nodes.len());
            let mut own = NumberSet::default();
            for cores in caches {
                cache += 1;
                for _ in 0..*cores {
                    let core = machine.cores.len();
                    let cpu = |thread: usize| match shape.side_by_side {
                        true => number(core * shape.threads + thread),
                        false => number(thread * all + core),
                    };
                    let cpus: Vec<u32> = (0..shape.threads).map(cpu).collect();
                    cpus.iter().for_each(|cpu| own.insert(*cpu));
                    let package = number(socket);
                    machine.cores.push(Core {
                        cpus,
                        package,
                        die: package,
                        l3: cache,
                        node,
                        kind: 0,
                    });
                }
            }
            let bytes = megabytes << 20;
            let huge_pages = Vec::new();
            machine.nodes.push(Node { number: node, cpus: own, bytes, special: None, huge_pages });
        }
    }
    if let Some((megabytes, usual)) = shape.far {
        machine.nodes.push(Node {
            number: number(machine.nodes.len()),
            cpus: NumberSet::default(),
            bytes: megabytes << 20,
            special: (!usual).then(|| "CXL".to_owned()),
            huge_pages: Vec::new(),
        });
    }
    // Cores of a node without memory have that of the first that has some, as a reader would say.
    let some = machine.nodes.iter().find(|node| node.bytes > 0 && !node.cpus.is_empty())?.number;
    for core in &mut machine.cores {
        if machine.nodes[core.node as usize].bytes == 0 {
            core.node = some;
        }
    }
    Some(machine)
}

fn requests() -> impl Strategy<Value = Request> {
    let cut = prop_oneof![
        (1..12_u32).prop_map(Cut::Count),
        Just(Cut::PerSocket),
        Just(Cut::PerNode),
        Just(Cut::PerL3)
    ];
    let placement = prop_oneof![
        Just(PoolPlacement::ByRule),
        Just(PoolPlacement::PerPair),
        Just(PoolPlacement::Interleave),
        (0..6_u32).prop_map(PoolPlacement::Node)
    ];
    let pool = (20..34_u32, placement)
        .prop_map(|(shift, placement)| PoolRequest { bytes: 1 << shift, placement });
    let huge = prop::option::of(prop_oneof![Just(HugePage::Mega2), Just(HugePage::Giga1)]);
    let smt = prop_oneof![Just(Smt::Keep), Just(Smt::Off)];
    let memory = prop::option::of((0..20_000_u64).prop_map(|megabytes| megabytes << 20));
    (cut, prop::option::of(0..20_u32), memory, huge, prop::option::of(pool), smt).prop_map(
        |(cut, host_cpus, host_memory, huge_pages, pool, smt)| Request {
            cut,
            host_cpus,
            host_memory,
            huge_pages,
            pool,
            smt,
        },
    )
}

/// No CPU twice, none left out without a word, siblings together.
fn check_cpus(machine: &Machine, request: &Request, plan: &Plan) {
    let mut seen = BTreeSet::new();
    let unused = plan.unused.iter().map(|unused| &unused.cpus);
    for cpus in plan.guests.iter().map(|guest| guest.cpus()).chain(unused.cloned()) {
        assert!(!cpus.is_empty());
        assert!(cpus.iter().all(|cpu| seen.insert(cpu)), "a CPU is given twice");
    }
    assert!(plan.host.cpus.iter().all(|cpu| seen.insert(cpu)), "a guest has a CPU of the host");
    let all: BTreeSet<u32> =
        machine.cores.iter().flat_map(|core| core.cpus.iter().copied()).collect();
    assert_eq!(seen, all);
    if let Some(wanted) = request.host_cpus {
        assert!(plan.host.cpus.len() >= wanted as usize);
    }
    for core in &machine.cores {
        let has = |cpus: &NumberSet| core.cpus.iter().filter(|cpu| cpus.contains(**cpu)).count();
        let whole = [0, core.cpus.len()];
        assert!(whole.contains(&has(&plan.host.cpus)));
        let first = usize::from(request.smt == Smt::Off && !plan.host.cpus.contains(core.cpus[0]));
        for guest in &plan.guests {
            let count = has(&guest.cpus());
            assert!(whole.contains(&count) || count == first, "siblings are torn apart");
        }
    }
}

/// A guest's own numbers fit together.
fn check_guests(machine: &Machine, plan: &Plan) {
    for guest in &plan.guests {
        let topology = guest.topology;
        let product = topology.sockets * topology.dies * topology.cores * topology.threads;
        assert_eq!(product as usize, guest.vcpus.len());
        let cells = guest.cells.iter().flat_map(|cell| cell.vcpus.iter());
        let mut vcpus: Vec<u32> = cells.collect();
        vcpus.sort_unstable();
        assert_eq!(vcpus, (0..number(guest.vcpus.len())).collect::<Vec<_>>());
        for cell in &guest.cells {
            for vcpu in cell.vcpus.iter() {
                let cpu = guest.vcpus[vcpu as usize];
                let core = machine.cores.iter().find(|core| core.cpus.contains(&cpu)).unwrap();
                assert_eq!(core.node, cell.host_node, "a vCPU's memory lies elsewhere");
            }
            assert_eq!(cell.distances.len(), guest.cells.len());
            assert!(cell.bytes >= 64 << 20 && cell.bytes % plan.page_bytes.max(2 << 20) == 0);
        }
        if plan.host.cpus.is_empty() {
            assert_eq!(guest.emulator, guest.cpus());
        } else {
            assert!(!guest.emulator.is_empty() && plan.host.cpus.contains_all(&guest.emulator));
        }
    }
}

/// What is given of a node is what it has, pools counted.
fn check_memory(machine: &Machine, plan: &Plan) {
    for (node, kept) in &plan.host.memory {
        let cells = plan.guests.iter().flat_map(|guest| &guest.cells);
        let given: u64 = cells.filter(|cell| cell.host_node == *node).map(|cell| cell.bytes).sum();
        let pools = plan.pools.iter().filter(|pool| pool.nodes.contains(*node));
        let pools: u64 = pools.map(|pool| pool.bytes.div_ceil(pool.nodes.len() as u64)).sum();
        assert_eq!(given + pools + kept, machine.node(*node).unwrap().bytes);
    }
    for node in &machine.nodes {
        let pools = plan.pools.iter().filter(|pool| pool.nodes.contains(node.number));
        let bytes: u64 = pools.map(|pool| pool.bytes.div_ceil(pool.nodes.len() as u64)).sum();
        assert!(bytes <= node.bytes, "node {} has more of pools than memory", node.number);
    }
    for pool in &plan.pools {
        assert!(!pool.nodes.is_empty() && !pool.guests.is_empty() && !pool.reason.is_empty());
        for node in pool.nodes.iter() {
            assert!(machine.node(node).is_some_and(|node| node.bytes > 0));
        }
        for (guest, cell) in &pool.guests {
            assert!((*cell as usize) < plan.guests[*guest].cells.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_fits_its_machine(shape in shapes(), request in requests()) {
        let Some(machine) = machine(&shape) else { return Ok(()) };
        match plan(&machine, &request) {
            Ok(plan) => {
                check_cpus(&machine, &request, &plan);
                check_guests(&machine, &plan);
                check_memory(&machine, &plan);
                if let Cut::Count(count) = request.cut {
                    prop_assert_eq!(plan.guests.len(), count as usize);
                }
            }
            Err(impossible) => {
                let said = impossible.to_string();
                prop_assert!(said.len() > 40 && !impossible.nearest.is_empty(), "{}", said);
            }
        }
    }

    /// The nearest number of guests that is named can be done.
    #[test]
    fn the_nearest_count_can_be_done(shape in shapes(), count in 1..40_u32) {
        let Some(machine) = machine(&shape) else { return Ok(()) };
        let ask = |count| {
            let cut = Cut::Count(count);
            plan(&machine, &Request { cut, host_memory: Some(0), ..Request::default() })
        };
        let Err(impossible) = ask(count) else { return Ok(()) };
        if !impossible.wanted.starts_with("--guests") {
            return Ok(());
        }
        let named = impossible.nearest.split("--guests ").skip(1);
        for count in named.map(|text| text.split(' ').next().unwrap().parse().unwrap()) {
            if let Err(again) = ask(count) {
                prop_assert!(!again.wanted.starts_with("--guests"), "{}", again);
            }
        }
    }
}
