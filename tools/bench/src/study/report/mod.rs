//! What follows from a journal: one page of HTML that needs nothing else, tables for other
//! programs, figures for papers.

mod chart;
mod compared;
mod conclusions;
mod csv;
mod figures;
mod headlines;
mod missing;
mod page;
mod series;
mod strip_plot;
mod words;

use std::path::{Path, PathBuf};

use super::journal::Contents;
use crate::error::{Error, Result};
use crate::report::Rows;

pub use compared::{compared, machines_apart};
pub use missing::missing;

/// The page's name in its directory.
pub const PAGE: &str = "report.html";

/// Writes `report.html`, `summary.csv`, `samples.csv` and `figures/*.svg` into that directory; the
/// page's path.
///
/// # Errors
/// When one of them cannot be written.
pub fn write(directory: &Path, contents: &Contents) -> Result<PathBuf> {
    let all = series::all(contents);
    let answers = conclusions::answers(&all, contents.study.seed);
    let diagrams = figures::all(contents, &all, &answers);
    let folder = directory.join("figures");
    std::fs::create_dir_all(&folder)
        .map_err(Error::io(format!("make the directory {}", folder.display())))?;
    for diagram in &diagrams {
        put(&folder.join(format!("{}.svg", diagram.name)), &diagram.wide)?;
    }
    put(&directory.join("summary.csv"), &csv::summary(&all))?;
    put(&directory.join("samples.csv"), &csv::samples(contents, &all))?;
    let path = directory.join(PAGE);
    put(&path, &page::page(contents, &all, &answers, &diagrams))?;
    Ok(path)
}

/// All that may be concluded, for a terminal.
#[must_use]
pub fn conclusions(contents: &Contents) -> Rows {
    conclusions::rows(contents, &series::all(contents))
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
