//! `vshmem plan`: what is written, and for whom. The plans themselves are tested in `vshmem_plan`.

mod rig;

use std::path::PathBuf;

use rig::{complaint, expect, refusal};

/// A machine of two sockets, as a word of the command line.
fn two_sockets() -> String {
    let machines = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../vshmem_plan/tests/machines");
    format!("xml:{}", machines.join("two-sockets-smt.xml").display())
}

#[test]
fn a_plan_is_written_in_every_form() {
    let machine = two_sockets();
    for (form, part) in [
        ("text", "guest2   CPUs 34-63"),
        ("text", "│ node 1   H222222222222222 "),
        ("svg", "<title>A plan of 2 sockets"),
        ("libvirt", "<vcpupin vcpu='0' cpuset='34'/>"),
        ("qemu", "-numa node,nodeid=0,cpus=0-29,memdev=m0"),
        ("xl", "vcpus = 30"),
        ("cloud-hypervisor", "--numa guest_numa_id=0"),
        ("systemd", "AllowedMemoryNodes=1"),
        ("json", "\"host_node\": 1"),
    ] {
        let words = ["plan", "--topology", &machine, "--pool", "1G", "--as", form];
        let text = String::from_utf8(expect(0, &words).stdout).unwrap();
        assert!(text.contains(part), "{form}: {text}");
    }
}

#[test]
fn files_go_where_they_are_wanted() {
    let machine = two_sockets();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plans");
    let words = ["plan", "--topology", &machine, "--as", "libvirt", "--output"];
    let output = expect(0, &[&words[..], &[path.to_str().unwrap()]].concat());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
    let first = std::fs::read_to_string(path.join("guest1.xml")).unwrap();
    assert!(first.starts_with("<domain type='kvm'>") && first.trim_end().ends_with("</domain>"));
    let usage = ["plan", "--topology", &machine, "--output", "plans"];
    assert!(complaint(&expect(2, &usage)).contains("--as libvirt, xl or systemd"));
}

#[test]
fn what_cannot_be_planned_is_a_sentence() {
    let machine = two_sockets();
    refusal(&["plan", "--topology", &machine, "--guests", "7"], &["--guests 6 or --guests 8"]);
    refusal(&["plan", "--topology", "xml:/nonexistent"], &["/nonexistent", "lstopo"]);
    assert!(complaint(&expect(2, &["plan", "--topology", "lies"])).contains("synthetic:STRING"));
    assert!(complaint(&expect(2, &["plan", "--guests", "some"])).contains("per-node"));
}
