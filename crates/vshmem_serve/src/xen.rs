//! `vshmem pool serve` in dom0, for a pool in a Xen domain of its own: grants it to guests as they
//! come, and takes back what the dead had.
//!
//! It is not on the data path: members map the pool and notify each other by themselves. XenStore
//! tells it when domains come and go.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vshmem_link::{Link, PoolDomain, XenError, XenMember};
use vshmem_session::{Role, RoleLock, Session, SessionError};
use vshmem_wire::DomainState;

use crate::server::Ending;

/// Between two looks at the pool: whether this domain is still an active member.
const ROUND: Duration = Duration::from_secs(1);

/// XenStore tells what happens. Should that be missed: between two looks at all domains, of which
/// each costs XenStore's daemon some requests for every one of them.
const ALL: Duration = Duration::from_secs(10);

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XenEvent {
    /// A guest has become a member.
    Admitted {
        /// Its domid.
        domid: u16,
        /// Its name.
        name: String,
        /// Its slot.
        slot: u32,
    },
    /// A guest cannot become a member.
    Refused {
        /// Why.
        why: String,
    },
    /// What was to be done has to wait.
    Delayed {
        /// Why.
        why: String,
    },
    /// A domain was declared dead in the pool.
    Dead {
        /// The domain's name in the pool.
        name: String,
    },
    /// The grants of a guest that has ended are taken back.
    Revoked {
        /// Its domid.
        domid: u16,
        /// Its name.
        name: String,
        /// Grants that are mapped all the same.
        mapped: u32,
    },
}

impl std::fmt::Display for XenEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admitted { domid, name, slot } => {
                write!(f, "guest {name} (domain {domid}): granted, slot {slot}")
            }
            Self::Refused { why } => write!(f, "not granted: {why}"),
            Self::Delayed { why } => write!(f, "{why}; what was to be done is tried again"),
            Self::Dead { name } => write!(f, "domain {name}: dead (its virtual machine has ended)"),
            Self::Revoked { domid, name, mapped: 0 } => {
                write!(f, "guest {name} (domain {domid}): gone, its grants are revoked")
            }
            Self::Revoked { domid, name, mapped } => write!(
                f,
                "guest {name} (domain {domid}): gone, its grants are revoked; {mapped} are still mapped"
            ),
        }
    }
}

/// Why such a pool cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum XenServeError {
    /// It is another domain's.
    #[error("pool {name}: it is granted to this guest; only dom0 can serve the pool behind it")]
    NotOurs {
        /// The pool.
        name: String,
    },
    /// Xen or XenStore.
    #[error("pool {name}: {error}")]
    Xen {
        /// The pool.
        name: String,
        /// What.
        error: XenError,
    },
    /// The pool cannot be joined.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// There is a server already.
    #[error("pool {name}: it has a server already, and can have one only")]
    Taken {
        /// The pool.
        name: String,
    },
    /// The pool's tables are corrupt.
    #[error("pool {name}: its tables are corrupt ({errno}). `vshmem pool check {name}` says more")]
    Unreadable {
        /// The pool.
        name: String,
        /// What came back.
        errno: Errno,
    },
}

/// A pool's server in dom0.
#[derive(Debug)]
pub struct XenServer {
    name: String,
    pool: PoolDomain,
    session: Session,
    /// What cannot be granted has been said, by domain.
    refused: BTreeMap<String, ()>,
    _post: RoleLock,
}

impl XenServer {
    /// Becomes the server.
    ///
    /// # Errors
    /// Says what failed.
    pub fn start(link: Box<dyn Link>, name: &str) -> Result<Self, XenServeError> {
        let name = name.to_owned();
        let xen = |error| XenServeError::Xen { name: name.clone(), error };
        if !PoolDomain::is_dom0() {
            return Err(XenServeError::NotOurs { name });
        }
        let role_lock =
            RoleLock::take(Role::Server, link.path()).map_err(|error| xen(error.into()))?;
        let Some(role_lock) = role_lock else { return Err(XenServeError::Taken { name }) };
        let pool = PoolDomain::open(&name).map_err(xen)?;
        let Some(mut pool) = pool else { return Err(XenServeError::NotOurs { name }) };
        pool.watch().map_err(xen)?;
        let session = Session::join(link)?;
        Ok(Self { name, pool, session, refused: BTreeMap::new(), _post: role_lock })
    }

