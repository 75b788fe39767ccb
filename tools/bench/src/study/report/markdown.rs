//! The results as a page of Markdown, for a tree of documents: machine, findings, what the papers
//! claim, comparisons, and what was not measured.

use super::conclusions::Answer;
use super::findings::Finding;
use super::missing::missing;
use super::{claims, distribution, headlines};
use crate::report::Rows;
use crate::study::journal::Contents;

/// The whole page.
pub fn page(contents: &Contents, answers: &[Answer<'_>], findings: &[Finding]) -> String {
    let mut text = format!("# Results: a run of `vshmem bench run`\n\n{}\n", course(contents));
    text += &machine(contents);
    if !findings.is_empty() {
        text += "\n## Findings\n";
        for finding in findings {
            text += &format!("* {}: **{}**\n", escaped(finding.what), escaped(&finding.result));
        }
    }
    text += &section(&claims::rows(answers));
    text += &section(&headlines::rows(answers).0);
    text += &section(&distribution::rows(contents));
    let missing = missing(contents);
    if !missing.is_empty() {
        text += "\n## Not measured\n";
        for (why, cases) in missing {
            text += &format!("* {}: {} ({} cases)\n", named(&cases), escaped(&why), cases.len());
        }
    }
    text
}

/// What was run, and how much of it.
fn course(contents: &Contents) -> String {
    let study = &contents.study;
    let whole = study.cases.len() * study.repetitions as usize;
    format!(
        "{} runs of {whole}: {} cases, up to {} repetitions each, in {} sessions; extent `{}`, seed {}.",
        contents.samples.len(),
        study.cases.len(),
        study.repetitions,
        contents.sessions.len(),
        study.extent,
        study.seed,
    )
}

fn machine(contents: &Contents) -> String {
    let Some(session) = contents.sessions.first() else { return String::new() };
    let facts = &session.facts;
    let none = "none found";
    let by = facts.hypervisor.as_deref().unwrap_or("no hypervisor that says so");
    let accelerator = facts.accelerator.as_deref().unwrap_or(none);
    let busy = contents.sessions.iter().filter(|session| session.facts.busy).count();
    let mut rows = Rows::new("", ["machine", ""]);
    let mut add = |name: &str, value: String| rows.rows.push(vec![name.into(), value]);
    add("CPU", format!("{}, {} CPUs", facts.cpu, facts.cpus));
    add(
        "memory",
        format!(
            "{} MiB; large pages: {}",
            facts.memory_mib,
            facts.huge_pages.as_deref().unwrap_or(none)
        ),
    );
    add("kernel", facts.kernel.clone());
    add("runs on", format!("{by}; accelerator for guests: {accelerator}"));
    add("guests", facts.guests.clone().unwrap_or_else(|| "not recorded".into()));
    add("begun", facts.date.clone());
    add("load when begun", facts.load.clone());
    if busy > 0 {
        add(
            "busy",
            format!("with other work when {busy} of its sessions began: do not rely on it"),
        );
    }
    add("vshmem", facts.version.clone());
    format!("\n{}", table(&rows))
}

/// The names of cases, without places and models.
fn named(cases: &[String]) -> String {
    const SHOWN: usize = 6;
    let mut names: Vec<&str> =
        cases.iter().map(|case| case.split('.').next().unwrap_or(case)).collect();
    names.dedup();
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    names.truncate(SHOWN);
    format!("`{}`{more}", names.join("`, `"))
}

fn section(rows: &Rows) -> String {
    if rows.rows.is_empty() {
        return String::new();
    }
    format!("\n## {}\n{}", rows.title, table(rows))
}

fn table(rows: &Rows) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&rows.columns) + &format!("|{}\n", "---|".repeat(rows.columns.len()));
    text.extend(rows.rows.iter().map(|row| line(row)));
    text
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\u{a0}'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let mut rows = Rows::new("t", ["a", "b"]);
        rows.rows.push(vec!["1|2".into(), String::new()]);
        assert_eq!(table(&rows), "| a | b |\n|---|---|\n| 1\\|2 |  |\n");
        assert_eq!(section(&Rows::new("t", ["a"])), "");
    }

    #[test]
    fn cases_are_named_once() {
        let cases = ["fio-4096.native.none", "fio-4096.guest.none", "hpcc-1000.guests.mpi"];
        assert_eq!(named(&cases.map(str::to_owned)), "`fio-4096`, `hpcc-1000`");
    }
}
