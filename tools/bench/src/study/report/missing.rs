//! What was not measured.

use crate::study::case::Case;
use crate::study::journal::Contents;
use crate::study::plausible;

/// Cases without a sample that says something, by what the last attempt said.
#[must_use]
pub fn missing(contents: &Contents) -> Vec<(String, Vec<String>)> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for case in &contents.study.cases {
        let objections = objections(contents, case);
        if objections.iter().any(Option::is_none) {
            continue;
        }
        let failed_run =
            contents.failed_runs.iter().rfind(|failed_run| failed_run.case == case.name);
        let failed = failed_run.map_or("not run yet", |failed_run| failed_run.why.as_str());
        let why = objections.last().copied().flatten().unwrap_or(failed);
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, cases)) => cases.push(case.name.clone()),
            None => reasons.push((why.to_owned(), vec![case.name.clone()])),
        }
    }
    reasons
}

/// For each sample of a case why its first figure says nothing; none where it does.
fn objections(contents: &Contents, case: &Case) -> Vec<Option<&'static str>> {
    let samples = contents.samples.iter().filter(|sample| sample.case == case.name);
    samples
        .map(|sample| {
            let figure = case.figures.first()?;
            let value = figure.of(&sample.output).unwrap_or(sample.value);
            plausible::objection(case, figure, &sample.output, value)
        })
        .collect()
}
