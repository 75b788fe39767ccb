//! `vshmem bench report`: what follows from what was measured.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use vshmem_bench::study::{Contents, report};

use crate::failure::{Failure, Outcome};
use crate::table::{objects, table};
use vshmem_cli::show;

/// The report of a directory again: one HTML page, tables, figures.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vshmem bench report vshmem-bench-20250101-120000")]
pub struct Report {
    /// The directory of `vshmem bench run`. It may still be at work there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print all conclusions: for each size and place. Without: one line for each question about
    /// each benchmark.
    #[arg(long)]
    all: bool,
    /// Print all conclusions as JSON.
    #[arg(long)]
    json: bool,
    /// Write the figures as PDF, too: DIR/figures/*.pdf, by rsvg-convert, inkscape or cairosvg.
    #[arg(long)]
    pdf: bool,
}

impl Report {
    /// Writes it.
    pub fn carry_out(self) -> Outcome {
        let contents = Contents::read(&self.directory)?;
        let page = report::write(&self.directory, &contents)?;
        if self.pdf {
            report::pdf_figures(&self.directory)?;
        }
        if self.json {
            show::json(&objects(&report::conclusions(&contents)))?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.all {
            show::text(&format!("{}\n", table(report::conclusions(&contents))))?;
        } else {
            show_headlines(&contents, &page)?;
        }
        show::line(page.display().to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The conclusions that fit on a terminal, and where the others are.
pub(crate) fn show_headlines(contents: &Contents, page: &Path) -> Result<(), Failure> {
    for (what, result) in report::findings(contents) {
        show::line(format!("{what}: {result}"))?;
    }
    let (headlines, more) = report::headlines(contents);
    show::text(&format!("{}\n", table(headlines)))?;
    let pages = report::pages(contents);
    if !pages.rows.is_empty() {
        show::text(&format!("{}\n", table(pages)))?;
    }
    if more > 0 {
        let directory = page.parent().unwrap_or(page).display();
        show::line(format!(
            "{more} more in {} (`vshmem bench report --all {directory}` prints all)",
            page.display()
        ))?;
    }
    Ok(())
}
