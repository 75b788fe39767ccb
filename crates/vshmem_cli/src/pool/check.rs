//! `vshmem pool check`.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vshmem_ipc::{Finding, Severity};
use vshmem_session::{find, open_pool};

use crate::failure::{Failure, Outcome, unreadable};
use crate::show;

/// Check a pool for inconsistencies
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct Check {
    /// Its name.
    name: String,
    /// Repair what crashes have left unfinished, then check.
    #[arg(long)]
    repair: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

const NOTES: &str = "\
Exit code 1 when something is wrong or unfinished. It looks again for some milliseconds, and \
reports what it finds each time: on a busy pool a step that takes longer may be reported as unfinished.

Examples:
  vshmem pool check job7
  vshmem pool check job7 --repair";

#[derive(Debug, Serialize)]
struct Report {
    pool: String,
    findings: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    severity: &'static str,
    what: String,
}

impl From<Finding> for Line {
    fn from(finding: Finding) -> Self {
        Self {
            severity: match finding.severity {
                Severity::Unfinished => "unfinished",
                Severity::Wrong => "wrong",
            },
            what: finding.what,
        }
    }
}

impl Check {
    /// Looks.
    pub fn carry_out(self) -> Outcome {
        if self.repair {
            repair(&self.name)?;
        }
        let link = find(&self.name)?;
        let pool = open_pool(link.as_ref())?;
        let findings = pool.check().map_err(unreadable(&self.name))?;
        let report =
            Report { pool: self.name, findings: findings.into_iter().map(Line::from).collect() };
        let clean = report.findings.is_empty();
        if self.json {
            show::json(&report)?;
        } else if clean {
            show::line(format!("pool {}: all tables are consistent", report.pool))?;
        } else {
            for line in &report.findings {
                show::line(format!("{}: {}", line.severity, show::sanitized(&line.what)))?;
            }
        }
        if clean { Ok(ExitCode::SUCCESS) } else { Ok(ExitCode::FAILURE) }
    }
}

/// Reaps this domain's dead, of whom the pool cannot know, and mends everything else.
fn repair(name: &str) -> Result<(), Failure> {
    let visit = crate::visit::Visit::join(find(name)?)?;
    visit
        .with(|this_client| -> Result<(), Failure> {
            let participants = super::Participants::of(this_client.pool())?;
            for client in &participants.clients {
                if client.state == vshmem_wire::ClientState::Active && participants.is_over(client)
                {
                    this_client.reap(client.id).map_err(unreadable(name))?;
                }
            }
            // What is left is found by the check that follows.
            this_client.repair().map(drop).map_err(unreadable(name))
        })
        .unwrap_or(Ok(()))
}
