//! The conclusions that a terminal has room for: one line for each question about each benchmark,
//! over all its sizes.

use super::conclusions::{Answer, Question, by_heading};
use super::words;
use crate::report::Rows;
use crate::study::case::Model;
use crate::study::environment::Environment;
use crate::study::verdict::Verdict;

/// The verdicts, in the order in which a mixed line names them.
const VERDICTS: [Verdict; 7] = [
    Verdict::Faster,
    Verdict::Slower,
    Verdict::NoDifferenceShown,
    Verdict::NotAfterCorrection,
    Verdict::TooFew,
    Verdict::NotMeasured,
    Verdict::Emulated,
];

/// The lines, by question and then in the catalogue's order; and how many answers are not in them.
pub fn rows(answers: &[Answer<'_>]) -> (Rows, usize) {
    let title = "Conclusions: how many times as fast the first is as the second";
    let mut rows = Rows::new(title, ["question", "what", "size", "times as fast", "verdict"]);
    let mut counted = 0;
    for question in Question::ALL {
        let of: Vec<Answer<'_>> =
            answers.iter().filter(|answer| answer.question == question).cloned().collect();
        let mut benches: Vec<(&str, Vec<_>)> = Vec::new();
        for heading in by_heading(&of) {
            let Some(bench) = heading.1.first().map(|answer| bench(answer)) else { continue };
            match benches.iter_mut().find(|(known, _)| *known == bench) {
                Some((_, headings)) => headings.push(heading),
                None => benches.push((bench, vec![heading])),
            }
        }
        for (_, headings) in benches {
            // Of equals the first.
            let chosen =
                headings.into_iter().min_by_key(|(_, of)| !of.iter().any(|one| is_named(one)));
            let Some((heading, of)) = chosen else { continue };
            counted += of.len();
            let mut row = vec![question.word().to_owned(), heading];
            row.extend([sizes(&of), ratios(&of), verdicts(&of)]);
            rows.rows.push(row);
        }
    }
    (rows, answers.len() - counted)
}

/// What a line is about: with little memory, the benchmark that has enough.
fn bench<'a>(answer: &Answer<'a>) -> &'a str {
    let case = match answer.question {
        Question::Confined => answer.rival.case,
        // The network, not what is compared with it each time.
        Question::Talk if is_networked(answer) => answer.rival.case,
        _ => answer.subject.case,
    };
    case.bench.trim_end_matches("-single")
}

/// The network matters between guests, little memory where there is a disk to swap to.
fn is_named(answer: &Answer<'_>) -> bool {
    let case = answer.subject.case;
    match answer.question {
        Question::Talk if is_networked(answer) => case.environment == Environment::Guests,
        Question::Confined => case.environment == Environment::Guest,
        _ => true,
    }
}

fn is_networked(answer: &Answer<'_>) -> bool {
    matches!(answer.rival.case.model, Model::Tcp | Model::Udp)
}

fn sizes(of: &[&Answer<'_>]) -> String {
    let mut cases: Vec<_> = of.iter().map(|answer| answer.subject.case).collect();
    cases.sort_by_key(|case| case.n);
    match &cases[..] {
        [] => String::new(),
        [only] => words::size(only),
        [first, .., last] if first.n == last.n => words::size(first),
        [first, .., last] => format!("{} .. {}", words::size(first), words::size(last)),
    }
}

fn ratios(of: &[&Answer<'_>]) -> String {
    let mut ratios: Vec<f64> = of.iter().map(|answer| answer.ratio.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    match (of, &ratios[..]) {
        ([only], [ratio]) if only.ratio.interval.is_some() => {
            format!("{} ({})", words::factor(*ratio), words::factors(only.ratio.interval))
        }
        (_, [ratio]) => words::factor(*ratio),
        (_, [low, .., high]) => format!("{} .. {}", words::factor(*low), words::factor(*high)),
        _ => String::new(),
    }
}

fn verdicts(of: &[&Answer<'_>]) -> String {
    let count = |verdict| of.iter().filter(|answer| answer.ratio.verdict == verdict).count();
    let counts = VERDICTS.map(|verdict| (verdict, count(verdict)));
    let there: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    match &there[..] {
        [(only, _)] => only.words().to_owned(),
        several => several
            .iter()
            .map(|(verdict, count)| format!("{count} {}", verdict.words()))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
