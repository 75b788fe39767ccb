//! Domains that are PID namespaces below the agent's own: containers, and steps of jobs.
//!
//! Whatever kills a container kills its agent as well, so no process in it can report its end. The
//! agent of a namespace around it sees its init end, and declares the domain dead.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vshmem_ipc::{Client, DomainKey, Errno};
use vshmem_link::{DomainFacts, Sighting, domain_facts, is_same_start, sight};

/// How often in a row a namespace must have been looked for in vain to be taken for ended.
const MISSES: u32 = 2;

/// One domain of this kernel.
#[derive(Debug)]
struct WatchedDomain {
    key: DomainKey,
    init: Option<OwnedFd>,
    missed: u32,
    is_over: bool,
}

impl WatchedDomain {
    fn take_in(&mut self, sighting: Sighting) {
        match sighting {
            // The inode of a namespace that has ended is given again.
            Sighting::There(_, born) if !is_same_start(born, self.key.born) => self.is_over = true,
            Sighting::There(init, _) => (self.init, self.missed) = (Some(init), 0),
            Sighting::Gone => self.missed += 1,
            Sighting::Unknown => self.missed = 0,
        }
        self.is_over |= self.missed >= MISSES;
    }
}

/// The domains that are PID namespaces below this one.
#[derive(Debug)]
pub struct Namespaces {
    /// `None` where this domain cannot be distinguished from others: then nothing is known of any.
    own: Option<DomainFacts>,
    watched: HashMap<u32, WatchedDomain>,
}

impl Namespaces {
    /// Watches nothing yet. Where the facts of this domain cannot be read it never will.
    pub fn new() -> Self {
        Self { own: domain_facts().ok(), watched: HashMap::new() }
    }

    /// Brings what is watched up to what the domain table says, and looks for what has not been
    /// seen.
    pub fn refresh(&mut self, this_client: &Client) -> Result<(), Errno> {
        let Some(own) = &self.own else { return Ok(()) };
        let mut keys = this_client.pool().domain_keys()?;
        keys.retain(|key| key.boot == own.boot_words() && key.pid_namespace != own.pid_namespace);
        self.watched.retain(|_, watched| keys.contains(&watched.key));
        for key in keys {
            let fresh = || WatchedDomain { key, init: None, missed: 0, is_over: false };
            self.watched.entry(key.index).or_insert_with(fresh);
        }
        let unseen = |watched: &&mut WatchedDomain| watched.init.is_none() && !watched.is_over;
        let wanted: BTreeSet<u32> =
            self.watched.values_mut().filter(unseen).map(|one| one.key.pid_namespace).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut sightings = sight(&wanted);
        for watched in self.watched.values_mut().filter(unseen) {
            // Two domains of one inode: another round tells which of them is left.
            if let Some(sighting) = sightings.remove(&watched.key.pid_namespace) {
                watched.take_in(sighting);
            }
        }
        Ok(())
    }

    /// Notices which of them have ended, and declares them dead.
    pub fn reap_dead(&mut self, this_client: &Client) -> Result<(), Errno> {
        for watched in self.watched.values_mut() {
            watched.is_over |= watched.init.as_ref().is_some_and(has_ended);
        }
        let over = |watched: &&WatchedDomain| watched.is_over;
        let dead: Vec<DomainKey> = self.watched.values().filter(over).map(|one| one.key).collect();
        for key in dead {
            this_client.reap_epoch(key.index, key.epoch)?;
            self.watched.remove(&key.index);
        }
        Ok(())
    }

    /// Descriptors that become readable when one of them ends.
    pub fn handles(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.watched.values().filter_map(|watched| watched.init.as_ref()).map(AsFd::as_fd)
    }

    /// Whether one of them that is seen from here has clients.
    pub fn are_in_use(&self, this_client: &Client) -> Result<bool, Errno> {
        for watched in self.watched.values().filter(|watched| watched.init.is_some()) {
            if !this_client.pool().local_clients(watched.key.index)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn has_ended(init: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(init, PollFlags::IN)], Some(&at_once)) == Ok(1)
}
