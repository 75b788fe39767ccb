//! Where the pages of a plan's programs and guests lay.

use std::collections::BTreeMap;

use crate::report::Rows;
use crate::study::environment::Environment;
use crate::study::journal::Contents;
use crate::study::placement::Pages;

/// A line for each place and each kind of memory, over all runs that count; none where no plan was
/// followed.
#[must_use]
pub fn pages(contents: &Contents) -> Rows {
    let title = "Pages by node, over all runs";
    let mut rows = Rows::new(title, ["where", "memory", "planned", "found", "elsewhere"]);
    for environment in Environment::ALL {
        let cases = contents.study.cases.iter().filter(|case| case.environment == environment);
        let names: Vec<&str> = cases.map(|case| case.name.as_str()).collect();
        let samples =
            contents.samples.iter().filter(|sample| names.contains(&sample.case.as_str()));
        for sum in summed(samples.flat_map(|sample| &sample.pages)) {
            rows.rows.push(vec![
                environment.words().into(),
                sum.of.clone(),
                format!("node {}", sum.planned),
                found(&sum),
                percent(sum.leaked(), sum.bytes()),
            ]);
        }
    }
    rows
}

fn summed<'a>(all: impl Iterator<Item = &'a Pages>) -> Vec<Pages> {
    let mut sums: Vec<Pages> = Vec::new();
    for pages in all {
        match sums.iter_mut().find(|sum| sum.of == pages.of && sum.planned == pages.planned) {
            Some(sum) => sum.add(&pages.by_node),
            None => sums.push(pages.clone()),
        }
    }
    sums
}

fn found(pages: &Pages) -> String {
    let all: BTreeMap<u32, String> =
        pages.by_node.iter().map(|(node, bytes)| (*node, percent(*bytes, pages.bytes()))).collect();
    let parts: Vec<String> =
        all.iter().map(|(node, share)| format!("{share} on node {node}")).collect();
    parts.join(", ")
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use vshmem_plan::NumberSet;

    use super::*;
    use crate::study::case::Case;
    use crate::study::facts::Load;
    use crate::study::journal::{Sample, Study};

    #[test]
    fn what_lay_elsewhere_is_a_share_of_all_runs() {
        let pages = |by_node: &[(u32, u64)]| Pages {
            of: "own memory".into(),
            planned: NumberSet::from_list("1").unwrap(),
            by_node: by_node.iter().copied().collect(),
        };
        let sample = |repetition, by_node: &[(u32, u64)]| Sample {
            case: "one".into(),
            repetition,
            value: 0.5,
            around: Load::default(),
            emulated: None,
            pages: vec![pages(by_node)],
            output: serde_json::Value::Null,
        };
        let contents = Contents {
            study: Study::new("quick", 1, 2, None, vec![Case::named("one")]),
            sessions: Vec::new(),
            warm_ups: Vec::new(),
            samples: vec![sample(1, &[(1, 6000)]), sample(2, &[(0, 2000)])],
            failed_runs: Vec::new(),
        };
        let row = ["one OS kernel", "own memory", "node 1"];
        let row = [&row[..], &["25.0 % on node 0, 75.0 % on node 1", "25.0 %"]].concat();
        assert_eq!(super::pages(&contents).rows, [row]);
    }
}
