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

/// The plan, where there is one.
fn planned(shape: &Shape, request: &Request) -> Option<(Machine, Plan)> {
    let machine = machine(shape)?;
    let plan = plan(&machine, request).ok()?;
    Some((machine, plan))
}

fn all_cpus(machine: &Machine) -> BTreeSet<u32> {
    machine.cores.iter().flat_map(|core| core.cpus.iter().copied()).collect()
}

/// What pools take of a node.
fn of_pools(plan: &Plan, node: u32) -> u64 {
    let pools = plan.pools.iter().filter(|pool| pool.nodes.contains(node));
    pools.map(|pool| pool.bytes.div_ceil(pool.nodes.len() as u64)).sum()
}

/// What guests have of a node.
fn of_guests(plan: &Plan, node: u32) -> u64 {
    let cells = plan.guests.iter().flat_map(|guest| &guest.cells);
    cells.filter(|cell| cell.host_node == node).map(|cell| cell.bytes).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn every_request_has_a_plan_or_a_sentence(shape in shapes(), request in requests()) {
        let Some(machine) = machine(&shape) else { return Ok(()) };
        match plan(&machine, &request) {
            Ok(plan) => {
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

    #[test]
    fn no_cpu_is_given_twice_or_left_out(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        let guests = plan.guests.iter().map(|guest| guest.cpus());
        let unused = plan.unused.iter().map(|unused| unused.cpus.clone());
        let mut seen: BTreeSet<u32> = plan.host.cpus.iter().collect();
        for cpus in guests.chain(unused) {
            prop_assert!(!cpus.is_empty());
            prop_assert!(cpus.iter().all(|cpu| seen.insert(cpu)), "a CPU is given twice");
        }
        prop_assert_eq!(seen, all_cpus(&machine));
        prop_assert!(plan.guests.iter().all(|guest| guest.cpus().len() == guest.vcpus.len()));
    }

    #[test]
    fn siblings_stay_together(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        for core in &machine.cores {
            let threads = core.cpus.iter();
            let has = |cpus: &NumberSet| threads.clone().filter(|cpu| cpus.contains(**cpu)).count();
            let is_whole = |count| count == 0 || count == core.cpus.len();
            prop_assert!(is_whole(has(&plan.host.cpus)));
            for guest in &plan.guests {
                let count = has(&guest.cpus());
                let is_first = request.smt == Smt::Off
                    && count == 1 && guest.vcpus.contains(&core.cpus[0]);
                prop_assert!(is_whole(count) || is_first, "siblings are torn apart");
            }
        }
    }

    #[test]
    fn siblings_are_threads_of_one_core_in_the_guest(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        for guest in plan.guests.iter().filter(|guest| guest.topology.threads > 1) {
            for threads in guest.vcpus.chunks(guest.topology.threads as usize) {
                let core = machine.cores.iter().find(|core| core.cpus.contains(&threads[0]));
                prop_assert_eq!(&core.unwrap().cpus[..], threads);
            }
        }
    }

    #[test]
    fn the_cpus_of_host_and_emulator_are_no_guests(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        let host = &plan.host.cpus;
        if let Some(wanted) = request.host_cpus {
            prop_assert!(host.len() >= wanted as usize);
        }
        for guest in &plan.guests {
            prop_assert!(!guest.emulator.is_empty());
            // A machine of a single core has none to spare.
            if host.is_empty() {
                prop_assert!(machine.cores.len() == 1 || request.host_cpus == Some(0));
                prop_assert_eq!(&guest.emulator, &guest.cpus());
                continue;
            }
            prop_assert!(host.contains_all(&guest.emulator));
            prop_assert!(guest.vcpus.iter().all(|cpu| !host.contains(*cpu)));
            let is_emulator = |cpu: &u32| guest.emulator.contains(*cpu);
            let mut others = plan.guests.iter().flat_map(|other| &other.vcpus);
            prop_assert!(!others.any(is_emulator));
        }
    }

    #[test]
    fn memory_lies_within_its_node(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        for guest in &plan.guests {
            for cell in &guest.cells {
                prop_assert!(cell.bytes <= machine.node(cell.host_node).unwrap().bytes);
                prop_assert!(cell.bytes >= 64 << 20);
                prop_assert!(cell.bytes % plan.page_bytes.max(2 << 20) == 0);
                for vcpu in cell.vcpus.iter() {
                    let cpu = guest.vcpus[vcpu as usize];
                    let core = machine.cores.iter().find(|core| core.cpus.contains(&cpu)).unwrap();
                    prop_assert_eq!(core.node, cell.host_node, "a vCPU's memory lies elsewhere");
                }
            }
        }
    }

    #[test]
    fn sums_are_within_the_machine(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        for node in &machine.nodes {
            let given = of_guests(&plan, node.number) + of_pools(&plan, node.number);
            let kept = plan.host.memory.iter().find(|(of, _)| *of == node.number);
            match kept {
                Some((_, kept)) => prop_assert_eq!(given + kept, node.bytes),
                None => prop_assert!(given <= node.bytes, "node {} is overfull", node.number),
            }
        }
        let kept: u64 = plan.host.memory.iter().map(|(_, bytes)| bytes).sum();
        // Each node's part is rounded down.
        let rounding = machine.nodes.len() as u64;
        prop_assert!(kept + rounding >= request.host_memory.unwrap_or(0));
    }

    #[test]
    fn pools_are_counted_and_lie_where_there_is_memory(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        prop_assert_eq!(plan.pools.is_empty(), request.pool.is_none());
        for pool in &plan.pools {
            prop_assert!(!pool.nodes.is_empty() && !pool.guests.is_empty());
            prop_assert!(!pool.reason.is_empty());
            for node in pool.nodes.iter() {
                let bytes = machine.node(node).map_or(0, |node| node.bytes);
                prop_assert!(bytes > 0 && of_pools(&plan, node) + of_guests(&plan, node) <= bytes);
            }
            for (guest, cell) in &pool.guests {
                prop_assert!((*cell as usize) < plan.guests[*guest].cells.len());
            }
        }
        // Each guest has a pool, and only one.
        for guest in 0..plan.guests.len() {
            let has = |pool: &&vshmem_plan::Pool| pool.guests.iter().any(|(of, _)| *of == guest);
            let expected = usize::from(request.pool.is_some());
            prop_assert_eq!(plan.pools.iter().filter(has).count(), expected);
        }
    }

    #[test]
    fn a_guest_is_whole_in_itself(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        for guest in &plan.guests {
            let topology = guest.topology;
            let product = topology.sockets * topology.dies * topology.cores * topology.threads;
            prop_assert_eq!(product as usize, guest.vcpus.len());
            let mut vcpus: Vec<u32> =
                guest.cells.iter().flat_map(|cell| cell.vcpus.iter()).collect();
            vcpus.sort_unstable();
            prop_assert_eq!(vcpus, (0..number(guest.vcpus.len())).collect::<Vec<_>>());
            for cell in &guest.cells {
                let nodes = guest.cells.iter().map(|other| other.host_node);
                let distances = nodes.map(|other| machine.distance(cell.host_node, other));
                prop_assert_eq!(&cell.distances, &distances.collect::<Vec<_>>());
            }
        }
    }

    /// A picture has a character for each core, whatever the machine is like.
    #[test]
    fn every_plan_is_drawn(shape in shapes(), request in requests()) {
        let Some((machine, plan)) = planned(&shape, &request) else { return Ok(()) };
        let svg = vshmem_plan::form::svg(&machine, &plan);
        prop_assert_eq!(svg.matches("class=\"mark\"").count(), machine.cores.len());
        prop_assert!(roxmltree::Document::parse(&svg).is_ok());
        prop_assert!(vshmem_plan::form::text(&machine, &plan).contains('┌'));
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
