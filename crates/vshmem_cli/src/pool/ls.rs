//! `vshmem pool ls`.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vshmem_link::{Rates, RegionError};
use vshmem_session::{FindError, Listing, Whose, snapshot};
use vshmem_wire::{DomainState, PAGE_BYTES};

use crate::failure::{Failure, Outcome, unreadable};
use crate::here::is_here;
use crate::table::Table;
use crate::{account, show, size, uuid};

use super::Participants;

/// List the pools of this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vshmem pool ls\n  vshmem pool ls --json")]
pub struct Ls {
    /// Read other users' files as well. Their content is under those users' control.
    #[arg(long)]
    all: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Their names alone, for completions.
    #[arg(long, hide = true)]
    names: bool,
}

/// One pool, or why it cannot be read.
#[derive(Debug, Serialize)]
pub struct Overview {
    name: Option<String>,
    link: &'static str,
    /// How well the link works here, where it can be had in several ways.
    grade: &'static str,
    #[serde(rename = "place")]
    pub path: PathBuf,
    uuid: Option<String>,
    size: Option<u64>,
    used: Option<u64>,
    /// Free bytes that read as zeros already.
    clean: Option<u64>,
    mode: Option<String>,
    owner: Option<String>,
    group: Option<String>,
    /// Domains that take part.
    domains: Option<usize>,
    /// Processes that use it, agents left out.
    clients: Option<usize>,
    /// MiB a second that this domain reads from the pool, and from private memory; the same for
    /// locked stores. Measured once per boot, by the domain's agent, where the pool is a device.
    rates: Option<[u32; 4]>,
    /// What is wrong with the memory of the device, and what to do.
    slow: Option<String>,
    /// Why it cannot be read.
    pub error: Option<String>,
    /// It belongs to a user that has not let this one in: nothing is wrong with it.
    #[serde(skip)]
    pub denied: bool,
    /// It is another user's file, and was not read.
    pub unread: bool,
}

/// All pools of this machine.
pub fn overview(whose: Whose) -> Vec<Overview> {
    vshmem_session::list(whose).into_iter().map(describe).collect()
}

fn describe(listing: Listing) -> Overview {
    let meta = std::fs::symlink_metadata(&listing.path).ok();
    let mut row = Overview {
        name: None,
        link: listing.kind,
        grade: listing.grade,
        uuid: None,
        size: None,
        used: None,
        clean: None,
        mode: meta.as_ref().map(|meta| format!("{:04o}", meta.mode() & 0o7777)),
        owner: meta.as_ref().map(|meta| account::user_name(meta.uid())),
        group: meta.as_ref().map(|meta| account::group_name(meta.gid())),
        domains: None,
        clients: None,
        rates: None,
        slow: None,
        error: None,
        denied: false,
        unread: false,
        path: listing.path,
    };
    let filled = listing.found.map_err(Failure::from).and_then(|(superblock, _)| {
        row.uuid = Some(uuid::shown(&superblock.uuid));
        row.size = Some(superblock.total_bytes);
        fill(&mut row)
    });
    if filled.is_err() && row.name.is_none() {
        let file = row.path.file_name().and_then(|name| name.to_str());
        row.name = file.and_then(|name| name.strip_prefix("vshmem.")).map(str::to_owned);
        let is_file = |meta: &&std::fs::Metadata| meta.is_file();
        row.size = row.size.or(meta.as_ref().filter(is_file).map(MetadataExt::size));
    }
    if let Err(Failure::Find(FindError::NotAsked { .. })) = filled {
        row.unread = true;
    } else if let Err(error) = filled {
        row.denied = matches!(
            error,
            Failure::Find(FindError::Region(
                RegionError::Denied { .. } | RegionError::DeniedDevice { .. }
            ))
        );
        row.error = Some(error.to_string());
    }
    row
}

