//! Opening a pool, and joining it.

use std::sync::Arc;

use vshmem_ipc::{Backing, DomainIdentity, Errno, JoinError, Member, Pool, Process, Reach};
use vshmem_link::{Link, RegionError, Sleeping, domain_facts, open_wait_file, process_facts};
use vshmem_mem::{Map, Protection};

use crate::FindError;

/// Why a pool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It cannot be found or read.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It cannot be mapped.
    #[error("pool {0}")]
    Region(#[from] RegionError),
    /// It cannot be joined.
    #[error("pool {name}: {error}")]
    Join {
        /// The pool.
        name: String,
        /// Why not.
        error: JoinError,
    },
}

/// Opens a pool without joining it: enough to look.
///
/// # Errors
/// Says what is wrong with it.
pub fn open_pool(link: &dyn Link) -> Result<Pool, SessionError> {
    let (_, layout) = crate::find::identify(link)?;
    let bytes = layout.data.offset as usize;
    let place = link.place().to_owned();
    // SAFETY: no address is given, so nothing is replaced.
    #[allow(unsafe_code)]
    let mapping = unsafe { link.map(0, bytes, Protection::READ_WRITE, None) }.map_err(|errno| {
        RegionError::Failed { place: place.clone(), tried: "map its tables", errno }
    })?;
    let pool = Pool::open(Arc::new(Map::of(mapping)), link.bytes())
        .map_err(|error| FindError::Damaged { place, error })?;
    Ok(pool)
}

/// A pool that this process has joined.
#[derive(Debug)]
pub struct Session {
    link: Box<dyn Link>,
    member: Member,
}

impl Session {
    /// Joins the pool behind `link` as this process.
    ///
    /// # Errors
    /// Says what stood in the way.
    pub fn join(link: Box<dyn Link>) -> Result<Self, SessionError> {
        let pool = Arc::new(open_pool(link.as_ref())?);
        let facts = domain_facts();
        let identity = DomainIdentity {
            boot_id: facts.boot_id,
            pid_namespace: facts.pid_namespace,
            name: facts.name,
            named: facts.named,
        };
        let (words, reach) = match link.sleeping() {
            Sleeping::InPool => (None, Reach::Kernel),
            Sleeping::InDomain => {
                let superblock = pool.superblock();
                let bytes = superblock.geometry.threads as usize * 4;
                let file =
                    open_wait_file(&superblock.uuid, bytes, superblock.owner_uid, link.place())?;
                (Some(Arc::new(Map::of(file))), Reach::Domain)
            }
        };
        let name = pool.name();
        let member =
            Member::join_over_dead(pool, &identity, this_process(), words, reach, &is_gone)
                .map_err(|error| SessionError::Join { name, error })?;
        Ok(Self { link, member })
    }

    /// The link.
    #[must_use]
    pub fn link(&self) -> &dyn Link {
        self.link.as_ref()
    }

    /// Ends the membership of a process that goes on.
    ///
    /// # Errors
    /// As [`Member::leave`].
    pub fn leave(self) -> Result<(), Errno> {
        self.member.leave()
    }

    /// This process's place in the pool.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }
}

/// Whether a process of this domain is no more, or its pid is somebody else's by now.
#[must_use]
pub fn is_gone(pid: u32, start: u64) -> bool {
    if vshmem_link::process_exists(pid) {
        let now = process_facts(Some(pid)).start;
        return start != 0 && now != 0 && now != start;
    }
    true
}

/// This process, as a pool knows it.
#[must_use]
pub fn this_process() -> Process {
    let facts = process_facts(None);
    Process { pid: facts.pid, start: facts.start, uid: facts.uid }
}

impl Backing for Session {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        self.link.back(offset, bytes, dirty)
    }
}
