//! What follows, by rule: pairs of cases that differ in one thing, and the interval of their ratio.
//! There is one direction: how many times as fast the first is as the second. The first is what the
//! reader decides about: vshmem, or the place.

use super::series::Series;
use super::words;
use crate::report::Rows;
use crate::study::case::{Case, Group, Model};
use crate::study::environment::Environment;
use crate::study::journal::Contents;
use crate::study::multiplicity::benjamini_hochberg;
use crate::study::verdict::{Ratio, Verdict, correct};

/// What two cases differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Another place than one kernel.
    Place,
    /// A pool beside the kernel's own objects.
    Pool,
    /// Another way to talk.
    Talk,
    /// Two guests beside one.
    Spread,
    /// Little memory beside enough.
    Confined,
    /// A guest that has just booted beside one that has run the same before.
    Cold,
}

impl Question {
    /// All of them, in the order in which a reader wants to know.
    pub const ALL: [Self; 6] =
        [Self::Talk, Self::Pool, Self::Place, Self::Spread, Self::Confined, Self::Cold];

    /// In a column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Pool => "pool",
            Self::Talk => "talk",
            Self::Spread => "spread",
            Self::Confined => "memory",
            Self::Cold => "cold",
        }
    }

    /// As a heading.
    pub fn words(self) -> &'static str {
        match self {
            Self::Place => "Guests vs one OS kernel: what another place costs",
            Self::Pool => "A pool vs the OS kernel's own System V IPC, both in one OS kernel",
            Self::Talk => "Shared memory vs other ways to talk, in the same place",
            Self::Spread => "Two programs or ranks: one in each of two guests vs both in one",
            Self::Confined => "Too little memory vs enough",
            Self::Cold => "A guest that has just booted vs one that has run the same before",
        }
    }
}

/// What a verdict means for somebody who asks about vshmem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// vshmem is faster.
    Gain,
    /// vshmem is slower.
    Loss,
    /// A place, a network or too little memory changes the speed of something that does not use
    /// vshmem.
    Context,
    /// Nothing is shown.
    Open,
}

/// An answer for one size.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// What is asked.
    pub question: Question,
    /// The one that is judged.
    pub subject: &'a Series<'a>,
    /// What it is compared with.
    pub rival: &'a Series<'a>,
    /// How many times as fast the first is as the second.
    pub ratio: Ratio,
}

impl Answer<'_> {
    /// Subject and rival, without the size.
    pub fn heading(&self) -> String {
        let (one, other) = (self.subject.case, self.rival.case);
        let named = |case: &Case| match case.bench == case.model.name() {
            true => words::place(case),
            false => format!("{}: {}", case.bench, words::place(case)),
        };
        let rival = if one.bench == other.bench { words::place(other) } else { named(other) };
        format!("{} vs {rival}", named(one))
    }

    /// What its colour says.
    pub fn meaning(&self) -> Meaning {
        match (self.ratio.verdict, self.subject.case.model) {
            (Verdict::Faster, Model::Vshmem) => Meaning::Gain,
            (Verdict::Slower, Model::Vshmem) => Meaning::Loss,
            (Verdict::Faster | Verdict::Slower, _) => Meaning::Context,
            _ => Meaning::Open,
        }
    }
}

