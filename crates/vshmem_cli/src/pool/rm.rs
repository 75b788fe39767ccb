//! `vshmem pool rm`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use vshmem_link::PoolDomain;
use vshmem_mem::{Instant, Patience};
use vshmem_session::{Duty, FindError, find, open_pool};

use crate::failure::{Failure, Outcome, failed};
use crate::show;

use super::Participants;

/// Remove a pool.
#[derive(Debug, Args)]
pub struct Rm {
    /// Its name, or the path of its file.
    name: String,
    /// Even if programs use it: they keep what they have mapped, and nobody finds it any more.
    #[arg(long)]
    force: bool,
}

/// How many users a refusal names.
const NAMED: usize = 8;

impl Rm {
    /// Removes it.
    pub fn carry_out(self) -> Outcome {
        if !self.force {
            self.require_unused()?;
        }
        remove(&self.name)?;
        show::line(format!("pool {}: removed", self.name))?;
        Ok(ExitCode::SUCCESS)
    }

    fn require_unused(&self) -> Result<(), Failure> {
        let name = &self.name;
        let link = match find(name) {
            Ok(link) => link,
            // What is no pool has no users.
            Err(FindError::Damaged { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let granted_here = link.kind() == "xen" && PoolDomain::is_dom0();
        if link.kind() != "local" && !granted_here {
            return failed(format!(
                "pool {name}: {} is lent to this guest; only the host can remove the pool behind it",
                link.place().display()
            ));
        }
        let pool = match open_pool(link.as_ref()) {
            Ok(pool) => pool,
            Err(vshmem_session::SessionError::Find(FindError::Damaged { .. })) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Tables that do not make sense are a reason to remove it, not to keep it.
        let Ok(participants) = Participants::of(&pool) else {
            return Ok(());
        };
        let users: Vec<String> = participants
            .users()
            .iter()
            .map(|row| show::clean(&participants.process(row.domain, row.pid)))
            .collect();
        if users.is_empty() {
            return Ok(());
        }
        let more = if users.len() > NAMED { ", ..." } else { "" };
        failed(format!(
            "pool {name}: {} clients use it ({}{more}). End them first, evict their domain with `vshmem pool evict`, or remove it all the same with --force",
            users.len(),
            users[..users.len().min(NAMED)].join(", ")
        ))
    }
}

/// Removes a pool's file, and this domain's wait file for it.
pub fn remove(name: &str) -> Result<(), Failure> {
    if name.contains('/') {
        // A file of any name: only what is a pool is removed.
        vshmem_session::identify(find(name)?.as_ref())?;
    }
    let uuid = find(name)
        .ok()
        .and_then(|link| vshmem_session::identify(link.as_ref()).ok())
        .map(|(superblock, _)| superblock.uuid);
    let xen = if name.contains('/') { None } else { vshmem_session::retire_xen(name)? };
    match xen {
        None => {
            vshmem_session::remove(name)?;
        }
        Some(pool) => remove_domain(name, pool)?,
    }
    // Left by a server whose guests went on.
    let _ = std::fs::remove_file(vshmem_serve::Places::usual(name).record);
    if let Some(uuid) = uuid {
        remove_wait_files(&uuid);
    }
    Ok(())
}

/// Only domains that cannot sleep on pool memory have any, one for each user.
fn remove_wait_files(uuid: &[u8; 16]) {
    let (directory, stem) = vshmem_link::wait_files(uuid);
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(stem.as_bytes()) {
            // Those of other users are theirs, or root's, to remove.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes a pool that has a Xen domain, once its server has seen that it is to go: it would grant
/// the pool anew.
fn remove_domain(name: &str, pool: PoolDomain) -> Result<(), Failure> {
    const PATIENCE: Duration = Duration::from_secs(10);
    // The server may have been stopped together with this process.
    const MOST_OF_A_LOOK: Duration = Duration::from_millis(200);
    let place = find(name).map(|link| link.place().to_owned());
    let mut patience = Patience::new(Instant::now(), PATIENCE, MOST_OF_A_LOOK);
    while place.as_ref().is_ok_and(|place| Duty::Server.is_manned(place))
        && !patience.is_over(Instant::now())
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    if let (domain, mapped @ 1..) = vshmem_session::destroy_xen(name, pool)? {
        show::line(format!(
            "pool {name}: {mapped} grants are still mapped; Xen domain {domain} is gone when they are unmapped"
        ))?;
    }
    Ok(())
}
