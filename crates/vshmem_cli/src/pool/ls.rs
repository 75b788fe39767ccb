//! `vshmem pool ls`.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vshmem_link::RegionError;
use vshmem_session::{FindError, Listing, open_pool};
use vshmem_wire::DomainState;

use crate::failure::{Failure, Outcome, unreadable};
use crate::table::Table;
use crate::{account, show, size};

use super::Parties;

/// List the pools of this machine.
#[derive(Debug, Args)]
pub struct Ls {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// One pool, or why it cannot be read.
#[derive(Debug, Serialize)]
pub struct Overview {
    name: Option<String>,
    link: &'static str,
    place: PathBuf,
    uuid: Option<String>,
    size: Option<u64>,
    used: Option<u64>,
    mode: Option<String>,
    owner: Option<String>,
    group: Option<String>,
    /// Domains that take part.
    domains: Option<usize>,
    /// Processes that use it, agents left out.
    clients: Option<usize>,
    /// Why it cannot be read.
    pub error: Option<String>,
    /// It belongs to somebody who has not let this user in: nothing is wrong with it.
    #[serde(skip)]
    pub denied: bool,
}

/// All pools of this machine.
pub fn overview() -> Vec<Overview> {
    vshmem_session::list().into_iter().map(describe).collect()
}

fn describe(listing: Listing) -> Overview {
    let meta = std::fs::metadata(&listing.place).ok();
    let mut row = Overview {
        name: None,
        link: listing.kind,
        uuid: None,
        size: None,
        used: None,
        mode: meta.as_ref().map(|meta| format!("{:04o}", meta.mode() & 0o7777)),
        owner: meta.as_ref().map(|meta| account::user_name(meta.uid())),
        group: meta.as_ref().map(|meta| account::group_name(meta.gid())),
        domains: None,
        clients: None,
        error: None,
        denied: false,
        place: listing.place,
    };
    let filled = listing.found.map_err(Failure::from).and_then(|(superblock, _)| {
        row.uuid = Some(super::show::uuid_text(&superblock.uuid));
        row.size = Some(superblock.total_bytes);
        fill(&mut row)
    });
    if let Err(error) = filled {
        row.denied = matches!(error, Failure::Find(FindError::Region(RegionError::Denied { .. })));
        row.error = Some(error.to_string());
    }
    row
}

fn fill(row: &mut Overview) -> Result<(), Failure> {
    let link = vshmem_link::open(&row.place).map_err(vshmem_session::FindError::from)?;
    let pool = open_pool(link.as_ref())?;
    let name = pool.name();
    let parties = Parties::of(&pool)?;
    row.used = Some(pool.usage().map_err(unreadable(&name))?.bytes);
    let alive = parties.domains.iter().filter(|row| row.state == DomainState::Alive);
    row.domains = Some(alive.count());
    row.clients = Some(parties.users().len());
    row.name = Some(name);
    Ok(())
}

impl Ls {
    /// Lists them.
    pub fn carry_out(self) -> Outcome {
        let rows = overview();
        if self.json {
            show::json(&rows)?;
            return Ok(ExitCode::SUCCESS);
        }
        let columns = [
            "NAME", "LINK", "SIZE", "USED", "MODE", "OWNER", "GROUP", "DOMAINS", "CLIENTS", "PLACE",
        ];
        let mut table = Table::new("", &columns);
        let number = |count: Option<usize>| count.map(|n| n.to_string()).unwrap_or_default();
        let mut reasons = String::new();
        for row in rows {
            if let Some(error) = &row.error {
                reasons.push_str(&format!("{}\n", show::clean(error)));
            }
            table.row(vec![
                row.name.unwrap_or_else(|| "?".into()),
                row.link.to_owned(),
                row.size.map(size::show).unwrap_or_default(),
                row.used.map(size::show).unwrap_or_default(),
                row.mode.unwrap_or_default(),
                row.owner.unwrap_or_default(),
                row.group.unwrap_or_default(),
                number(row.domains),
                number(row.clients),
                row.place.display().to_string(),
            ]);
        }
        let below =
            if reasons.is_empty() { String::new() } else { format!("\nNot readable:\n{reasons}") };
        show::text(&format!("{table}{below}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
