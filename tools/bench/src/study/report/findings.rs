//! The few findings that a reader wants first, each a sentence made by rule from the conclusions.

use super::conclusions::{Answer, Meaning, Question};
use super::words;
use crate::study::case::{Group, Model};
use crate::study::environment::Environment;
use crate::study::verdict::Verdict;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is compared with what, the first named first.
    pub what: &'static str,
    /// What came out.
    pub result: String,
    /// What it means, if all say the same.
    pub meaning: Meaning,
}

/// What is compared, and which answers are about it.
type Rule = (&'static str, fn(&Answer<'_>) -> bool);

const RULES: [Rule; 9] = [
    ("Round trips between two guests: vshmem's shared memory vs TCP", |one| {
        is(one, Question::Talk, Group::Micro, Environment::Guests) && rival(one, Model::Tcp)
    }),
    ("Shared memory: two guests on vshmem vs System V in one OS kernel", |one| {
        is(one, Question::Place, Group::Micro, Environment::Guests) && has(one, &["raw", "sync"])
    }),
    (
        "Semaphores and messages, spinning against sleeping: two guests on vshmem vs System V in one OS kernel",
        |one| {
            is(one, Question::Place, Group::Micro, Environment::Guests) && has(one, &["sem", "msg"])
        },
    ),
    (
        "Semaphores and messages in one OS kernel, spinning against sleeping: vshmem vs that kernel's own",
        |one| {
            is(one, Question::Pool, Group::Micro, Environment::Native) && has(one, &["sem", "msg"])
        },
    ),
    ("Scientific dwarfs between guests: vshmem vs MPI", |one| {
        is(one, Question::Talk, Group::Dwarfs, Environment::Guests)
    }),
    ("Scientific dwarfs in one OS kernel: vshmem vs MPI and OpenMP", |one| {
        is(one, Question::Talk, Group::Dwarfs, Environment::Native)
    }),
    ("Scientific dwarfs: two guests on vshmem vs System V in one OS kernel", |one| {
        is(one, Question::Place, Group::Dwarfs, Environment::Guests)
            && one.subject.case.model == Model::Vshmem
    }),
    ("Matrix product: one guest vs one OS kernel", |one| {
        is(one, Question::Place, Group::Algebra, Environment::Guest)
            && has(one, &["dgemm", "dgemm-blas"])
    }),
    ("First touch of a page: one guest vs one OS kernel", |one| {
        is(one, Question::Place, Group::System, Environment::Guest)
            && one.subject.case.bench.starts_with("faults")
    }),
];

fn is(one: &Answer<'_>, question: Question, group: Group, place: Environment) -> bool {
    let case = one.subject.case;
    one.question == question && case.group == group && case.environment == place
}

fn has(one: &Answer<'_>, benches: &[&str]) -> bool {
    benches.contains(&one.subject.case.bench.as_str())
}

fn rival(one: &Answer<'_>, model: Model) -> bool {
    one.rival.case.model == model
}

/// Those that the answers have.
pub fn findings(answers: &[Answer<'_>]) -> Vec<Finding> {
    let finding = |(what, rule): Rule| {
        let of: Vec<&Answer<'_>> = answers.iter().filter(|one| rule(one)).collect();
        (!of.is_empty()).then(|| Finding { what, result: result(&of), meaning: meaning(&of) })
    };
    RULES.into_iter().filter_map(finding).collect()
}

/// The same for all that are decided, or open.
fn meaning(of: &[&Answer<'_>]) -> Meaning {
    let mut decided =
        of.iter().map(|one| one.meaning()).filter(|meaning| *meaning != Meaning::Open);
    match decided.next() {
        Some(first) if decided.all(|one| one == first) => first,
        _ => Meaning::Open,
    }
}

/// In words: the smallest and the largest difference, and in how many comparisons there is any.
pub fn result(of: &[&Answer<'_>]) -> String {
    let having = |verdicts: &[Verdict]| -> Vec<&Answer<'_>> {
        of.iter().filter(|one| verdicts.contains(&one.ratio.verdict)).copied().collect()
    };
    let open = having(&[Verdict::NoDifferenceShown, Verdict::NotAfterCorrection]);
    let undecided = having(&[Verdict::TooFew, Verdict::NotMeasured]).len();
    let emulated = having(&[Verdict::Emulated]).len();
    let several = of.len() > 1;
    let mut parts = Vec::new();
    for decided in [having(&[Verdict::Faster]), having(&[Verdict::Slower])] {
        if !decided.is_empty() {
            let count = if several { counted(decided.len(), of.len()) } else { String::new() };
            parts.push(format!("{}{count}", range(&decided)));
        }
    }
    if !open.is_empty() {
        let count = if several { counted(open.len(), of.len()) } else { String::new() };
        parts.push(format!("no difference shown{count}"));
    }
    if undecided > 0 {
        parts.push(format!("{undecided} of {} undecided: too few pairs", of.len()));
    }
    if emulated > 0 {
        parts.push(format!("{emulated} of {} emulated: nothing is concluded", of.len()));
    }
    let sentence = format!("{}.", parts.join("; "));
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn counted(count: usize, of: usize) -> String {
    if count == of { format!(" in all {of} comparisons") } else { format!(" in {count} of {of}") }
}

/// The smallest and the largest difference, with their sizes; of one, its interval.
fn range(decided: &[&Answer<'_>]) -> String {
    let mut sorted = decided.to_vec();
    sorted.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return String::new() };
    if sorted.len() == 1 {
        let (times, at) = (words::times(least.ratio.ratio), at(least));
        return format!("{times}{}{})", at.trim_end_matches(')'), sure(least));
    }
    let (low, high) = (words::times(least.ratio.ratio), words::times(most.ratio.ratio));
    let low = low.split(' ').next().unwrap_or_default();
    format!("{low}{} to {high}{}", at(least), at(most))
}

/// The interval, in the direction of what it belongs to.
fn sure(answer: &Answer<'_>) -> String {
    let Some(ends) = answer.ratio.interval else { return String::new() };
    let (low, high) = match answer.ratio.ratio < 1.0 {
        true => (1.0 / ends.high, 1.0 / ends.low),
        false => (ends.low, ends.high),
    };
    format!("; 95 % interval {} to {}", words::three_digits(low), words::three_digits(high))
}

fn distance(answer: &Answer<'_>) -> f64 {
    answer.ratio.ratio.ln().abs()
}

fn at(answer: &Answer<'_>) -> String {
    let case = answer.subject.case;
    let size = words::size(case);
    match case.group {
        Group::Micro if size.is_empty() => format!(" ({})", case.bench),
        Group::Micro => format!(" ({}, {size})", case.bench),
        _ => format!(" ({} {size})", case.bench),
    }
}