/// All answers that the samples have, in the order of questions and cases, corrected for how many
/// there are.
pub fn answers<'a>(all: &'a [Series<'a>], seed: u64) -> Vec<Answer<'a>> {
    let mut found = Vec::new();
    for subject in all.iter().filter(|series| series.is_first()) {
        for rival in all.iter().filter(|series| series.is_first()) {
            let Some(question) = question(subject, rival) else { continue };
            if let Some(ratio) = subject.against(rival, seed) {
                found.push(Answer { question, subject, rival, ratio });
            }
        }
    }
    correct(
        &mut found.iter_mut().map(|answer| &mut answer.ratio).collect::<Vec<_>>(),
        benjamini_hochberg,
    );
    found.sort_by_key(|answer| (answer.question, answer.subject.case.group));
    found
}

/// What is asked of these two, if anything.
fn question(subject: &Series<'_>, rival: &Series<'_>) -> Option<Question> {
    let (one, other) = (subject.case, rival.case);
    if one.group != other.group || one.name == other.name {
        return None;
    }
    // Its size is the number of guests: all streams together, beside those of one kernel.
    let is_traffic = one.bench == "iperf3" && one.environment == Environment::Guests;
    let same =
        one.bench == other.bench && (one.n == other.n || is_traffic) && one.ranks == other.ranks;
    let native = |place| place == Environment::Native;
    let confined = one.bench.starts_with("dgemm-in-") && other.bench == "dgemm";
    if confined && one.n == other.n && one.environment == other.environment {
        return Some(Question::Confined);
    }
    let cold = one.bench.strip_suffix("-cold");
    if cold.is_some() && cold == other.bench.strip_suffix("-warm") && one.n == other.n {
        return Some(Question::Cold);
    }
    // A guest with little memory has its kernel in it, a control group has not.
    if one.bench.contains("-in-") {
        return None;
    }
    // A pool spreads over guests what one kernel's own objects do in it.
    let base = if one.model == Model::Vshmem { Model::Sysv } else { one.model };
    let has_no_sysv = one.group == Group::System && one.model == Model::Vshmem;
    if same && native(other.environment) && !native(one.environment) {
        return (other.model == if has_no_sysv { one.model } else { base })
            .then_some(Question::Place);
    }
    let spread = one.environment == Environment::Guests && other.environment == Environment::Guest;
    if same && spread && one.model == other.model {
        return Some(Question::Spread);
    }
    if one.environment != other.environment {
        return None;
    }
    let networked = matches!(other.model, Model::Tcp | Model::Udp)
        && one.model == Model::Vshmem
        && one.bench == "sync"
        && one.n == other.n;
    let pooled = same && one.model == Model::Vshmem;
    match (pooled, other.model) {
        _ if networked => Some(Question::Talk),
        (true, Model::Sysv | Model::None) if native(one.environment) => Some(Question::Pool),
        (true, Model::Mpi | Model::Openmp) => Some(Question::Talk),
        _ => None,
    }
}

/// Answers of one heading, by size.
pub fn by_heading<'a, 'b>(answers: &'b [Answer<'a>]) -> Vec<(String, Vec<&'b Answer<'a>>)> {
    let mut groups: Vec<(String, Vec<&Answer<'a>>)> = Vec::new();
    for answer in answers {
        let heading = answer.heading();
        match groups.iter_mut().find(|(known, of)| {
            *known == heading && of.iter().all(|one| one.question == answer.question)
        }) {
            Some((_, of)) => of.push(answer),
            None => groups.push((heading, vec![answer])),
        }
    }
    groups
}

/// All of it for a terminal.
pub fn rows(answers: &[Answer<'_>]) -> Rows {
    let title = "Conclusions: how many times as fast the first is as the second (95 % interval)";
    let columns = ["what", "size", "times as fast", "interval", "pairs", "adjusted p", "verdict"];
    let mut rows = Rows::new(title, columns);
    for answer in answers {
        rows.rows.push(vec![
            answer.heading(),
            words::size(answer.subject.case),
            words::factor(answer.ratio.ratio),
            words::factors(answer.ratio.interval),
            answer.ratio.pairs.to_string(),
            answer.ratio.adjusted_p.map_or_else(String::new, words::probability),
            answer.ratio.verdict.words().into(),
        ]);
    }
    rows
}

/// Whether two places chose the same blocking: choices that were made most often.
pub fn choices(contents: &Contents) -> Vec<(Environment, String, usize, usize)> {
    let places = [Environment::Native, Environment::Guest];
    let of = |place: Environment| {
        let names: Vec<&str> = contents
            .study
            .cases
            .iter()
            .filter(|case| case.bench == "tune" && case.environment == place)
            .map(|case| case.name.as_str())
            .collect();
        let mut counts: Vec<(String, usize)> = Vec::new();
        for sample in contents.samples.iter().filter(|one| names.contains(&one.case.as_str())) {
            let choice = sample.output["choice"].to_string();
            match counts.iter_mut().find(|(known, _)| *known == choice) {
                Some((_, count)) => *count += 1,
                None => counts.push((choice, 1)),
            }
        }
        let all = counts.iter().map(|(_, count)| count).sum();
        let (choice, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        Some((place, choice, count, all))
    };
    places.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::catalogue::{Extent, catalogue};

    /// What is asked of two cases of the catalogue.
    fn asked(subject: &str, rival: &str) -> Option<Question> {
        let cases = catalogue(Extent::Default, None);
        let of = |name: &str| {
            let case =
                cases.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("{name}"));
            Series {
                case,
                figure: &case.figures[0],
                values: [(1, 1.0)].into(),
                first: None,
                interrupts: 0.0,
                switches: 0.0,
                emulated: None,
            }
        };
        question(&of(subject), &of(rival))
    }

    #[test]
    fn cases_that_differ_in_one_thing_are_asked_about() {
        for (subject, rival, expected) in [
            ("sync-8.guests.vshmem", "sync-8.native.sysv", Some(Question::Place)),
            ("sem-8.native.vshmem", "sem-8.native.sysv", Some(Question::Pool)),
            ("pi-1000.native.vshmem", "pi-1000.native.mpi", Some(Question::Talk)),
            ("pi-1000.guests.vshmem", "pi-1000.guest.vshmem", Some(Question::Spread)),
            ("pi-1000.guests.mpi", "pi-1000.guest.vshmem", None),
            ("dgemm-twice-512.guests.none", "dgemm-twice-512.guest.none", Some(Question::Spread)),
            ("dgemm-in-64-mib-1024.guest.none", "dgemm-1024.guest.none", Some(Question::Confined)),
            ("dgemm-in-64-mib-1024.guest.none", "dgemm-in-64-mib-1024.native.none", None),
            ("faults-cold-4096.guest.none", "faults-warm-4096.guest.none", Some(Question::Cold)),
            ("faults-cold-4096.guest.none", "faults-malloc-4096.guest.none", None),
            ("sync-8.guests.vshmem", "tcp-8.guests.tcp", Some(Question::Talk)),
            ("tcp-8.guests.tcp", "sync-8.guests.vshmem", None),
            ("iperf3-4.guests.none", "iperf3-1.native.none", Some(Question::Place)),
            ("iperf3-4.guests.none", "iperf3-2.guests.none", None),
        ] {
            assert_eq!(asked(subject, rival), expected, "{subject} vs {rival}");
        }
    }
}
