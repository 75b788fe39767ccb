//! The conformance probe in a guest: on the pool, and on the guest's own kernel.

use vshmem_acceptance::guests::Machine;
use vshmem_acceptance::suite::{cases_of_links, say};
use vshmem_acceptance::{Guests, build};

use crate::shared;

/// Of a case. An emulated guest on a busy machine needs more than the probe's 20 s, on its own
/// kernel too.
const SECONDS_EACH: u32 = 120;

/// Percent of what a case repeats: an emulated guest is slow, and the cases run on this machine and
/// in User Mode Linux with all of them.
fn turns(machine: Machine) -> u32 {
    match machine {
        Machine::Uml => 100,
        Machine::Qemu { .. } => 20,
    }
}

pub fn probe() {
    on(&shared(), "vshmem run --share all,posix");
}

/// Which cases, as the shell's words: all where a guest runs at this machine's speed.
fn cases(machine: Machine) -> &'static str {
    match machine {
        Machine::Uml => "",
        Machine::Qemu { .. } => cases_of_links(),
    }
}

/// On that lab; `prefix` stands before a program that shall use the pool.
pub fn on(guests: &Guests, prefix: &str) {
    let conformance = build::source().join("tests/conformance");
    // The guest sees the source tree on its read-only root if the guests' user may read it; so the
    // text goes along.
    let script = std::fs::read_to_string(conformance.join("compare.sh")).unwrap();
    let read = |name: &&str| std::fs::read_to_string(conformance.join(name)).unwrap();
    let expected: String = crate::differences(guests.machine()).iter().map(read).collect();
    let (turns, cases) = (turns(guests.machine()), cases(guests.machine()));
    let line = format!(
        "cat >/tmp/compare.sh <<'THE_END'\n{script}\nTHE_END\n\
         cat >/tmp/expected_differences.txt <<'THE_END'\n{expected}\nTHE_END\n\
         TURNS={turns} SECONDS_EACH={SECONDS_EACH} EXPECTED_DIFFERENCES=/tmp/expected_differences.txt \
         sh /tmp/compare.sh /run/vshmem/bin/probe '{prefix}' {cases}"
    );
    let ran = guests.shell(1, &line);
    let last = ran.out.lines().last().unwrap_or_default().to_owned();
    say(&format!(
        "{}: probe in a guest, pool against the guest's kernel: {last}",
        guests.machine()
    ));
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    guests.pool().assert_clean();
}

/// A guest's kernel may not keep all registers over a signal: then its programs do not use them.
pub fn strings() {
    shared().shell(1, "strings 1000").ok();
}
