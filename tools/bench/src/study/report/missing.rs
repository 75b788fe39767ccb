//! What was not measured.

use crate::study::journal::Contents;

/// Cases without a sample, by what the last attempt said.
#[must_use]
pub fn missing(contents: &Contents) -> Vec<(String, Vec<String>)> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for case in &contents.study.cases {
        if contents.samples.iter().any(|sample| sample.case == case.name) {
            continue;
        }
        let failed_run =
            contents.failed_runs.iter().rfind(|failed_run| failed_run.case == case.name);
        let why = failed_run.map_or("not run yet", |failed_run| failed_run.why.as_str());
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, cases)) => cases.push(case.name.clone()),
            None => reasons.push((why.to_owned(), vec![case.name.clone()])),
        }
    }
    reasons
}