    /// Serves until `stop` becomes readable, or there is nothing to serve any more.
    ///
    /// # Errors
    /// When XenStore or Xen refuses a request, or the pool is corrupt.
    pub fn run(
        &mut self,
        stop: BorrowedFd<'_>,
        tell: &mut dyn FnMut(&XenEvent),
    ) -> Result<Ending, XenServeError> {
        let name = self.name.clone();
        let xen = |error| XenServeError::Xen { name: name.clone(), error };
        let mut looked: Option<Instant> = None;
        loop {
            let due = looked.is_none_or(|at| at.elapsed() >= ALL);
            let changed = self.pool.take_changes().map_err(xen)?;
            match self.session.client().is_active_member() {
                Ok(true) => {}
                Ok(false) => return Ok(Ending::Evicted),
                Err(errno) => return Err(XenServeError::Unreadable { name, errno }),
            }
            if due || changed {
                looked = Some(Instant::now());
                match self.round(tell) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Ending::Removed),
                    // All that a round does can be done again.
                    Err(XenServeError::Xen { error, .. }) if error.is_passing() => {
                        tell(&XenEvent::Delayed { why: error.to_string() });
                    }
                    Err(error) => return Err(error),
                }
            }
            let timeout = Timespec { tv_sec: ROUND.as_secs() as i64, tv_nsec: 0 };
            let mut looks = [
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
                PollFd::from_borrowed_fd(self.pool.changes(), PollFlags::IN),
            ];
            // An error (EINTR) is as good as nothing to report.
            if poll(&mut looks, Some(&timeout)).is_ok() && !looks[0].revents().is_empty() {
                return Ok(Ending::Stopped);
            }
        }
    }

    /// Looks at everything; whether there is still something to serve.
    fn round(&mut self, tell: &mut dyn FnMut(&XenEvent)) -> Result<bool, XenServeError> {
        let there = self
            .pool
            .exists()
            .map_err(|error| XenServeError::Xen { name: self.name.clone(), error })?;
        if there {
            self.reap_and_admit(tell)?;
        }
        Ok(there)
    }

    /// Reaps dead clients, and lets newcomers in.
    fn reap_and_admit(&mut self, tell: &mut dyn FnMut(&XenEvent)) -> Result<(), XenServeError> {
        let name = self.name.clone();
        let xen = |error| XenServeError::Xen { name: name.clone(), error };
        self.pool.note_boots().map_err(xen)?;
        for member in self.pool.dead().map_err(xen)? {
            for dead in self.reap(&member)? {
                tell(&XenEvent::Dead { name: dead });
            }
            let mapped = self.pool.release(&member).map_err(xen)?;
            tell(&XenEvent::Revoked { domid: member.domid, name: member.name, mapped });
        }
        let (admitted, refused) = self.pool.admit().map_err(xen)?;
        for member in admitted {
            let XenMember { domid, name, slot, .. } = member;
            tell(&XenEvent::Admitted { domid, name, slot });
        }
        let refused: BTreeMap<String, ()> =
            refused.into_iter().map(|error| (error.to_string(), ())).collect();
        for why in refused.keys().filter(|why| !self.refused.contains_key(*why)) {
            tell(&XenEvent::Refused { why: why.clone() });
        }
        self.refused = refused;
        Ok(())
    }

    /// Declares the domains of a guest dead: those of its kernel's boot. A guest says itself which
    /// that is, so one that another guest has, or dom0, is not believed.
    fn reap(&mut self, dead: &XenMember) -> Result<Vec<String>, XenServeError> {
        let name = self.name.clone();
        let Some(boot) = dead.boot.as_deref().and_then(words) else { return Ok(Vec::new()) };
        let members = self
            .pool
            .members()
            .map_err(|error| XenServeError::Xen { name: name.clone(), error })?;
        let shared = members
            .iter()
            .filter(|other| other.slot != dead.slot)
            .any(|other| other.boot.as_deref().and_then(words) == Some(boot));
        let unreadable = |errno| XenServeError::Unreadable { name: name.clone(), errno };
        let member = self.session.client();
        if shared || member.boot().map_err(unreadable)? == boot {
            return Ok(Vec::new());
        }
        let mut reaped = Vec::new();
        for row in member.pool().domains().map_err(unreadable)? {
            let is_over = row.state == DomainState::Free
                || (row.state == DomainState::Dead && row.clients == 0);
            if row.boot == boot && !is_over {
                member.reap_epoch(row.index, row.epoch).map_err(unreadable)?;
                reaped.push(row.name);
            }
        }
        Ok(reaped)
    }
}

/// A boot id as the domain table holds it.
fn words(text: &str) -> Option<[u32; 4]> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    if digits.len() != 32 {
        return None;
    }
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
    let mut words = [0; 4];
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_read_as_the_domain_table_has_it() {
        let text = "510c68aa-d820-4469-b005-5845dd7950ed";
        let first = u32::from_ne_bytes([0x51, 0x0c, 0x68, 0xaa]);
        assert_eq!(words(text).map(|words| words[0]), Some(first));
        assert_eq!(words("510c68aa"), None);
        assert_eq!(words(""), None);
    }
}
