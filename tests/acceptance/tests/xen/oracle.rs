//! The conformance probe in dom0 and in guests: on a pool, and on the domain's own kernel.

use vshmem_acceptance::build;
use vshmem_acceptance::suite::{cases_of_links, say};

use crate::rig::{DOM0, POOL, Xen};
use crate::shared;

pub fn in_dom0() {
    probe(DOM0, "dom0");
}

pub fn in_guest1() {
    probe(1, "guest1");
}

pub fn in_guest2() {
    probe(2, "guest2");
}

fn probe(domain: u32, name: &str) {
    let xen = shared();
    // Cases ask for more segments than the pool of the other tests holds.
    xen.shell(DOM0, &format!("vshmem pool create {POOL} --xen --size 64M")).ok();
    compare(&xen, domain, name);
    xen.shell(DOM0, &format!("vshmem pool check {POOL}")).ok();
    xen.remove_pool();
}

fn compare(xen: &Xen, domain: u32, name: &str) {
    let conformance = build::source().join("tests/conformance");
    let script = std::fs::read_to_string(conformance.join("compare.sh")).unwrap();
    let read = |name: &str| std::fs::read_to_string(conformance.join(name)).unwrap();
    let expected = read("expected_differences.txt") + &read("expected_differences_xen.txt");
    let cases = cases_of_links();
    let line = format!(
        "cat >/tmp/compare.sh <<'THE_END'\n{script}\nTHE_END\n\
         cat >/tmp/expected_differences.txt <<'THE_END'\n{expected}\nTHE_END\n\
         EXPECTED_DIFFERENCES=/tmp/expected_differences.txt SECONDS_EACH=120 TURNS=20 sh /tmp/compare.sh \
         /run/vshmem/bin/probe 'vshmem run --pool {POOL} --share all,posix --' {cases}"
    );
    let ran = xen.shell(domain, &line);
    let last = ran.out.lines().last().unwrap_or_default().to_owned();
    say(&format!("probe in {name}, pool against its own kernel: {last}"));
    assert_eq!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
}
