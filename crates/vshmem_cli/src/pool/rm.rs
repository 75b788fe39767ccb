//! `vshmem pool rm`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use vshmem_link::{Link, PoolDomain, Region};
use vshmem_mem::{Instant, StallProofTimeout};
use vshmem_session::{FindError, Role, Whose, find, identify, list, open_pool};

use crate::failure::{Failure, Outcome, failed};
use crate::here::is_here;
use crate::show;

use super::holders::holders;
use super::{Participants, containers};

/// Remove a pool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Rm {
    /// Its name, or the path of its file.
    name: String,
    /// Even if programs use it: they keep their mappings, but the pool can no longer be found.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  vshmem pool rm job7
  vshmem pool rm job7 --force      although programs or guests use it";

/// How many users a refusal names.
const NAMED: usize = 8;

impl Rm {
    /// Removes it.
    pub fn carry_out(self) -> Outcome {
        // Looked up once: what is looked into is what is removed.
        let found = match (find(&self.name), self.force) {
            (Ok(link), false) => {
                self.require_unused(link.as_ref())?;
                if let Some(file) = link.file() {
                    require_no_containers(&self.name, &file, link.path())?;
                }
                Ok(link)
            }
            // What is no pool has no users.
            (Err(error), false) if !matches!(error, FindError::Damaged { .. }) => {
                return Err(error.into());
            }
            (found, _) => found,
        };
        remove(&self.name, found)?;
        show::line(format!("pool {}: removed", self.name))?;
        Ok(ExitCode::SUCCESS)
    }

    fn require_unused(&self, link: &dyn Link) -> Result<(), Failure> {
        let name = &self.name;
        let granted_here = link.kind() == "xen" && PoolDomain::is_dom0();
        if link.file().is_none() && !granted_here {
            return failed(format!(
                "pool {name}: {} is a device of this guest; only the host can remove the pool behind it",
                link.path().display()
            ));
        }
        // The tables of a damaged pool cannot be relied on; the kernel says which processes have
        // its file mapped.
        let participants = match open_pool(link) {
            Ok(pool) => Participants::of(&pool).ok(),
            Err(vshmem_session::SessionError::Find(FindError::Damaged { .. })) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(participants) = &participants {
            self.require_no_clients(participants)?;
        }
        let known = participants.as_ref().map(pids_here).unwrap_or_default();
        match link.file() {
            Some(file) => self.require_no_holders(&file, &known),
            None => Ok(()),
        }
    }

    fn require_no_clients(&self, participants: &Participants) -> Result<(), Failure> {
        let name = &self.name;
        let users: Vec<String> = participants
            .users()
            .iter()
            .map(|row| show::sanitized(&participants.process(row.domain, row.pid)))
            .collect();
        if users.is_empty() {
            return Ok(());
        }
        failed(format!(
            "pool {name}: {} it ({}). `vshmem ls --pool {name}` shows what they hold; end them first, or remove it anyway: `vshmem pool rm {name} --force`",
            counted(users.len(), "client uses", "clients use"),
            first_of(&users)
        ))
    }

    /// A guest may have the pool as a device, and no client at this moment: its monitor has the
    /// file mapped.
    fn require_no_holders(&self, file: &Region, known: &[u32]) -> Result<(), Failure> {
        let name = &self.name;
        let holders = holders(file, known);
        if holders.is_empty() {
            return Ok(());
        }
        failed(format!(
            "pool {name}: {} its file mapped, as a virtual machine that was given it does ({}). End these first, or remove it anyway: `vshmem pool rm {name} --force`",
            counted(holders.len(), "process has", "processes have"),
            first_of(&holders)
        ))
    }
}

/// A number with the words for one or for several.
fn counted(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Clients of this domain, and its agent.
fn pids_here(participants: &Participants) -> Vec<u32> {
    let Some(here) = participants.domains.iter().find(|domain| is_here(domain)) else {
        return Vec::new();
    };
    let clients = participants.clients.iter();
    let mut pids: Vec<u32> =
        clients.filter(|client| client.domain == here.index).map(|client| client.pid).collect();
    pids.push(here.agent);
    pids
}

/// A container may have the pool, and no client at this moment.
fn require_no_containers(name: &str, file: &Region, path: &Path) -> Result<(), Failure> {
    let found = containers::with_file(file, path);
    if found.is_empty() {
        return Ok(());
    }
    failed(format!(
        "pool {name}: {} containers were given it ({}). Stop them first, or remove it anyway: `vshmem pool rm {name} --force`",
        found.len(),
        first_of(&found)
    ))
}

/// Those that a refusal names.
fn first_of(users: &[impl ToString]) -> String {
    let shown: Vec<String> = users.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if users.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Removes a pool's file, and this domain's wait file for it: the file that was found and looked
/// into, and no other.
fn remove(name: &str, found: Result<Box<dyn Link>, FindError>) -> Result<(), Failure> {
    let by_path = name.contains('/');
    let file = found.as_ref().ok().and_then(|link| link.file());
    let identified = found.and_then(|link| identify(link.as_ref()));
    if by_path && let Err(error) = identified {
        // A file of any name: only what is a pool is removed.
        return Err(error.into());
    }
    let uuid = identified.ok().map(|(superblock, _)| superblock.uuid);
    let xen = if by_path { None } else { vshmem_session::retire_xen(name)? };
    match (xen, file) {
        (Some(pool), _) => remove_domain(name, pool)?,
        (None, Some(file)) => drop(vshmem_session::remove_seen(name, &file)?),
        (None, None) => drop(vshmem_session::remove(name)?),
    }
    if !by_path {
        // Left by a server whose guests went on. Beside a path lies another file of such a name.
        let _ = std::fs::remove_file(vshmem_serve::ServerPaths::usual(name).record);
    }
    if let Some(uuid) = uuid.filter(|uuid| !is_of_another(uuid)) {
        vshmem_link::remove_wait_files(&uuid);
        vshmem_link::remove_notice_marks(&uuid, true);
        vshmem_link::remove_left_lists(&uuid);
    }
    Ok(())
}

/// Whether another pool that can be seen here has this UUID. A pool's members write what its UUID
/// is: they could name that of another pool, and have root remove the files by which its threads
/// sleep.
fn is_of_another(uuid: &[u8; 16]) -> bool {
    let pools = list(Whose::Everybodys).into_iter();
    pools.filter_map(|row| row.found.ok()).any(|(superblock, _)| superblock.uuid == *uuid)
}

/// Removes a pool that has a Xen domain, once its server has seen that it is to go: it would grant
/// the pool anew.
fn remove_domain(name: &str, pool: PoolDomain) -> Result<(), Failure> {
    const TIMEOUT: Duration = Duration::from_secs(10);
    // The server may have been stopped together with this process.
    const MOST_OF_A_LOOK: Duration = Duration::from_millis(200);
    let path = find(name).map(|link| link.path().to_owned());
    let mut timeout = StallProofTimeout::new(Instant::now(), TIMEOUT, MOST_OF_A_LOOK);
    while path.as_ref().is_ok_and(|path| Role::Server.is_held(path))
        && !timeout.is_over(Instant::now())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_named_as_several() {
        let words = |number| counted(number, "client uses", "clients use");
        assert_eq!([1, 2].map(words), ["1 client uses", "2 clients use"]);
    }
}
