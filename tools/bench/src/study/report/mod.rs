//! What follows from a journal: one page of HTML that needs nothing else, tables for other
//! programs, figures for papers.

mod axis;
mod chart;
mod claims;
mod compared;
mod conclusions;
mod csv;
mod diagram;
mod distribution;
mod figures;
mod findings;
mod headlines;
mod latex;
mod markdown;
mod missing;
mod page;
mod pages;
mod pdf;
mod series;
mod strip_plot;
mod tables;
mod ticks;
mod words;

use std::path::{Path, PathBuf};

use super::journal::Contents;
use crate::error::{Error, Result};
use crate::report::Rows;

pub use compared::{compared, conclusions_apart, machines_apart};
pub use missing::missing;
pub use pages::pages;
pub use pdf::figures as pdf_figures;

/// The page's name in its directory.
pub const PAGE: &str = "report.html";

/// Writes `report.html`, `results.md`, `summary.csv`, `samples.csv`, `figures/*.svg` and `*.tex`
/// and `tables/*.tex` into that directory; the page's path.
///
/// # Errors
/// When one of them cannot be written.
pub fn write(directory: &Path, contents: &Contents) -> Result<PathBuf> {
    let all = series::all(contents);
    let answers = conclusions::answers(&all, contents.study.seed);
    let findings = findings::findings(&answers);
    let diagrams = figures::all(contents, &all, &answers);
    let folder = |name: &str| {
        let folder = directory.join(name);
        std::fs::create_dir_all(&folder)
            .map_err(Error::io(format!("make the directory {}", folder.display())))
            .map(|()| folder)
    };
    let place = folder("figures")?;
    for diagram in &diagrams {
        put(&place.join(format!("{}.svg", diagram.name)), &diagram.wide)?;
        let tex = latex::figure(&diagram.name, &diagram.caption);
        put(&place.join(format!("{}.tex", diagram.name)), &tex)?;
    }
    let place = folder("tables")?;
    for table in tables::all(contents, &all, &answers, &findings) {
        let tex = latex::table(&table.name, &table.caption, &table.rows);
        put(&place.join(format!("{}.tex", table.name)), &tex)?;
    }
    put(&directory.join("summary.csv"), &csv::summary(&all))?;
    put(&directory.join("samples.csv"), &csv::samples(contents, &all))?;
    put(&directory.join("results.md"), &markdown::page(contents, &answers, &findings))?;
    let path = directory.join(PAGE);
    let parts = page::Parts {
        contents,
        all: &all,
        answers: &answers,
        findings: &findings,
        diagrams: &diagrams,
    };
    put(&path, &page::page(&parts))?;
    Ok(path)
}

/// The findings, a sentence each: what is compared, and what came out.
#[must_use]
pub fn findings(contents: &Contents) -> Vec<(String, String)> {
    let all = series::all(contents);
    let answers = conclusions::answers(&all, contents.study.seed);
    let found = findings::findings(&answers).into_iter();
    found.map(|finding| (finding.what.to_owned(), finding.result)).collect()
}

/// All that may be concluded, for a terminal.
#[must_use]
pub fn conclusions(contents: &Contents) -> Rows {
    let all = series::all(contents);
    conclusions::rows(&conclusions::answers(&all, contents.study.seed))
}

/// One line for each question about each benchmark, for a terminal; and how many conclusions are
/// not in them.
#[must_use]
pub fn headlines(contents: &Contents) -> (Rows, usize) {
    let all = series::all(contents);
    headlines::rows(&conclusions::answers(&all, contents.study.seed))
}

/// In one piece: a reader never sees half a page.
fn put(path: &Path, text: &str) -> Result<()> {
    let failed = || Error::io(format!("write {}", path.display()));
    let beside = path.with_extension("part");
    std::fs::write(&beside, text).map_err(failed())?;
    std::fs::rename(&beside, path).map_err(failed())
}