fn fill(row: &mut Overview) -> Result<(), Failure> {
    let link = vshmem_link::open(&row.path).map_err(vshmem_session::FindError::from)?;
    let pool = snapshot(link.as_ref())?;
    let name = pool.name();
    let participants = Participants::of(&pool)?;
    row.used = Some(pool.usage().map_err(unreadable(&name))?.bytes);
    let room = pool.space().map_err(unreadable(&name))?;
    row.clean = Some(room.pages_clean * PAGE_BYTES);
    let alive = participants.domains.iter().filter(|row| row.state == DomainState::Alive);
    row.domains = Some(alive.count());
    row.clients = Some(participants.users().len());
    let rates = participants.domains.iter().find(|row| is_here(row)).map(|row| row.rates);
    if let Some(measured) = rates.and_then(Rates::of_array) {
        row.rates = rates;
        row.slow = measured.is_suspicious().then(|| remedy(&name, &measured));
    }
    row.name = Some(name);
    Ok(())
}

fn remedy(name: &str, rates: &Rates) -> String {
    format!(
        "pool {name}: its memory is not cached here: read at {} MiB/s where private memory gives {}. Use the driver ({}) rather than the resource file, place the device's memory above 4 GiB, and do not assign devices without coherent DMA to this machine",
        rates.pool,
        rates.private,
        vshmem_link::guide("qemu-libvirt.md")
    )
}

impl Ls {
    /// Lists them.
    pub fn carry_out(self) -> Outcome {
        let rows = overview(if self.all { Whose::Everybodys } else { Whose::Mine });
        if self.json {
            show::json(&rows)?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.names {
            let of = |row: Overview| Some(format!("{}\n", show::sanitized(&row.name?)));
            show::text(&rows.into_iter().filter_map(of).collect::<String>())?;
            return Ok(ExitCode::SUCCESS);
        }
        show_table(rows)
    }
}

fn show_table(rows: Vec<Overview>) -> Outcome {
    let columns = [
        "NAME", "LINK", "SIZE", "USED", "CLEAN", "MODE", "OWNER", "GROUP", "DOMAINS", "CLIENTS",
        "PLACE",
    ];
    let mut table = Table::new("", &columns);
    let number = |count: Option<usize>| count.map(|n| n.to_string()).unwrap_or_default();
    let (mut reasons, mut warnings) = (String::new(), String::new());
    let unread = rows.iter().filter(|row| row.unread).count();
    let closed = rows.iter().filter(|row| row.denied).count();
    for row in rows {
        if let Some(slow) = &row.slow {
            warnings.push_str(&format!("{}\n", show::sanitized(slow)));
        }
        if let Some(error) = row.error.as_ref().filter(|_| !row.denied || row.name.is_none()) {
            reasons.push_str(&format!("{}\n", show::sanitized(error)));
        }
        table.row(vec![
            show::sanitized(&row.name.unwrap_or_else(|| "?".into())),
            if row.grade.is_empty() {
                row.link.to_owned()
            } else {
                format!("{} ({})", row.link, row.grade)
            },
            row.size.map(size::show).unwrap_or_default(),
            row.used.map(size::show).unwrap_or_default(),
            row.clean.map(size::show).unwrap_or_default(),
            row.mode.unwrap_or_default(),
            row.owner.unwrap_or_default(),
            row.group.unwrap_or_default(),
            number(row.domains),
            number(row.clients),
            show::sanitized(&row.path.display().to_string()),
        ]);
    }
    let below =
        if reasons.is_empty() { String::new() } else { format!("\nNot readable:\n{reasons}") };
    let slow = if warnings.is_empty() { String::new() } else { format!("\nSlow:\n{warnings}") };
    let others = if unread == 0 {
        String::new()
    } else {
        format!("\nNot read: {unread} of other users. `vshmem pool ls --all` reads them\n")
    };
    let closed = if closed == 0 {
        String::new()
    } else {
        format!(
            "\nClosed to you: {closed}. Their owners let a group in, as with `chgrp GROUP PLACE && chmod 0660 PLACE`\n"
        )
    };
    show::text(&format!("{table}{slow}{below}{closed}{others}"))?;
    Ok(ExitCode::SUCCESS)
}
