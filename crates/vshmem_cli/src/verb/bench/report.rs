//! `vshmem bench report`: what follows from what was measured.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use vshmem_bench::study::{Contents, report};

use super::table;
use crate::failure::Outcome;
use crate::show;

/// The report of a directory again: one HTML page, tables, figures.
#[derive(Debug, Args)]
pub struct Report {
    /// The directory of `vshmem bench run`. It may still be at work there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Report {
    /// Writes it.
    pub fn carry_out(self) -> Outcome {
        let contents = Contents::read(&self.directory)?;
        let page = report::write(&self.directory, &contents)?;
        show::text(&format!("{}\n", table(report::conclusions(&contents))))?;
        show::line(page.display().to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}
