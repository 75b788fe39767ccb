//! What the papers claim, each beside what came out here, with the verdict by rule.
//!
//! V: Vshmem (Youseff and others); I: Ibrahim and others, 2011; M: "The Impact of Paravirtualized
//! Memory Hierarchy ..." (Youseff and others, 2008 and 2009); P: "Paravirtualization for HPC
//! Systems" (2006); K: "Linux Kernel Specialization ..." (2005).

use super::conclusions::{Answer, Question};
use super::findings;
use crate::report::Rows;
use crate::study::case::{Group, Model};
use crate::study::environment::Environment;
use crate::study::verdict::Verdict;

/// What a study says of the first of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Faster,
    /// As fast: whatever is decided speaks against it.
    Same,
    Slower,
    /// The study has no figure of it.
    Nothing,
}

struct Claim {
    study: &'static str,
    experiment: &'static str,
    theirs: &'static str,
    expected: Expected,
    is_about: fn(&Answer<'_>) -> bool,
}

const fn claim(
    study: &'static str,
    experiment: &'static str,
    theirs: &'static str,
    expected: Expected,
    is_about: fn(&Answer<'_>) -> bool,
) -> Claim {
    Claim { study, experiment, theirs, expected, is_about }
}

use Environment::{Guest, Guests, Native};
use Expected::{Faster, Nothing, Same, Slower};

const CLAIMS: [Claim; 19] = [
    claim("V", "P and V: two guests vs one OS kernel", "the same", Same, |one| {
        apart(one, &["sync"], Guests)
    }),
    claim("V", "P and V vs TCP, two guests", "56 times faster (8 B)", Faster, |one| {
        talk(one, Guests) && one.rival.case.model == Model::Tcp
    }),
    claim("V", "P and V vs UDP, two guests", "faster", Faster, |one| {
        talk(one, Guests) && one.rival.case.model == Model::Udp
    }),
    claim("V", "semaphores, messages: two guests vs System V in one kernel", "-", Nothing, |one| {
        apart(one, &["sem", "msg"], Guests)
    }),
    claim("V", "dwarfs vs MPI, two guests", "faster", Faster, |one| {
        talk(one, Guests) && one.rival.case.model == Model::Mpi
    }),
    claim("V", "dwarfs vs MPI, one kernel", "not slower", Faster, |one| {
        talk(one, Native) && one.rival.case.model == Model::Mpi
    }),
    claim("V", "dwarfs vs OpenMP, one kernel", "not slower", Faster, |one| {
        talk(one, Native) && one.rival.case.model == Model::Openmp
    }),
    claim("V", "dwarfs: two guests vs one OS kernel", "the same", Same, |one| {
        one.question == Question::Place
            && one.subject.case.group == Group::Dwarfs
            && one.subject.case.model == Model::Vshmem
            && one.subject.case.environment == Guests
    }),
    claim("M", "matrix product: one guest vs one OS kernel", "the same", Same, |one| {
        apart(one, &["dgemm", "dgemm-blas"], Guest)
    }),
    claim("M", "two products: one in each of two guests vs one kernel", "the same", Same, |one| {
        apart(one, &["dgemm-twice"], Guests)
    }),
    claim("M", "autotuner: one guest vs one OS kernel", "the same", Same, |one| {
        apart(one, &["tune"], Guest)
    }),
    claim("P", "STREAM: one guest vs one OS kernel", "the same", Same, |one| {
        apart(one, &["stream"], Guest)
    }),
    claim("P", "STREAM in each of two guests vs one OS kernel", "the same", Same, |one| {
        apart(one, &["stream-twice"], Guests)
    }),
    claim("P", "HPC Challenge (HPL): two guests vs one kernel", "the same", Same, |one| {
        apart(one, &["hpcc"], Guests)
    }),
    claim("P", "NPB: two guests vs one OS kernel", "the same", Same, |one| {
        one.question == Question::Place
            && one.subject.case.environment == Guests
            && one.subject.case.bench.contains("-x")
    }),
    claim("P", "page faults: one guest vs one OS kernel", "dearer in a guest", Slower, |one| {
        let bench = one.subject.case.bench.as_str();
        one.question == Question::Place && bench.starts_with("faults") && is_at(one, Guest)
    }),
    claim("P", "writes to a file: one guest vs one OS kernel", "mixed", Nothing, |one| {
        apart(one, &["writes", "fio"], Guest)
    }),
    claim("P", "network streams: guests vs one OS kernel", "lower in a guest", Slower, |one| {
        apart(one, &["iperf3"], Guests)
    }),
    claim("K", "noise: a minimal guest vs a full OS", "less when specialised", Nothing, |one| {
        apart(one, &["noise"], Guest)
    }),
];

fn is_at(one: &Answer<'_>, place: Environment) -> bool {
    one.subject.case.environment == place
}

fn apart(one: &Answer<'_>, benches: &[&str], place: Environment) -> bool {
    let bench = one.subject.case.bench.as_str();
    one.question == Question::Place && is_at(one, place) && benches.contains(&bench)
}

fn talk(one: &Answer<'_>, place: Environment) -> bool {
    one.question == Question::Talk && is_at(one, place)
}

/// A line for each claim; what has no answer was not measured.
pub fn rows(answers: &[Answer<'_>]) -> Rows {
    let title = "What the papers claim";
    let mut rows = Rows::new(title, ["study", "experiment", "here", "there", "verdict"]);
    for claim in &CLAIMS {
        let of: Vec<&Answer<'_>> = answers.iter().filter(|one| (claim.is_about)(one)).collect();
        let (here, verdict) = match of.is_empty() {
            true => ("not measured".to_owned(), "open"),
            false => (findings::result(&of), verdict(claim.expected, &of)),
        };
        let cells = [claim.study, claim.experiment, &here, claim.theirs, verdict];
        rows.rows.push(cells.map(str::to_owned).to_vec());
    }
    rows
}

/// By what was decided: nothing else speaks for or against a claim.
fn verdict(expected: Expected, of: &[&Answer<'_>]) -> &'static str {
    let count = |verdict| of.iter().filter(|one| one.ratio.verdict == verdict).count();
    judged(expected, [count(Verdict::Faster), count(Verdict::Slower), of.len()])
}

fn judged(expected: Expected, [faster, slower, all]: [usize; 3]) -> &'static str {
    match (expected, faster, slower) {
        (Nothing, ..) => "measured",
        (Same, 0, 0) => "no difference shown",
        (Same, _, slower) if 5 * slower > all => "not confirmed",
        (Same, faster, slower) if 5 * (faster + slower) <= all => "confirmed with exceptions",
        (Same, ..) => "mixed",
        (Faster | Slower, 0, 0) => "no difference shown",
        (Faster, _, 0) | (Slower, 0, _) => "confirmed",
        (Faster, 0, _) | (Slower, _, 0) => "not confirmed",
        _ => "mixed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_judged_by_what_is_decided() {
        assert_eq!(judged(Faster, [3, 0, 21]), "confirmed");
        assert_eq!(judged(Faster, [0, 1, 21]), "not confirmed");
        assert_eq!(judged(Slower, [0, 1, 1]), "confirmed");
        assert_eq!(judged(Slower, [1, 1, 2]), "mixed");
        assert_eq!(judged(Same, [0, 0, 6]), "no difference shown");
        assert_eq!(judged(Same, [1, 1, 21]), "confirmed with exceptions");
        assert_eq!(judged(Same, [0, 3, 6]), "not confirmed");
        assert_eq!(judged(Same, [4, 0, 6]), "mixed");
    }
}
