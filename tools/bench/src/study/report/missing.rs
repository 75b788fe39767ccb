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
        let lapse = contents.lapses.iter().rfind(|lapse| lapse.case == case.name);
        let why = lapse.map_or("not run yet", |lapse| lapse.why.as_str());
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, cases)) => cases.push(case.name.clone()),
            None => reasons.push((why.to_owned(), vec![case.name.clone()])),
        }
    }
    reasons
}
