//! How much of each limit is used: what `ls --limits` shows, and `top` and `metrics` as well.

use serde::Serialize;
use vshmem_ipc::{Kind, Particulars, Pool};
use vshmem_wire::{DomainState, PAGE_BYTES};

use crate::failure::{Failure, unreadable};
use crate::table::Table;

/// A limit of a pool that can be reached by using it.
#[derive(Debug, Clone, Serialize)]
pub struct LimitLine {
    /// As `pool create --limit` takes it; `memory` is what the pool's size leaves for segments.
    pub name: &'static str,
    pub used: u64,
    pub limit: u64,
    /// What it bounds.
    pub of: &'static str,
}

impl LimitLine {
    /// Of what is used, in hundredths.
    pub fn percent(&self) -> u64 {
        (u128::from(self.used) * 100 / u128::from(self.limit.max(1))) as u64
    }
}

/// All of them, in the order of `docs/reference/limits.md`.
pub fn of(pool: &Pool) -> Result<Vec<LimitLine>, Failure> {
    let name = pool.name();
    let space = pool.space().map_err(unreadable(&name))?;
    let objects = pool.usage().map_err(unreadable(&name))?.objects;
    let domains = pool.domains().map_err(unreadable(&name))?;
    let domains = domains.iter().filter(|row| row.state != DomainState::Dead).count() as u64;
    let semaphores: u64 = pool
        .entries(Kind::Semaphore)
        .map_err(unreadable(&name))?
        .iter()
        .map(|entry| match entry.particulars {
            Particulars::Semaphore { count, .. } => u64::from(count),
            _ => 0,
        })
        .sum();
    let geometry = pool.geometry();
    let pages = geometry.pages;
    let line = |name, used: u64, limit: u64, of| LimitLine { name, used, limit, of };
    let count = |kind: Kind| u64::from(objects[kind as usize]);
    Ok(vec![
        line(
            "memory",
            space.pages_used * PAGE_BYTES,
            pages * PAGE_BYTES,
            "bytes of segments, in whole pages",
        ),
        line("shmall", space.pages_used, geometry.shmall, "pages of segments"),
        line("shmmni", count(Kind::Segment), geometry.shmmni.into(), "segments"),
        line("semmni", count(Kind::Semaphore), geometry.semmni.into(), "semaphore sets"),
        line("semmns", semaphores, geometry.semmns.into(), "semaphores"),
        line("msgmni", count(Kind::Queue), geometry.msgmni.into(), "queues"),
        line("domains", domains, geometry.domains.into(), "guests, containers and hosts"),
        line("clients", space.clients.into(), geometry.clients.into(), "processes"),
        line("threads", space.threads.into(), geometry.threads.into(), "threads in calls"),
        line("attaches", space.attaches.into(), geometry.attaches.into(), "segments of processes"),
        line("undos", space.undos.into(), geometry.undos.into(), "sets of processes, SEM_UNDO"),
        line(
            "slabs",
            space.slabs_used.into(),
            geometry.slabs.into(),
            "messages, semaphores, SEM_UNDO: 64 KiB each",
        ),
    ])
}

/// As a table.
pub fn table(lines: &[LimitLine]) -> Table {
    let mut table = Table::new("Limits", &["LIMIT", "USED", "OF", "PERCENT", "WHAT"]);
    for line in lines {
        table.row(vec![
            line.name.into(),
            line.used.to_string(),
            line.limit.to_string(),
            line.percent().to_string(),
            line.of.into(),
        ]);
    }
    table
}

/// The one of which most is used.
pub fn fullest(lines: &[LimitLine]) -> Option<&LimitLine> {
    lines.iter().max_by_key(|line| line.percent())
}
