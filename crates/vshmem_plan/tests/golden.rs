//! Plans for machines that exist, each beside the text that was read and found right.
//! `UPDATE_PLANS=1 cargo test -p vshmem_plan --test golden` writes them anew: read the difference.

use std::fs;
use std::path::Path;

use vshmem_plan::machine::{Machine, Source};
use vshmem_plan::{Cut, HugePage, PoolPlacement, PoolRequest, Request, Smt, form, plan};

fn machine(name: &str) -> Machine {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    Source::Xml(directory.join(format!("{name}.xml"))).read().unwrap()
}

fn pool(bytes: u64, placement: PoolPlacement) -> Option<PoolRequest> {
    Some(PoolRequest { bytes, placement })
}

/// What is asked of which machine.
fn requests() -> Vec<(&'static str, &'static str, Request)> {
    let per_socket = Request { pool: pool(256 << 20, PoolPlacement::ByRule), ..Request::default() };
    let per_node = Request { cut: Cut::PerNode, ..per_socket };
    let count = |count| Request { cut: Cut::Count(count), ..per_socket };
    let huge = Request { huge_pages: Some(HugePage::Mega2), ..per_socket };
    vec![
        ("two-cpus", "one-guest", count(1)),
        ("two-sockets-smt", "per-socket", per_socket),
        ("two-sockets-smt", "huge-pages", Request { huge_pages: Some(HugePage::Giga1), ..huge }),
        ("two-sockets-smt", "one-wide", count(1)),
        ("two-sockets-smt", "six", count(6)),
        ("two-sockets-smt", "smt-off", Request { smt: Smt::Off, ..per_socket }),
        (
            "two-sockets-smt",
            "ranges",
            Request { pool: pool(256 << 20, PoolPlacement::Ranges), ..per_socket },
        ),
        ("nps4-two-l3-each", "per-socket", huge),
        ("nps4-two-l3-each", "per-node", per_node),
        ("nps4-two-l3-each", "per-l3", Request { cut: Cut::PerL3, ..per_socket }),
        (
            "eight-sockets",
            "per-pair",
            Request { pool: pool(1 << 30, PoolPlacement::PerPair), ..per_socket },
        ),
        ("eight-sockets", "four", count(4)),
        ("intel-2-groups-4-nodes", "per-socket", per_socket),
        ("xeon-4-sockets-dies", "per-node", per_node),
        ("power-8-nodes-smt4", "per-node", per_node),
        ("opteron-4-sockets-8-nodes", "per-socket", per_socket),
        ("sparse-numbers", "per-node", per_node),
        (
            "persistent-memory-nodes",
            "pool-on-nvm",
            Request { pool: pool(1 << 30, PoolPlacement::Node(7)), ..per_socket },
        ),
        ("knights-landing-snc4", "per-node", per_node),
        ("unlike-sockets", "per-socket", per_socket),
        ("offline-cpus", "per-socket", per_socket),
        ("offline-cpu0-node0", "per-node", per_node),
        ("two-kinds-of-cores", "one-guest", count(1)),
        ("memory-tiers", "per-socket", per_socket),
        ("gpu-memory-nodes", "per-socket", per_socket),
        (
            "two-sockets-four-dies",
            "per-socket",
            Request { pool: pool(64 << 20, PoolPlacement::ByRule), ..per_socket },
        ),
        ("node-without-memory", "per-socket", per_socket),
        ("cxl-node-without-cpus", "per-socket", per_socket),
        (
            "cxl-node-without-cpus",
            "pool-on-cxl",
            Request { pool: pool(64 << 30, PoolPlacement::Node(2)), ..per_socket },
        ),
        ("arm-clusters", "per-l3", Request { cut: Cut::PerL3, ..per_socket }),
    ]
}

#[test]
fn plans_are_as_they_were_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let update = std::env::var_os("UPDATE_PLANS").is_some();
    let mut different = Vec::new();
    for (name, what, request) in requests() {
        let machine = machine(name);
        let planned = plan(&machine, &request).unwrap_or_else(|e| panic!("{name} {what}: {e}"));
        let mut text = form::text(&machine, &planned);
        for (file, xml) in form::libvirt(&planned, false).into_iter().take(1) {
            text += &format!("\n{file}:\n{xml}");
        }
        let first = |script: String| script.split("&\n").next().unwrap_or_default().to_owned();
        text += &format!("\nqemu:\n{}", first(form::qemu(&planned, false)));
        let file = directory.join(format!("{name}.{what}.txt"));
        if update {
            fs::write(&file, &text).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != text {
            different.push(format!("{}:\n{text}", file.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn files_that_are_no_topology_are_named() {
    let directory = std::env::temp_dir().join(format!("vshmem-plan-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("no.xml");
    for text in ["", "<topology", "<topology/>", "<topology version=\"2.0\"/>"] {
        fs::write(&file, text).unwrap();
        let said = Source::Xml(file.clone()).read().unwrap_err().to_string();
        assert!(said.contains("no.xml") && said.contains("lstopo"), "{said}");
    }
    let said = Source::Sysfs(directory.clone()).read().unwrap_err().to_string();
    assert!(said.contains("no directory `sys`"), "{said}");
    fs::remove_dir_all(&directory).unwrap();
    assert!("xml".parse::<Source>().is_err());
}

/// Without room for a second processor the emulation makes no atomic operations for others.
#[test]
fn emulated_guests_of_one_processor_have_room_for_two() {
    let request = Request {
        cut: Cut::Count(1),
        pool: pool(256 << 20, PoolPlacement::ByRule),
        ..Request::default()
    };
    let planned = plan(&machine("two-cpus"), &request).unwrap();
    assert_eq!(planned.guests[0].vcpus.len(), 1);
    assert!(form::qemu(&planned, true).contains("-smp 1,maxcpus=2"));
    assert!(!form::qemu(&planned, false).contains("maxcpus"));
    let (_, xml) = form::libvirt(&planned, true).swap_remove(0);
    assert!(xml.contains("current='1'>2</vcpu>") && xml.contains("sockets='2'"), "{xml}");
    let (_, xml) = form::libvirt(&planned, false).swap_remove(0);
    assert!(xml.contains(">1</vcpu>") && xml.contains("sockets='1'"), "{xml}");
}
