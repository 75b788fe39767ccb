//! `vshmem bench compare`: two directories beside each other.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use vshmem_bench::study::{Contents, report};

use crate::failure::Outcome;
use crate::table::{objects, table};
use vshmem_cli::show;

/// Two directories, case by case: how many times as fast the second is as the first.
#[derive(Debug, Args)]
#[command(after_help = NOTE)]
pub struct Compare {
    /// The directory of one `vshmem bench run`.
    #[arg(value_name = "A")]
    one: PathBuf,
    /// That of another.
    #[arg(value_name = "B")]
    other: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

const NOTE: &str = "\
Examples:
  vshmem bench compare before after

The first table has the cases. The two directories were not interleaved: what the machine was like on each
day is in its ratios as well. Its verdicts are about B; where the machines differ, a line says so.
The second table has the conclusions (`vshmem bench report --all`) that A and B judge differently. Each of them
rests on what took turns within one directory.";

impl Compare {
    /// Shows it.
    pub fn carry_out(self) -> Outcome {
        let (one, other) = (Contents::read(&self.one)?, Contents::read(&self.other)?);
        if self.json {
            show::json(&objects(&report::compared(&one, &other).0))?;
            return Ok(ExitCode::SUCCESS);
        }
        for line in report::machines_apart(&one, &other) {
            show::line(line)?;
        }
        for (rows, sentence) in
            [report::compared(&one, &other), report::conclusions_apart(&one, &other)]
        {
            show::text(&table(rows).to_string())?;
            show::line(sentence)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
